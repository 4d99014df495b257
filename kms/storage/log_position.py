"""The position of a shard's release logs, stored beside its keys (ADR-036).

The database of a shard can be lost, or replaced by an older copy. The shard would then sign a second log under the same account,
which auditors would prove against it. Because of the stored position, the shard refuses to start instead.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, StaleBackup
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.keys.release_log import SignedRelease
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.units import U64, Digest
from bytewise.service import telemetry
from bytewise.service.clock import monotonic_s
from bytewise.storage.releases import ReleaseRecords
from kms.storage.files import replace_whole

FILE = "release-log.json"
"""Name of the file in the shard's folder."""

MAX_RECORDS_BEHIND, MIN_INTERVAL_S = 32, 1.0
"""Number of records, and number of seconds, after which the stored position is written again. Writing it for each record would
add a disk write before each answer. A copy of the database that lacks only records after the stored position is not detected."""


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The newest known record of one key epoch's release log."""

    epoch: U64
    """Key epoch."""
    index: U64
    """Index of the record."""
    digest: Digest
    """EIP-712 digest of the record."""


@dataclass(frozen=True, slots=True)
class LogPositions:
    """Content of the file `release-log.json`."""

    logs: tuple[LogPosition, ...]
    """Positions of every key epoch with a record."""


class LogPositionFile:
    """The file with the positions of a shard's release logs, while the shard serves."""

    def __init__(self, folder: Path, domain: Domain) -> None:
        """`domain` is the EIP-712 domain of the release records."""
        self._folder, self._domain = folder, domain
        self._marks: dict[int, LogPosition] = {}
        self._written_at, self._fails = -MIN_INTERVAL_S, False
        self._marking = threading.Lock()

    def begin(self, records: ReleaseRecords) -> None:
        """Checks the stored positions before the first release, and updates positions that are old or missing. `records` has all
        records of this shard.

        Raises `StaleBackup` if the records lack a stored position, and `ConfigurationError` if the positions cannot be read or
        written.
        """
        self._marks = {each.epoch: each for each in verify_positions(read_positions(self._folder), records)}
        behind = {}
        for epoch in records.epochs():
            head = records.head(epoch)
            mark = LogPosition(U64(epoch), U64(head.next_index - 1), head.digest)
            # A newer record may come from a killed process and may not be on the disk yet. A position that is already stored is
            # therefore replaced only if it is far behind.
            if self._behind(mark) >= MAX_RECORDS_BEHIND:
                behind[epoch] = mark
        try:
            if behind:
                self._write(behind)
        except OSError as error:
            raise ConfigurationError(str(self._folder / FILE), error.strerror) from None

    def recorded(self, signed: SignedRelease) -> None:
        """Stores the position of a record that was just committed, unless the stored position is recent enough
        (`MAX_RECORDS_BEHIND`, `MIN_INTERVAL_S`). The shard calls this before it answers with the record. Other threads wait
        meanwhile."""
        record = signed.record
        mark = LogPosition(record.key_epoch, record.index, typed_digest(self._domain, record))
        with self._marking:
            behind = self._behind(mark)
            if behind <= 0 or (behind < MAX_RECORDS_BEHIND and monotonic_s() - self._written_at < MIN_INTERVAL_S):
                return
            try:
                self._write({mark.epoch: mark})
                self._fails = False
            except OSError as error:
                # The record is committed in the database, so the request is answered although the position could not be written.
                if not self._fails:
                    telemetry.log("log_position.write_failed", file=FILE, why=error.strerror)
                self._fails = True

    def _behind(self, mark: LogPosition) -> int:
        """Returns the number of records by which the stored position of the epoch is behind."""
        before = self._marks.get(mark.epoch)
        return MAX_RECORDS_BEHIND if before is None else mark.index - before.index

    def _write(self, newer: dict[int, LogPosition]) -> None:
        marks = self._marks | newer
        replace_whole(self._folder / FILE, encode(LogPositions(tuple(marks[epoch] for epoch in sorted(marks)))))
        self._marks, self._written_at = marks, monotonic_s()


def read_positions(folder: Path) -> tuple[LogPosition, ...]:
    """Reads the positions in a shard's folder. Returns an empty tuple before the first start. Raises `ConfigurationError` if the
    file cannot be read or is not as a shard writes it."""
    try:
        return decode(LogPositions, (folder / FILE).read_bytes()).logs
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigurationError(str(folder / FILE), f"{error.strerror}: it must be the shard's own to read and write") from None
    except Fault as error:
        do = "restore it from a copy of the folder; remove it only if you know that the database is the newest"
        raise ConfigurationError(str(folder / FILE), f"is not as the shard wrote it ({error}): {do}") from None


def verify_positions(marks: Iterable[LogPosition], records: ReleaseRecords) -> tuple[LogPosition, ...]:
    """Returns the positions if the records contain all of them. Raises `StaleBackup` otherwise."""
    found = tuple(marks)
    for mark in found:
        have = records.digest_of(mark.epoch, mark.index)
        if have is None:
            raise _stale(f"its log of key epoch {mark.epoch} ends before record {mark.index}, which this shard signed")
        if have != mark.digest:
            raise _stale(f"its record {mark.index} of key epoch {mark.epoch} is not the record that was signed")
    return found


def _stale(why: str) -> StaleBackup:
    last = (
        "make another account (`bytewise shard init`), and give it a share (`bytewise key reshare`): this one signed lost records"
    )
    do = f"name this folder's database in database_url, or bring its newest copy back. If there is none, {last}"
    return StaleBackup("database", f"{why}: {do}")
