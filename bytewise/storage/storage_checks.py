"""Readiness checks of a process's database and of its nonce lease. They only read."""

from pathlib import Path

from sqlalchemy import Engine, func, select

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service import metrics
from bytewise.service.disk import watch_disk
from bytewise.service.readiness import Check, ReadinessRegistry
from bytewise.storage.engine import HEAD, check_revision, read_transaction
from bytewise.storage.health import database_health
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.tables import JournalRow, ProtectedVoteRow


def add_storage_checks(readiness: ReadinessRegistry, engine: Engine, lease: NonceLease) -> None:
    """Adds `database`, `disk` (for a database in a file), `nonce_lease` and `sending`, and the metrics of size and free space."""
    readiness.add("database", lambda: database_check(engine))
    folder = data_folder(engine)
    if folder is not None:
        watch_disk(readiness, folder)
    readiness.add("nonce_lease", lambda: lease_check(lease))
    readiness.add("sending", lambda: sending_check(lease))


def database_check(engine: Engine) -> Check:
    """Whether the database answers and has the schema of this program. Sets the metrics of its size and of its tables."""
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
    """Sets the number of journal entries, which have consecutive numbers, and of protected votes."""
    with read_transaction(engine) as connection:
        newest = connection.execute(select(func.max(JournalRow.number))).scalar_one()
        votes = connection.execute(select(func.count()).select_from(ProtectedVoteRow)).scalar_one()
    metrics.LOG_ENTRIES.set(0 if newest is None else newest + 1)
    metrics.PROTECT_RECORDS.set(votes)


def lease_check(lease: NonceLease) -> Check:
    """Whether this process may send for its account now."""
    do = "Find the other process that runs for this account, and stop one of the two."
    held = lease.is_ours()
    return Check("nonce_lease", held, "ours" if held else "not ours", "held by this process", do)


def sending_check(lease: NonceLease) -> Check:
    """Whether sending is allowed. It stops if another program used a nonce of the account."""
    reason = lease.stop_reason()
    do = "Find out who else sends with this key, then `bytewise member resume`."
    return Check("sending", not reason, reason or "not stopped", "not stopped", do)


def data_folder(engine: Engine) -> Path | None:
    """Folder of a SQLite file; None for a server or a database in memory."""
    name = engine.url.database
    if engine.dialect.name != "sqlite" or not name or name.startswith((":", "file:")):
        return None
    return Path(name).resolve().parent
