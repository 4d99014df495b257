"""Reads the state of a database without writing to it."""

from dataclasses import dataclass

from sqlalchemy import Engine, text

from bytewise.storage.engine import read_transaction


@dataclass(frozen=True, slots=True)
class DatabaseHealth:
    """State of a database at one moment."""

    kind: str
    """Kind of the database: `sqlite` or `postgresql`."""
    is_durable: bool
    """Whether a transaction is on the disk when its commit returns."""
    size_bytes: int
    """Size of the whole database in bytes."""


def database_health(engine: Engine) -> DatabaseHealth:
    """Reads the state of an open database. Raises `TryAgain` if the database does not answer."""
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
