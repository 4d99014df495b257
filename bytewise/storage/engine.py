"""Opens the one database of a process, and provides its transactions.

SQLite: each connection uses WAL, `synchronous=FULL` (a committed row survives power loss), foreign keys and a bounded wait for
locks. Writers start with BEGIN IMMEDIATE, because a transaction that starts as a reader may fail when it begins to write (design
section 2). A new file has `auto_vacuum`, so that it can return free pages to the file system.

PostgreSQL: writers run at READ COMMITTED, and a commit waits for the disk, whatever the server's defaults are. `lock_name` makes
transactions exclusive: it locks a row with the name of the lock. Readers see one snapshot. Waits for locks are bounded as on
SQLite.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bytewise.protocol.errors.actors import ConfigurationError, StoreCorrupt, TryAgain
from bytewise.service.clock import monotonic_s
from bytewise.storage.tables import Base, NamedLockRow

REVISIONS = ("0001",)
"""The revisions of the Alembic migrations, oldest first. Actors read them here, so that they need not import Alembic. A test
compares this list with the migrations."""
HEAD = REVISIONS[-1]
"""The newest revision."""

BUSY_TIMEOUT_MS = 15_000
"""Milliseconds that a writer waits for another writer. It is far longer than the longest transaction, which makes a signature
and one fsync."""

_READ_ONLY = "bytewise_read_only"

_STEPS = 10_000
"""Number of SQLite instructions between two checks of the time limit. They take less than a millisecond."""

_SNAPSHOT = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"


def open_database(url: str, wait_ms: int = BUSY_TIMEOUT_MS, read_only: bool = False) -> Engine:
    """Returns the engine of `sqlite:///file` or `postgresql+psycopg://…`. Raises `ConfigurationError` for any other URL.

    `wait_ms` is the longest time in milliseconds that a writer waits for another writer. With `read_only`, the database refuses
    every write on connections of this engine.
    """
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        if backend == "sqlite":
            return _open_sqlite(url, wait_ms, read_only)
        if backend == "postgresql":
            return _open_postgresql(url, wait_ms, read_only)
    except ArgumentError:
        raise ConfigurationError("database", "is no URL like sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME") from None
    except ModuleNotFoundError as error:
        raise ConfigurationError("database", f"the driver {error.name} is missing: pip install 'psycopg[binary]'") from None
    raise ConfigurationError("database", f"{backend} is not supported")


def check_revision(engine: Engine) -> str:
    """Returns the schema revision of a database. Raises `ConfigurationError` unless it is the newest revision of this program.

    The error never advises to replace a lost database by a new one: a log that starts again would contradict records that its
    actor signed.
    """
    found: str | None
    try:
        with engine.connect() as connection:
            found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    except SQLAlchemyError as error:
        found = f"none ({cause_of(error)})"
    if found == HEAD:
        return HEAD
    url = engine.url.render_as_string(hide_password=True)
    do = f"`python -m bytewise.storage migrate --url {url}`"
    if found in REVISIONS:
        raise ConfigurationError("database", f"{url} has revision {found}, expected {HEAD}: run {do}")
    if found is not None and not found.startswith("none"):
        raise newer_revision(url, found)
    why = f"{url} has no revision, {found or 'none'}: it is missing, empty, none of ours, or cannot be opened and written"
    advice = "Name the right one, or bring its newest copy back: what was signed is in it"
    raise ConfigurationError("database", f"{why}. {advice}. Only a new actor's is made, by {do}")


def newer_revision(url: str, found: str) -> ConfigurationError:
    """Returns the error that says that a newer program migrated the database. `url` must have no password."""
    back = f"`python -m bytewise.storage step-back --url {url}`"
    why = f"{url} has revision {found}, which this program does not know: a newer program migrated it"
    return ConfigurationError(
        "database", f"{why}. This program needs {HEAD}. Start the newer program, or stop it and run its {back}"
    )


def cause_of(error: SQLAlchemyError) -> str:
    """Returns the message of the database driver in an error, without SQLAlchemy's additions, for example "no such table".

    Returns only the first line. For an error that no driver raised, returns the name of its class.
    """
    said = str(error.orig) if isinstance(error, DBAPIError) else type(error).__name__
    return (said.splitlines() or [""])[0][:160]


@contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """Context manager of one read-write transaction. It commits at the end of the block and rolls back on any error.

    Raises `TryAgain` if the database is busy, full or unreachable. Raises `StoreCorrupt` for other errors of the driver, for
    example for a key that exists already.
    """
    with _mapped(), engine.begin() as connection:
        yield connection


@contextmanager
def read_transaction(engine: Engine, limit_s: float | None = None) -> Iterator[Connection]:
    """Context manager of one read-only transaction: a consistent view of the database that waits for no writer.

    `limit_s` is a limit in seconds: on SQLite from the start of the transaction, on PostgreSQL for each statement. A statement
    that exceeds it is interrupted and raises `TryAgain`.
    """
    options = _SNAPSHOT if engine.dialect.name == "postgresql" else {_READ_ONLY: True}
    with (
        _mapped(),
        engine.connect().execution_options(**options) as connection,
        connection.begin(),
        _bounded(connection, limit_s),
    ):
        yield connection


@contextmanager
def driver_connection(engine: Engine) -> Iterator[Connection]:
    """Context manager of a connection outside any transaction, for statements of SQLite that its driver must run (`Retention`).

    Raises `TryAgain` if the database is busy or its disk is full.
    """
    with _mapped(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection


@contextmanager
def _bounded(connection: Connection, limit_s: float | None) -> Iterator[None]:
    """Context manager that interrupts statements at the limit.

    It removes the limit from a SQLite connection at the end of the block.
    """
    if limit_s is None:
        yield
    elif connection.dialect.name == "postgresql":
        connection.execute(text(f"SET LOCAL statement_timeout = {max(1, int(limit_s * 1000))}"))
        yield
    else:
        driver: Any = connection.connection.driver_connection
        until = monotonic_s() + limit_s
        driver.set_progress_handler(lambda: monotonic_s() > until, _STEPS)
        try:
            yield
        finally:
            driver.set_progress_handler(None, 0)


def insert_if_new(connection: Connection, table: type[Base], **values: Any) -> bool:
    """Inserts a row unless a row with its unique key exists. Returns whether it inserted the row."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).values(**values).on_conflict_do_nothing()
    # Without the option the count of an INSERT is -1 on PostgreSQL.
    return connection.execute(statement, execution_options={"preserve_rowcount": True}).rowcount == 1


