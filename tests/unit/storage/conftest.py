"""A migrated database per test."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bytewise.storage.engine import open_database
from bytewise.storage.migrate import migrate


class HandClock:
    """A clock that a test turns."""

    def __init__(self, seconds: int = 1_800_000_000) -> None:
        self.seconds = seconds

    def now(self) -> int:
        return self.seconds


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database at the newest revision, to be copied."""
    path = tmp_path_factory.mktemp("template") / "node.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture
def url(migrated: Path, tmp_path: Path) -> str:
    """URL of a fresh database."""
    return f"sqlite:///{shutil.copy(migrated, tmp_path / 'node.db')}"


@pytest.fixture
def engine(url: str) -> Engine:
    """The fresh database, open."""
    return open_database(url)


@pytest.fixture
def clock() -> HandClock:
    """A clock that stands still."""
    return HandClock()
