"""How far a shard's release logs are, beside its keys: who has lost the database, or brought an older copy back, would sign
another log under the same account, and be convicted of it. It does not start instead (ADR-041).
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, StaleBackup
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.keys.epochs import SignedRelease
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.units import U64, Digest
from bytewise.service import telemetry
from bytewise.service.clock import monotonic_s
from bytewise.storage.releases import ReleaseRecords
from kms.storage.files import replace_whole

FILE = "release-log.json"
"""In the shard's folder."""

EVERY, SPACING_S = 32, 1.0
"""A record is marked if the newest mark is as many records old, or as many seconds: a mark for each in a burst would be one more
write to the disk before each answer. A copy of the database that lacks only what came after the newest mark may pass for the
newest."""


@dataclass(frozen=True, slots=True)
class LogMark:
    """How far the release log of one key epoch was."""

    epoch: U64
    """Key epoch."""
    index: U64
    """Of the newest record."""
    digest: Digest
    """EIP-712 digest of that record."""


@dataclass(frozen=True, slots=True)
class LogMarks:
    """What the file has."""

    logs: tuple[LogMark, ...]
    """Of every key epoch with a record."""


class MarkFile:
    """The marks of a shard that serves."""

    def __init__(self, folder: Path, domain: Domain) -> None:
        """`domain`: that of the records."""
        self._folder, self._domain = folder, domain
        self._marks: dict[int, LogMark] = {}
        self._written_at, self._fails = -SPACING_S, False
        self._marking = threading.Lock()

    def begin(self, records: ReleaseRecords) -> None:
        """To be called before the first release, of records that are all this shard's: marks logs whose mark is old or missing.

        `StaleBackup` if they lack what was marked before; `ConfigurationError` if the marks cannot be read or written.
        """
        self._marks = {each.epoch: each for each in verify_marks(read_marks(self._folder), records)}
        behind = {}
        for epoch in records.epochs():
            head = records.head(epoch)
            mark = LogMark(U64(epoch), U64(head.next_index - 1), head.digest)
            # Where there is a mark, a newer record may be of a process that was killed, and not on the disk yet.
            if self._behind(mark) >= EVERY:
                behind[epoch] = mark
        try:
            if behind:
                self._write(behind)
        except OSError as error:
            raise ConfigurationError(str(self._folder / FILE), error.strerror) from None

    def recorded(self, signed: SignedRelease) -> None:
        """Marks a record, which is committed and not answered yet, if it is due. Others wait meanwhile."""
        record = signed.record
        mark = LogMark(record.key_epoch, record.index, typed_digest(self._domain, record))
        with self._marking:
            behind = self._behind(mark)
            if behind <= 0 or (behind < EVERY and monotonic_s() - self._written_at < SPACING_S):
                return
            try:
                self._write({mark.epoch: mark})
                self._fails = False
            except OSError as error:
                # The record is safe in the database, and who asked is owed an answer.
                if not self._fails:
                    telemetry.log("kms.log_not_marked", file=FILE, why=error.strerror)
                self._fails = True

    def _behind(self, mark: LogMark) -> int:
        """By how many records the newest mark of the epoch is older."""
        before = self._marks.get(mark.epoch)
        return EVERY if before is None else mark.index - before.index

    def _write(self, newer: dict[int, LogMark]) -> None:
        marks = self._marks | newer
        replace_whole(self._folder / FILE, encode(LogMarks(tuple(marks[epoch] for epoch in sorted(marks)))))
        self._marks, self._written_at = marks, monotonic_s()


def read_marks(folder: Path) -> tuple[LogMark, ...]:
    """What a shard's folder has; nothing before the first start. `ConfigurationError` for a file that no shard wrote."""
    try:
        return decode(LogMarks, (folder / FILE).read_bytes()).logs
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigurationError(str(folder / FILE), f"{error.strerror}: it must be the shard's own to read and write") from None
    except Fault as error:
        do = "take it from a copy of the folder; remove it only if you know that the database is the newest"
        raise ConfigurationError(str(folder / FILE), f"is not as the shard wrote it ({error}): {do}") from None


def verify_marks(marks: Iterable[LogMark], records: ReleaseRecords) -> tuple[LogMark, ...]:
    """The marks, if the records have all of them; else `StaleBackup`."""
    found = tuple(marks)
    for mark in found:
        have = records.digest_of(mark.epoch, mark.index)
        if have is None:
            raise _stale(f"its log of key epoch {mark.epoch} ends before record {mark.index}, which was signed")
        if have != mark.digest:
            raise _stale(f"its record {mark.index} of key epoch {mark.epoch} is another than was signed")
    return found


def _stale(why: str) -> StaleBackup:
    last = "make another account (`bytewise shard init`), and give it a share (`reshare`): this one signed what nobody has"
    do = f"name this folder's database in database_url, or bring its newest copy back. If there is none, {last}"
    return StaleBackup("database", f"{why}: {do}")