def _open_postgresql(url: str, wait_ms: int, read_only: bool) -> Engine:
    seconds = max(1, wait_ms // 1000)
    engine = create_engine(
        url, isolation_level="READ COMMITTED", pool_pre_ping=True, pool_timeout=seconds, connect_args={"connect_timeout": seconds}
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.execute(f"SET lock_timeout = {wait_ms}")
        connection.execute(_DURABLE)
        if read_only:
            connection.execute("SET default_transaction_read_only = on")
        connection.commit()  # a setting made in a transaction that is rolled back is gone

    return engine


def _open_sqlite(url: str, wait_ms: int, read_only: bool) -> Engine:
    engine = create_engine(url, connect_args={"timeout": wait_ms / 1000})

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # pysqlite must not begin transactions of its own
        if connection.execute("PRAGMA page_count").fetchone() == (0,):
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # takes a lock, and only a new file takes it
        for pragma in (
            f"busy_timeout={wait_ms}", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON",
        ):  # fmt: skip
            connection.execute(f"PRAGMA {pragma}")
        if read_only:
            connection.execute("PRAGMA query_only=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        read_only = connection.get_execution_options().get(_READ_ONLY, False)
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


@contextmanager
def _mapped() -> Iterator[None]:
    try:
        yield
    except PoolTimeout as error:
        raise TryAgain("database", "no free connection") from error
    except OperationalError as error:
        raise TryAgain("database", _reason(error)) from error
    except sqlite3.OperationalError as error:
        raise TryAgain("database", str(error)[:120]) from error
    except DBAPIError as error:
        raise StoreCorrupt("database", f"{type(error).__name__}: {_reason(error)}") from error
    except sqlite3.Error as error:
        raise StoreCorrupt("database", f"{type(error).__name__}: {str(error)[:120]}") from error


def _reason(error: DBAPIError) -> str:
    # Values are left out: they can contain what an actor must not log. PostgreSQL repeats them in the lines after the first.
    return str(error.orig).partition("\n")[0][:120]


def lock_name(connection: Connection, name: str) -> None:
    """Waits until no other transaction has the lock of this name, and takes it until the transaction ends.

    The caller must be in a `write_transaction`. On SQLite it does nothing, because only one writer runs at a time.
    """
    if connection.dialect.name == "sqlite":
        return
    insert_if_new(connection, NamedLockRow, name=name)
    connection.execute(select(NamedLockRow.name).where(NamedLockRow.name == name).with_for_update()).one()
