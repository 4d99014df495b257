"""Readiness checks of the database of a process and of its nonce lease. They read the database and do not write to it."""

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, func, select, text

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service import metrics
from bytewise.service.readiness import Check, ReadinessRegistry, watch_disk
from bytewise.storage.engine import HEAD, check_revision, read_transaction
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.tables import JournalRow, ProtectedVoteRow


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


def add_storage_checks(readiness: ReadinessRegistry, engine: Engine, lease: NonceLease) -> None:
    """Adds the readiness checks `database`, `nonce_lease` and `sending`, and `disk` if the database is a file.

    They also set the metrics of database size and free space.
    """
    readiness.add("database", lambda: database_check(engine))
    folder = data_folder(engine)
    if folder is not None:
        watch_disk(readiness, folder)
    readiness.add("nonce_lease", lambda: lease_check(lease))
    readiness.add("sending", lambda: sending_check(lease))


def database_check(engine: Engine) -> Check:
    """Returns a check that fails if the database does not answer or has another schema than this program.

    Also sets the metrics of the database's size, of the number of journal entries and of the number of protected votes.
    """
    do = "Start the database, restore its newest copy, or migrate it (`python -m bytewise.storage migrate`)."
    threshold = f"revision {HEAD}"
    try:
        found = check_revision(engine)
        metrics.DB_SIZE.set(database_health(engine).size_bytes)
        _count_rows(engine)
    except ConfigurationError as error:
        return Check("database", False, str(error), threshold, do)
    return Check("database", True, f"revision {found}", threshold, do)


def _count_rows(engine: Engine) -> None:
    """Sets the metrics of the number of journal entries and of protected votes. Journal entries have consecutive numbers."""
    with read_transaction(engine) as connection:
        newest = connection.execute(select(func.max(JournalRow.number))).scalar_one()
        votes = connection.execute(select(func.count()).select_from(ProtectedVoteRow)).scalar_one()
    metrics.LOG_ENTRIES.set(0 if newest is None else newest + 1)
    metrics.PROTECT_RECORDS.set(votes)


def lease_check(lease: NonceLease) -> Check:
    """Returns a check that fails if this process does not have the nonce lease, so that it may not send for its account."""
    do = "Find the other process that runs for this account, and stop one of the two."
    held = lease.is_ours()
    return Check("nonce_lease", held, "ours" if held else "not ours", "held by this process", do)


def sending_check(lease: NonceLease) -> Check:
    """Returns a check that fails if sending is stopped. Sending stops when another program used a nonce of the account."""
    reason = lease.stop_reason()
    do = "Find out who else sends with this key, then `bytewise member resume`."
    return Check("sending", not reason, reason or "not stopped", "not stopped", do)


def data_folder(engine: Engine) -> Path | None:
    """Returns the folder of a SQLite file. Returns None for a database server or a database in memory."""
    name = engine.url.database
    if engine.dialect.name != "sqlite" or not name or name.startswith((":", "file:")):
        return None
    return Path(name).resolve().parent
