"""An auditor's copies of the shards' release logs. The auditor fetches a log, compares it with its earlier copy, and stores the
new records.

Only an auditor that keeps a copy notices that a shard cut off the end of its log or wrote a second log. A shard must always show
the newest record that it showed before, and continue its log from that record.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bytewise.protocol.address_book import ShareHolder
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, ReleaseLogBroken, TryAgain
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.keys.release_log import (
    LAG_S,
    START,
    LogHead,
    ReleaseEvidence,
    ReleaseLog,
    SignedRelease,
    verify_log,
    verify_owner,
)
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Address, address
from bytewise.service.clock import SystemClock, monotonic_s
from kms.shard_client import ShardBusy, ShardClient


def ordering_problems(entries: Iterable[SignedRelease]) -> Iterator[str]:
    """Yields one line for each record with a problem of order. A record has such a problem if it is dated long before an earlier
    record. It also has one if it lacks a ticket or evidence although an earlier record has one.

    A build that stores tickets and evidence stores them in every record, so a shard that omits one later hides something.
    `entries` is the whole log.
    """
    newest, at, has_ticket, has_evidence = 0, 0, False, False
    for signed in entries:
        index, date = signed.record.index, signed.record.decided_at
        if date + LAG_S < newest:
            yield f"record {index} is dated {newest - date} s before record {at}"
            newest = 0
        if date >= newest:
            newest, at = date, index
        for what, there, before in (("ticket", signed.right, has_ticket), ("evidence", signed.grounds, has_evidence)):
            if before and there is None:
                yield f"record {index} has no {what}, and a record before it has"
        has_ticket, has_evidence = has_ticket or signed.right is not None, has_evidence or signed.grounds is not None


MAX_PAGE_BYTES = 2**20
"""Largest accepted answer of a shard, in bytes. Pages of an honest shard have at most 512 KiB, unless one record has more."""
MAX_PAGE_MARKS = 2**14
"""Most brackets, commas and backslashes in an answer. A page of 512 KiB has 7,000."""
MAX_PAGES = 500
"""Most pages of one shard that one run reads. The next run continues."""

MAX_PROOFS = 8
"""Most contradicting records of one shard that are stored. One is enough to convict the shard, and the shard can make new ones
without end."""
WAIT_S = 120.0
"""Most seconds that one run waits for all pages of one shard. The next run continues."""

BUSY_TRIES, BUSY_PAUSE_S = 5, 1.0
"""Number of tries for one page of a busy shard, and the seconds between two tries. These seconds count for `WAIT_S`."""

LOCK_WAIT_S = 30.0
"""Most seconds that a run waits for another run that adds to the same copy."""

PageReader = Callable[[int], tuple[SignedRelease, ...]]
"""Function that reads some records of a log from an index on. It returns no records if the log ends before that index."""


@dataclass(frozen=True, slots=True)
class ReleaseLogCopy:
    """The copy of one shard's log of one key epoch. It is a file with one record in each line."""

    folder: Path
    """Folder of all copies."""
    epoch: int
    """Key epoch."""
    shard: Address
    """Account of the shard."""

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.folder / f"releases-{self.epoch}-{self.shard}.jsonl"

    @property
    def read_time_file(self) -> Path:
        """Path of a file with the time at which the log was last read to its end."""
        return self.path.with_suffix(".seen")

    def last_read_at(self) -> int:
        """Returns the Unix second of this machine's clock at which the last reading of the log to its end began, or 0 if it was
        never read to its end. Raises `ConfigurationError` if the file with this time was altered."""
        try:
            return int(self.read_time_file.read_bytes() or b"0")
        except FileNotFoundError:
            return 0
        except ValueError:
            raise ConfigurationError(
                self.read_time_file.name, "was altered: remove it and run `bytewise key log verify`"
            ) from None

    def read(self, domain: Domain) -> tuple[tuple[SignedRelease, ...], LogHead]:
        """Returns all records and the head after them, or no records if there is no copy. Raises `ConfigurationError` if the copy
        was altered."""
        try:
            entries = tuple(decode(SignedRelease, line) for line in self._lines())
            return entries, self._verified(entries, START, domain)
        except Fault as error:
            raise ConfigurationError(self.path.name, f"was altered: {error}. Move it away to read the log anew") from None

    def extend(self, pages: PageReader, domain: Domain) -> LogHead:
        """Adds the shard's records that the copy lacks, up to a limit, and returns the new head. Stores the time if the log was
        read to its end.

        Raises `ReleaseLogBroken` if a page is wrong, or if the shard's log contradicts the copy or is shorter than the copy.
        Nothing of that page is stored in the copy; a signed record that contradicts the copy is stored beside it as proof.
        Records with ordering problems are stored, and then `ReleaseLogBroken` names them. Raises `TryAgain` if the log is longer
        than the limit, or if another process adds to the copy.
        """
        with self._exclusive():
            began, (kept, head) = SystemClock().now(), self.read(domain)
            entries = list(kept)
            if entries:
                self._verify_same(entries[-1], pages(head.next_index - 1), domain)
            self._cut_torn_line()
            for _ in range(MAX_PAGES):
                page = pages(head.next_index)
                if not page:
                    self._store_read_time(began)
                    break
                head = self._verified(page, head, domain)
                self._append(page)
                entries += page
            else:
                raise TryAgain(f"log of shard {self.shard}", f"more than {MAX_PAGES} pages: run this again for the rest")
        if problems := list(ordering_problems(entries)):
            raise ReleaseLogBroken(self.shard, "; ".join(problems))
        return head

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        # Two processes that append the same page would leave an unreadable copy. The kernel frees the lock of a killed process.
        self.folder.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + LOCK_WAIT_S
        with self.path.with_suffix(".lock").open("ab") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= until:
                        raise TryAgain(self.path.name, "another process adds to it: run this again when that ended") from None
                    time.sleep(0.05)
            yield

    def _verify_same(self, last: SignedRelease, shown: tuple[SignedRelease, ...], domain: Domain) -> SignedRelease:
        index = last.record.index
        if not shown:
            raise ReleaseLogBroken(self.shard, f"ends before record {index}, which the shard signed and showed before")
        self._verified(shown[:1], LogHead(shown[0].record.previous, index), domain)
        for what, now, before in (
            ("record", shown[0].record, last.record),
            ("evidence", _release_evidence(shown[0]), _release_evidence(last)),
        ):
            if now != before:
                kept = self._keep(shown[0])
                subject = f"record {index} is another" if what == "record" else f"record {index} has other evidence"
                raise ReleaseLogBroken(self.shard, f"{subject} than the shard signed and showed before; see {kept}")
        return last

    def _keep(self, shown: SignedRelease) -> str:
        # This record and the copy are a proof together, because the shard signed both. Each record is stored once.
        line, path = encode(shown) + b"\n", self.path.with_suffix(".contradicts")
        with path.open("a+b") as file:
            file.seek(0)
            *whole, torn = file.read().split(b"\n")
            file.truncate(file.tell() - len(torn))
            if line[:-1] not in whole and len(whole) < MAX_PROOFS:
                file.write(line)
            file.flush()
            os.fsync(file.fileno())
        return path.name

    def _verified(self, entries: tuple[SignedRelease, ...], head: LogHead, domain: Domain) -> LogHead:
        verify_owner(entries, self.shard, self.epoch)
        return verify_log(entries, head, domain)

    def _lines(self) -> Iterator[bytes]:
        if not self.path.exists():
            return
        *whole, _torn = self.path.read_bytes().split(b"\n")
        yield from whole

    def _cut_torn_line(self) -> None:
        # A process that was killed in the middle of a line wrote no end of line. A part after the last end of line does not count
        # as stored.
        if self.path.exists():
            os.truncate(self.path, sum(len(line) + 1 for line in self._lines()))

    def _store_read_time(self, now: int) -> None:
        # The time is stored for a log without records, too: "the shard released nothing" differs from "nobody has read its log".
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.read_time_file.with_suffix(".draft")
        draft.write_bytes(b"%d" % now)
        draft.replace(self.read_time_file)

    def _append(self, page: tuple[SignedRelease, ...]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(b"".join(encode(each) + b"\n" for each in page))
            file.flush()
            os.fsync(file.fileno())


class LogReading(NamedTuple):
    """The outcome of one attempt to read a shard's log to its end."""

    entries: tuple[SignedRelease, ...]
    """The records of the copy, in order."""
    last_read_at: int
    """Unix second at which the log was last read to its end, or 0 if it never was."""
    broken: list[str]
    """Provable faults of the log."""
    silent: str
    """Reason why the shard did not show its whole log, or an empty text if it did."""
    unusable: str
    """Error of this machine, in a copy or a setting, or an empty text if there was none."""


def read_log(holder: ShareHolder, copy: ReleaseLogCopy, domain: Domain, timeout_s: float) -> LogReading:
    """Adds the new records of a shard's log to the copy. Errors are part of the result. One page may take `timeout_s` seconds."""
    broken, silent, unusable = list[str](), "", ""
    entries: tuple[SignedRelease, ...] = ()
    last_read_at = 0
    try:
        if not holder.url:
            raise TryAgain("network.json", "it does not say where this log is; get the newest book")
        with log_client(holder) as client:
            copy.extend(page_reader(client, copy.epoch, timeout_s), domain)
    except ReleaseLogBroken as error:
        broken.append(str(error))
    except (ConfigurationError, OSError) as error:
        unusable = str(error)
    except (Fault, Unavailable) as error:
        silent = str(error)
    try:
        entries, _ = copy.read(domain)
        last_read_at = copy.last_read_at()
    except (ConfigurationError, OSError) as error:
        unusable = str(error)
    # A broken log already has these problems in its list, or a worse one.
    broken.extend([] if broken else ordering_problems(entries))
    return LogReading(entries, last_read_at, broken, silent, unusable)


def _release_evidence(signed: SignedRelease) -> ReleaseEvidence | None:
    return None if signed.grounds is None else signed.grounds.grounds


def find_copies(folder: Path, epoch: int) -> Iterator[ReleaseLogCopy]:
    """Yields all copies of logs of an epoch in a folder, even of shards that the address book does not name."""
    for path in sorted(folder.glob(f"releases-{epoch}-0x*.jsonl")):
        with contextlib.suppress(MalformedValue):
            yield ReleaseLogCopy(folder, epoch, address(path.stem.rpartition("-")[2]))


def page_reader(client: ShardClient, epoch: int, timeout_s: float) -> PageReader:
    """Returns the function that reads pages of a shard's log over HTTPS.

    The returned function raises `Unavailable` if the shard does not answer, and a `Fault` if the answer is no page. It waits at
    most `timeout_s` seconds for one page and `WAIT_S` seconds for all pages together. It asks a busy shard up to `BUSY_TRIES`
    times for one page.
    """
    left = WAIT_S

    def ask(first: int) -> bytes:
        nonlocal left
        if left <= 0:
            raise TryAgain(f"log of key epoch {epoch}", f"more than {WAIT_S:.0f} s of waiting: run this again for the rest")
        begun = monotonic_s()
        try:
            return client.call("GET", f"/v1/log?epoch={epoch}&from={first}", b"", min(timeout_s, left))
        except ShardBusy:
            time.sleep(BUSY_PAUSE_S)
            raise
        finally:
            left -= monotonic_s() - begun

    def page(first: int) -> tuple[SignedRelease, ...]:
        for _ in range(BUSY_TRIES - 1):
            with contextlib.suppress(ShardBusy):
                return decode(ReleaseLog, ask(first), MAX_PAGE_MARKS).entries
        return decode(ReleaseLog, ask(first), MAX_PAGE_MARKS).entries

    return page


def log_client(holder: ShareHolder) -> ShardClient:
    """Returns a client of a shard that accepts answers of the size of a log page."""
    return ShardClient(holder, most=MAX_PAGE_BYTES)
