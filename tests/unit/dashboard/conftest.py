"""Fresh databases for indexes."""

from collections.abc import Callable, Iterator

import pytest

from bytewise.service.settings import developer_variable
from tests.fixtures.dashboard.index_databases import empty_databases


@pytest.fixture
def new_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], str]]:
    """Makes empty databases."""
    with empty_databases(tmp_path_factory.mktemp("indexes"), developer_variable("TEST_DATABASE")) as make:
        yield make
