"""Fresh migrated databases: SQLite files, or databases of the PostgreSQL server that `BYTEWISE_TEST_DATABASE` names."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine

from bytewise.service.settings import developer_variable
from bytewise.storage.engine import open_database
from tests.fixtures.storage.databases import Databases, PostgresDatabases, SqliteFiles
from tests.fixtures.storage.hand_clock import HandClock


@pytest.fixture(scope="session")
def sqlite_files(tmp_path_factory: pytest.TempPathFactory) -> SqliteFiles:
    """SQLite, whatever the tests at large run on."""
    return SqliteFiles(tmp_path_factory.mktemp("databases"))


@pytest.fixture(scope="session")
def databases(sqlite_files: SqliteFiles) -> Iterator[Databases]:
    """Where this run's databases come from."""
    server = developer_variable("TEST_DATABASE")
    if server is None:
        yield sqlite_files
        return
    postgres = PostgresDatabases(server)
    yield postgres
    postgres.close()


@pytest.fixture
def fresh(databases: Databases) -> Iterator[Callable[[], str]]:
    """Makes databases at the newest revision; gone after the test."""
    made: list[str] = []

    def make() -> str:
        made.append(databases.create())
        return made[-1]

    yield make
    for url in made:
        databases.drop(url)


@pytest.fixture
def url(fresh: Callable[[], str]) -> str:
    """URL of a fresh database."""
    return fresh()


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """The fresh database, open."""
    opened = open_database(url)
    yield opened
    opened.dispose()


@pytest.fixture
def sqlite_engine(sqlite_files: SqliteFiles) -> Iterator[Engine]:
    """A fresh SQLite database, open: for what only SQLite has."""
    url = sqlite_files.create()
    opened = open_database(url)
    yield opened
    opened.dispose()
    sqlite_files.drop(url)


@pytest.fixture
def clock() -> HandClock:
    """A clock that stands still."""
    return HandClock()
