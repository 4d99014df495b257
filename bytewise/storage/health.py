"""The state of a database, read without a write."""

from dataclasses import dataclass

from sqlalchemy import Engine, text

from bytewise.storage.engine import read_transaction


@dataclass(frozen=True, slots=True)
class DatabaseHealth:
    """State of a database at one time."""

    kind: str
    """`sqlite` or `postgresql`."""
    is_durable: bool
    """Whether a commit is on the disk when it returns."""
    size_bytes: int
    """Size of all its data."""


def database_health(engine: Engine) -> DatabaseHealth:
    """Reads the state of an open database. `TryAgain` if it does not answer."""
    kind = engine.dialect.name
    with read_transaction(engine) as connection:
        if kind == "sqlite":
            synchronous = connection.execute(text("PRAGMA synchronous")).scalar_one()
            pages = connection.execute(text("PRAGMA page_count")).scalar_one()
            return DatabaseHealth(kind, synchronous >= 2, pages * connection.execute(text("PRAGMA page_size")).scalar_one())
        names = ("fsync", "synchronous_commit", "full_page_writes")
        values = [connection.execute(text("SELECT current_setting(:name)"), {"name": name}).scalar_one() for name in names]
        size = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
        return DatabaseHealth(kind, "off" not in values, size)
