"""Opens the one database of a process, and gives transactions.

SQLite: WAL, `synchronous=FULL` (a committed row survives power loss), foreign keys, a bounded busy wait, and BEGIN IMMEDIATE
for writers: a deferred transaction that read first may not become a writer later (design section 2).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError

from bytewise.protocol.errors import ConfigurationError, StoreCorrupt, TryAgain
from bytewise.storage.base import Base

HEAD = "0003"
"""Newest Alembic revision; a test compares it with the migrations, so that actors need not import Alembic."""

BUSY_TIMEOUT_MS = 15_000
"""How long a writer waits for another: above the longest transaction (a signature and an fsync) by far."""

_READ_ONLY = "bytewise_read_only"


def open_database(url: str) -> Engine:
    """Engine of `sqlite:///file` or `postgresql+psycopg://…`; `ConfigurationError` for anything else."""
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        if backend == "sqlite":
            return _open_sqlite(url)
        if backend == "postgresql":
            return create_engine(url, pool_pre_ping=True, pool_timeout=BUSY_TIMEOUT_MS / 1000)
    except (ArgumentError, ModuleNotFoundError) as error:
        raise ConfigurationError("database", type(error).__name__) from None
    raise ConfigurationError("database", f"{backend} is not supported")


def check_revision(engine: Engine) -> str:
    """The schema revision, if it is the one this code knows; otherwise `ConfigurationError`."""
    try:
        with engine.connect() as connection:
            found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    except SQLAlchemyError:
        found = None
    if found != HEAD:
        raise ConfigurationError("database", f"revision {found}, expected {HEAD}: run `python -m bytewise.storage migrate`")
    return HEAD


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One read-write transaction: commits at the end, rolls back on any error. `TryAgain` if the database is busy."""
    with _mapped(), engine.begin() as connection:
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One read-only transaction: a consistent view that waits for no writer."""
    with _mapped(), engine.connect().execution_options(**{_READ_ONLY: True}) as connection, connection.begin():
        yield connection


def insert_if_absent(connection: Connection, table: type[Base], **values: Any) -> bool:
    """Inserts unless a unique key of the row exists already; returns whether it inserted."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).values(**values).on_conflict_do_nothing()
    return connection.execute(statement).rowcount == 1


def _open_sqlite(url: str) -> Engine:
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # pysqlite must not begin transactions of its own
        for pragma in (
            f"busy_timeout={BUSY_TIMEOUT_MS}", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON",
        ):  # fmt: skip
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        read_only = connection.get_execution_options().get(_READ_ONLY, False)
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


@contextmanager
def _mapped() -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        raise TryAgain("database", str(error.orig)[:120]) from error
    except DBAPIError as error:
        # Never the statement's parameters: they can hold what an actor must not log.
        raise StoreCorrupt("database", f"{type(error).__name__}: {str(error.orig)[:120]}") from error
