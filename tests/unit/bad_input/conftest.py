"""One court for all tests of this folder: its model is converted once, its keys are dealt once."""

from collections.abc import Iterator

import pytest

from tests.fixtures.bad_input.courtroom import Court


@pytest.fixture(scope="session")
def court(tmp_path_factory: pytest.TempPathFactory) -> Court:
    """A model, an engine, dealt keys; no shard is up."""
    return Court(tmp_path_factory.mktemp("court"))


@pytest.fixture(scope="module")
def sitting(court: Court) -> Iterator[Court]:
    """The court with all three shards up."""
    with court.sitting():
        yield court
