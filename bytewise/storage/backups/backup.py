"""Makes and checks backups of a node, and restores a node's database from a backup. A backup has everything that must not be
lost.

The backup is one file with the settings, the keys and other files in the node's folder, and a copy of the database. It has the
votes of the protection table a second time, as an export. It has the keystore's password only if the caller asks for it.
`bytewise backup` and the periodic job use this module.
"""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Engine

from bytewise.ports import Clock
from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import BytewiseError, Fault
from bytewise.protocol.units import U64, Address
from bytewise.service import metrics, telemetry
from bytewise.service.clock import SystemClock
from bytewise.service.files import shown_name
from bytewise.service.readiness import Check, ReadinessRegistry
from bytewise.service.schedule import PeriodicJob
from bytewise.service.sections import BackupSettings
from bytewise.storage.backups.backup_file import (
    FILES,
    FORMAT,
    BackupManifest,
    files_of,
    read_manifest,
    write_backup,
)
from bytewise.storage.backups.database_copy import SQLITE, copy_database, place_database, verify_copy
from bytewise.storage.backups.restore_fence import RestoreFence
from bytewise.storage.engine import HEAD, check_revision, open_database
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.protection import Protection

VOTES = "protection.json"
"""Name of the file in the backup that has the protection table, in the format of `bytewise member export-votes`."""
HOUR_S = 3600
LOOK_S = 300.0
"""Seconds between two checks of the age of the newest backup."""
LATE = 2
"""A backup is late when it is older than this number of backup intervals."""


class BackupSource(NamedTuple):
    """The parts of a node from which a backup is made."""

    config: Path
    """The settings file, in the node's folder."""
    role: str
    """The node's role."""
    settings: tuple[Any, ...]
    """The settings objects of the node's processes."""
    network: Network
    """The address book of the network."""
    account: Address
    """The node's account."""
    key_file: Path
    """File of the account key."""
    engine: Engine
    """The node's database."""


def make_backup(source: BackupSource, out: Path, clock: Clock, with_password: bool = False) -> BackupManifest:
    """Writes a backup to the new file `out` and returns its manifest. The node may run meanwhile.

    Raises `ConfigurationError` if `out` exists or cannot be written, or if a SQLite database lies outside the node's folder. Also
    raises it if the database has another revision or account, or cannot be copied.
    """
    check_revision(source.engine)
    folder = Path(os.path.abspath(source.config.parent))
    _verify_inside(source.engine, folder)
    content, outside = _files(source, folder, with_password)
    network, lease = source.network, NonceLease(source.engine, clock, source.network.chain_id, source.account)
    lease.verify_owner()
    with _staging(out) as staged:
        now, was_running = clock.now(), lease.leased_until() > clock.now()
        copy = copy_database(source.engine, staged)
        content[copy.name] = copy
        votes = staged / VOTES
        # The export follows the copy of the database, so a vote that was stored between the two is in the export.
        table = Protection(source.engine, clock)
        votes.write_bytes(table.export())
        content[VOTES] = votes
        manifest = BackupManifest(
            format=FORMAT, role=source.role, chain_id=network.chain_id, registry=network.addresses.registry,
            account=source.account, revision=HEAD, database=source.engine.dialect.name, made_at=U64(now),
            was_running=was_running, has_password=with_password, key_file=os.path.abspath(source.key_file),
            settings=source.config.name, votes=U64(len(table.rows())), members=(), outside=outside,
        )  # fmt: skip
        return write_backup(out, manifest, content)


def _files(source: BackupSource, folder: Path, with_password: bool) -> tuple[dict[str, Path], tuple[str, ...]]:
    content, outside = {FILES + source.config.name: source.config}, set[str]()
    for settings in source.settings:
        inside, others = files_of(settings, folder, with_password)
        content |= {FILES + place: path for place, path in inside.items()}
        outside |= set(others)
    return content, tuple(sorted(outside))


def _verify_inside(engine: Engine, folder: Path) -> None:
    if engine.dialect.name != "sqlite":
        return
    place = Path(os.path.abspath(engine.url.database or ""))
    if not place.is_relative_to(folder):
        raise ConfigurationError("db.url", f"{place} is outside the node's folder {folder}: move it there to back it up")


@contextmanager
def _staging(out: Path) -> Iterator[Path]:
    # The folder is beside the backup file, because the folder of temporary files may be too small for a copy of the database.
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise ConfigurationError(shown_name(out), f"{error.strerror}: no backup was made") from None
    try:
        yield folder
    except OSError as error:
        raise ConfigurationError(shown_name(out), f"{error.strerror}: no backup was made") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def verify_backup(folder: Path, manifest: BackupManifest, journal: Path | None) -> None:
    """Checks the files that `unpack_backup` wrote: the database, its revision and the protection table.

    Raises `ConfigurationError` if the database is damaged, or has another revision or account. Raises `SecondVote` if the
    protection table contradicts its export. If `journal` names an existing key file, raises `StoreCorrupt` if the journal was
    altered. Of a PostgreSQL dump only the first bytes are checked.
    """
    if manifest.revision != HEAD:
        advice = "restore it with the version that made it, and migrate then"
        raise ConfigurationError("revision", f"the backup has {manifest.revision}, and this program reads {HEAD}: {advice}")
    copies = [each for each in folder.iterdir() if each.name.startswith("database.")]
    if len(copies) != 1 or not (folder / VOTES).is_file():
        raise ConfigurationError("backup", f"needs one database and {VOTES}")
    verify_copy(copies[0])
    if copies[0].name != SQLITE:
        return
    engine = open_database(f"sqlite:///{copies[0]}")
    try:
        check_revision(engine)
        clock = SystemClock()
        NonceLease(engine, clock, manifest.chain_id, manifest.account).verify_owner()
        # The export was made a moment after the copy, so it may have more votes.
        import_votes(Protection(engine, clock), VOTES, (folder / VOTES).read_bytes())
        if journal is not None and journal.is_file():
            Journal(engine, journal_key(journal), clock).verify_journal()
    finally:
        engine.dispose()


