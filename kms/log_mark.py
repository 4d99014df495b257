"""How far a shard's release logs are, beside its keys: who has lost the database, or brought an older copy back, would sign
another log under the same account, and be convicted of it. It does not start instead (ADR 178).
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors import ConfigurationError, Fault, StaleBackup
from bytewise.protocol.keys import SignedRelease
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.units import U64, Digest
from bytewise.service import telemetry
from bytewise.storage.releases import ReleaseRecords
from kms.files import replace_whole

FILE = "release-log.json"
"""In the shard's folder."""

EVERY = 32
"""Records from one mark to the next, after that of the first. A copy of the database that lacks fewer may pass for the newest; a
mark for each record would be one more write to the disk before each answer."""


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
        self._writing = threading.Lock()

    def begin(self, records: ReleaseRecords) -> None:
        """To be called before the first release: marks how far the logs are.

        `StaleBackup` if they lack what was marked before; `ConfigurationError` if the marks cannot be read or written.
        """
        self._marks = {each.epoch: each for each in verify_marks(read_marks(self._folder), records)}
        for epoch in records.epochs():
            head = records.head(epoch)
            self._marks[epoch] = LogMark(U64(epoch), U64(head.next_index - 1), head.digest)
        try:
            self._write()
        except OSError as error:
            raise ConfigurationError(str(self._folder / FILE), error.strerror) from None

    def recorded(self, signed: SignedRelease) -> None:
        """Marks one of some records, which is committed and not answered yet."""
        record = signed.record
        if record.index % EVERY:
            return
        mark = LogMark(record.key_epoch, record.index, typed_digest(self._domain, record))
        with self._writing:
            before = self._marks.get(mark.epoch)
            if before is not None and before.index > mark.index:
                return  # of another thread, which was sooner
            self._marks[mark.epoch] = mark
            try:
                self._write()
            except OSError as error:
                # The record is safe in the database, and who asked is owed an answer.
                telemetry.log("kms.log_not_marked", file=FILE, why=error.strerror)

    def _write(self) -> None:
        replace_whole(self._folder / FILE, encode(LogMarks(tuple(self._marks[epoch] for epoch in sorted(self._marks)))))


def read_marks(folder: Path) -> tuple[LogMark, ...]:
    """What a shard's folder has; nothing before the first start. `ConfigurationError` for a file that no shard wrote."""
    try:
        return decode(LogMarks, (folder / FILE).read_bytes()).logs
    except FileNotFoundError:
        return ()
    except (OSError, Fault) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        do = "remove it only if you know that the database is the newest"
        raise ConfigurationError(str(folder / FILE), f"is not as the shard wrote it ({why}): {do}") from None


def verify_marks(marks: Iterable[LogMark], records: ReleaseRecords) -> tuple[LogMark, ...]:
    """The marks, if the records have all of them; else `StaleBackup`."""
    found = tuple(marks)
    do = (
        "bring the newest copy of the database back; if none has it, this account can never serve again: make another "
        "(`bytewise kms init`), and give it a share (`reshare`)"
    )
    for mark in found:
        have = records.digest_of(mark.epoch, mark.index)
        if have is None:
            why = f"its log of key epoch {mark.epoch} ends before record {mark.index}, which was signed"
            raise StaleBackup("database", f"{why}: {do}")
        if have != mark.digest:
            raise StaleBackup("database", f"its record {mark.index} of key epoch {mark.epoch} is another than was signed: {do}")
    return found
