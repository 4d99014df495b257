"""A real operator process and the official client in front of it, for a module of tests."""

from collections.abc import Iterator

import openai
import pytest

from tests.fixtures.serving.operator_site import Operator, running_operator_site, serving


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with running_operator_site(tmp_path_factory.mktemp("operator")) as site, serving(site):
        yield site


@pytest.fixture
def client(operator: Operator) -> Iterator[openai.OpenAI]:
    with (
        operator.http() as http,
        openai.OpenAI(base_url=f"{operator.url}/v1", api_key="x", http_client=http, timeout=60.0) as api,
    ):
        yield api