def import_votes(table: Protection, name: str, export: bytes) -> int:
    """Adds the votes of an export to the protection table, and returns how many votes the export has.

    Raises `ConfigurationError`, which shows `name`, if the bytes are not an export.
    """
    try:
        return table.import_votes(export)
    except Fault as error:
        raise ConfigurationError(name, f"is no protection export: {error}") from None


class RestoredDatabase(NamedTuple):
    """Result of restoring a database."""

    votes: int
    """Number of votes in the protection table after the restore."""
    added: int
    """Number of those votes that came from the exports and were not in the copy."""


def restore_database(
    copy: Path, exports: Mapping[str, bytes], url: str, manifest: BackupManifest, clock: Clock, is_newest: bool
) -> RestoredDatabase:
    """Copies a backup's database to the empty place at `url`, adds the votes of the exports, and marks the database as restored.

    With `is_newest` the caller states that the account signed nothing after the backup was made, so the database is not marked
    (`RestoreFence`). Raises `SecondVote` if an export contradicts the copy. Raises `ConfigurationError` if the place is not
    empty, if the copy has another kind, revision or account, or if the bytes of an export are not an export.
    """
    engine = open_database(url)
    try:
        place_database(copy, engine)
        check_revision(engine)
        NonceLease(engine, clock, manifest.chain_id, manifest.account).verify_owner()
        table = Protection(engine, clock)
        before = len(table.rows())
        for name, export in exports.items():
            import_votes(table, name, export)
        if not is_newest:
            RestoreFence(engine).mark(manifest.made_at, clock.now())
        votes = len(table.rows())
    finally:
        engine.dispose()
    return RestoredDatabase(votes, votes - before)


def backups_in(folder: Path, account: Address) -> list[tuple[int, Path]]:
    """Returns the time (Unix seconds) and the file of each readable backup of an account in a folder, the oldest first."""
    found = []
    for file in folder.glob("*.tar"):
        with suppress(BytewiseError):
            manifest = read_manifest(file)
            if manifest.account == account:
                found.append((int(manifest.made_at), file))
    return sorted(found)


class BackupJob:
    """A periodic job that makes a backup when the newest one is older than the interval. It keeps the newest `keep` files."""

    def __init__(self, source: BackupSource, settings: BackupSettings, clock: Clock) -> None:
        self._source = source
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        metrics.BACKUP_INTERVAL.set(settings.every_h * HOUR_S)
        self._newest = 0
        metrics.BACKUP_TIME.set(0)
        with suppress(OSError):  # a mount may come later; until then the check fails
            self._look()

    def add_check(self, readiness: ReadinessRegistry) -> None:
        """Adds the readiness check `backup_age`."""
        readiness.add("backup_age", self.check)

    def job(self) -> PeriodicJob:
        """Returns the periodic job. `run_ticks` runs it."""
        return PeriodicJob("backup", self.run, LOOK_S)

    def run(self) -> None:
        """Makes a backup if one is due. An error is logged and the next run tries again, so the node's duties go on."""
        try:
            self._make_if_due()
        except (BytewiseError, OSError) as error:
            do = "free space or name another folder in [backup]; until then a lost disk loses what was signed since the last one"
            telemetry.log_error("backup.failed", error, do=do)

    def _make_if_due(self) -> None:
        settings, now = self._settings, self._clock.now()
        if now - self._look() < settings.every_h * HOUR_S:
            return
        moment = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
        out = settings.folder / f"bytewise-{self._source.account}-{moment}.tar"
        manifest = make_backup(self._source, out, self._clock)
        telemetry.log("backup.made", file=out.name, votes=manifest.votes, members=len(manifest.members))
        self._look()
        self._forget()

    def check(self) -> Check:
        """Returns the readiness check of the newest backup's age. It fails if the newest backup is too old, or if there is
        none."""
        age, most = self._clock.now() - self._newest, LATE * self._settings.every_h * HOUR_S
        value = "no backup" if self._newest == 0 else f"{age // HOUR_S} h"
        if not os.path.isdir(self._settings.folder):
            value += f", and {self._settings.folder.name} is no folder"
        return Check(
            "backup_age", age <= most, value, f"at most {most // HOUR_S} h", "See `backup.failed` in the log of this process."
        )

    def _look(self) -> int:
        with self._lock:
            found = backups_in(self._settings.folder, self._source.account)
            self._newest = found[-1][0] if found else 0
        metrics.BACKUP_TIME.set(self._newest)
        return self._newest

    def _forget(self) -> None:
        for _, file in backups_in(self._settings.folder, self._source.account)[: -self._settings.keep]:
            with suppress(OSError):
                file.unlink()
