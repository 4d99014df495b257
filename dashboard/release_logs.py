"""Reads copies of the shards' release logs on this machine, so that statistics can count how often receipts were opened.

`bytewise key log verify --copies FOLDER` and the monitor keep such copies and judge each release. This module only counts the
decisions.
"""

import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.keys.epochs import RELEASES
from bytewise.protocol.keys.release_log import SignedRelease
from bytewise.protocol.records.statements import TicketKind
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Digest, address
from bytewise.service import telemetry
from bytewise.service.schedule import PeriodicJob
from kms.release_log.copies import ReleaseLogCopy

READ_EVERY_S = 60.0
"""Seconds between two readings of the folder."""

_NAME = re.compile(r"releases-(0|[1-9][0-9]{0,18})-(0x[0-9a-f]{40})\.jsonl")


class LoggedDecision(NamedTuple):
    """A shard's decision about one request for a partial."""

    at: int
    """Time of the decision by the shard's clock, in Unix seconds."""
    cause: str
    """Reason of the request, from its ticket: `light audit`, `vote in round N` or `without a ticket`. The statistics use the same
    words."""
    receipt_id: Digest
    voter: str
    is_release: bool


class LogsSeen(NamedTuple):
    """The decisions in all copies, as of one reading of the folder."""

    decisions: tuple[LoggedDecision, ...]
    logs: int
    """Number of logs that were read."""
    unreadable: tuple[str, ...]
    """Names of files that were altered or cannot be read."""
    read_at: int
    """Unix second up to which this machine knows every log. For one log it is the time at which the log was last read to its end
    from its shard; this field is the earliest of these times. It is 0 if there is no log, or if one log was never read to its
    end."""

    @property
    def version(self) -> tuple[object, ...]:
        """A value that differs after each change of the copies. It is made of the numbers of decisions and logs and not of their
        content, because logs only grow."""
        return len(self.decisions), self.logs, self.unreadable, self.read_at


class ReleaseLogShelf:
    """A folder with copies of release logs. Another process may write to the folder at any time. This class is thread-safe."""

    def __init__(self, folder: Path, domain: Domain) -> None:
        """`domain` is the EIP-712 domain of the contract `KeyEpochs`, under which shards sign release records."""
        self._folder, self._domain = folder, domain
        self._lock = threading.Lock()
        self._kept: dict[Path, tuple[object, tuple[LoggedDecision, ...]]] = {}
        self._seen: LogsSeen | None = None

    def job(self) -> PeriodicJob:
        """Returns the periodic job that reads the folder again. `run_ticks` runs it."""
        return PeriodicJob("release_logs", self.refresh, READ_EVERY_S)

    @property
    def seen(self) -> LogsSeen | None:
        """Result of the newest reading of the folder; None before the first reading."""
        return self._seen

    def refresh(self) -> None:
        """Reads the copies that changed since the last reading. A copy counts only if its shard signed each record and if each
        record continues the hash chain of the log."""
        decisions, unreadable, times = list[LoggedDecision](), list[str](), list[int]()
        with self._lock:
            for copy in self._copies():
                try:
                    # Both are read first, so that a copy of which one is altered does not count at all.
                    read_at, found = copy.last_read_at(), self._decisions(copy)
                    times.append(read_at)
                    decisions += found
                except (ConfigurationError, OSError) as error:
                    unreadable.append(copy.path.name)
                    telemetry.log("release_log.unreadable", file=copy.path.name, why=str(error))
            self._seen = LogsSeen(tuple(decisions), len(times), tuple(unreadable), min(times, default=0))

    def _copies(self) -> Sequence[ReleaseLogCopy]:
        names = sorted(each.name for each in self._folder.glob("releases-*.jsonl"))
        found = [match for name in names if (match := _NAME.fullmatch(name))]
        return [ReleaseLogCopy(self._folder, int(match[1]), address(match[2])) for match in found]

    def _decisions(self, copy: ReleaseLogCopy) -> tuple[LoggedDecision, ...]:
        stat = copy.path.stat()
        version, kept = (stat.st_mtime_ns, stat.st_size), self._kept.get(copy.path)
        if kept is None or kept[0] != version:
            entries, _ = copy.read(self._domain)
            kept = self._kept[copy.path] = (version, tuple(map(_decision, entries)))
        return kept[1]


def _decision(signed: SignedRelease) -> LoggedDecision:
    record = signed.record
    return LoggedDecision(int(record.decided_at), _cause(signed), record.receipt_id, record.voter, record.decision in RELEASES)


def _cause(signed: SignedRelease) -> str:
    if signed.right is None:
        return "without a ticket"
    ticket = signed.right.ticket
    return "light audit" if ticket.kind == TicketKind.AUDIT.value else f"vote in round {ticket.round}"
