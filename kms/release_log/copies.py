"""An auditor's own copies of the shards' release logs: fetched, held against what was fetched before, kept.

Only who keeps a copy sees that a shard cut off the end of its log or wrote another: the shard must always show the newest record
that it showed before, and go on from there.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.address_book import ShareHolder
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, ReleaseLogBroken, TryAgain
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.release_evidence import ReleaseEvidence
from bytewise.protocol.keys.epochs import ReleaseLog, SignedRelease
from bytewise.protocol.keys.release_log import LAG_S, START, LogHead, verify_log, verify_owner
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Address, address
from bytewise.service.clock import SystemClock, monotonic_s
from kms.shard_client import ShardBusy, ShardClient

# What one record after the other shows, each of them signed and in its place: dates that go back, and tickets or grounds that
# shards of one build always keep and a liar leaves out.


def out_of_order(entries: Iterable[SignedRelease]) -> Iterator[str]:
    """A line for each record of a log that is dated long before one that it follows, or lacks what one before it has.

    `entries` are the whole log from its first record on.
    """
    newest, at, has_ticket, has_grounds = 0, 0, False, False
    for signed in entries:
        index, date = signed.record.index, signed.record.decided_at
        if date + LAG_S < newest:
            yield f"record {index} is dated {newest - date} s before record {at}"
            newest = 0
        if date >= newest:
            newest, at = date, index
        for what, there, before in (("ticket", signed.right, has_ticket), ("grounds", signed.grounds, has_grounds)):
            if before and there is None:
                yield f"record {index} has no {what}, and a record before it has"
        has_ticket, has_grounds = has_ticket or signed.right is not None, has_grounds or signed.grounds is not None


MAX_PAGE_BYTES = 2**20
"""Largest answer of a shard that is taken: a shard's own has at most 512 KiB, unless one record has more."""
MAX_PAGE_MARKS = 2**14
"""Most brackets, commas and backslashes in it: one of 512 KiB has 7,000."""
MAX_PAGES = 500
"""Of one shard in one run; the next run goes on."""

MAX_PROOFS = 8
"""Records of one shard that are kept because they contradict the copy: one convicts it, and it can show others for ever."""
WAIT_S = 120.0
"""How long one run waits for one shard's pages in all; the next run goes on."""

BUSY_TRIES, BUSY_PAUSE_S = 5, 1.0
"""How often a shard that says it is busy is asked for one page, and how long it has in between, which counts as waiting."""

LOCK_WAIT_S = 30.0
"""How long a run waits for another that adds to the same copy."""

Pages = Callable[[int], tuple[SignedRelease, ...]]
"""Records of a log from an index on, some of them; none beyond its end."""


@dataclass(frozen=True, slots=True)
class LogCopy:
    """What is kept of one shard's log of one key epoch: a file with a record in each line."""

    folder: Path
    """Where the copies of all shards lie."""
    epoch: int
    """Key epoch."""
    shard: Address
    """Whose log."""

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / f"releases-{self.epoch}-{self.shard}.jsonl"

    @property
    def mark(self) -> Path:
        """A file that says when the log was last read to its end."""
        return self.path.with_suffix(".seen")

    def seen_at(self) -> int:
        """Unix seconds of our clock when the log was last read to its end; 0 if it never was."""
        try:
            return int(self.mark.read_bytes() or b"0")
        except FileNotFoundError:
            return 0
        except ValueError:
            raise ConfigurationError(
                self.mark.name, "is not as it was kept: remove it, and run `bytewise key log verify`"
            ) from None

    def read(self, domain: Domain) -> tuple[tuple[SignedRelease, ...], LogHead]:
        """All records and the head after them; none if there is no copy. `ConfigurationError` if the copy was altered."""
        try:
            entries = tuple(decode(SignedRelease, line) for line in self._lines())
            return entries, self._verified(entries, START, domain)
        except Fault as error:
            raise ConfigurationError(self.path.name, f"is not as it was kept: {error}") from None

    def extend(self, pages: Pages, domain: Domain) -> LogHead:
        """Adds what the shard has beyond the copy, up to a limit; the head then. Marks when that was, if it is all of it.

        `ReleaseLogBroken`, and nothing is kept of the page, if it is wrong, contradicts the copy, or ends before it; a
        signed record that contradicts is kept in a file beside the copy. `TryAgain` if the log is longer, or another process
        adds to the copy. Records that are out of order (`kms.release_log.copies`) are kept, and `ReleaseLogBroken` names them.
        """
        with self._alone():
            began, (kept, head) = SystemClock().now(), self.read(domain)
            entries = list(kept)
            if entries:
                self._verify_same(entries[-1], pages(head.next_index - 1), domain)
            self._cut_torn_line()
            for _ in range(MAX_PAGES):
                page = pages(head.next_index)
                if not page:
                    self._mark_seen(began)
                    break
                head = self._verified(page, head, domain)
                self._append(page)
                entries += page
            else:
                raise TryAgain(f"log of shard {self.shard}", f"more than {MAX_PAGES} pages: run this again for the rest")
        if problems := list(out_of_order(entries)):
            raise ReleaseLogBroken(self.shard, "; ".join(problems))
        return head

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        # Two that append the same page leave a copy that nobody can read. The kernel frees the lock of who was killed.
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
        for what, now, before in (("record", shown[0].record, last.record), ("grounds", _said(shown[0]), _said(last))):
            if now != before:
                kept = self._keep(shown[0])
                subject = f"record {index} is another" if what == "record" else f"record {index} has other grounds"
                raise ReleaseLogBroken(self.shard, f"{subject} than the shard signed and showed before; see {kept}")
        return last

    def _keep(self, shown: SignedRelease) -> str:
        # With the copy it is the proof: both have the shard's signature. What is shown again is kept once.
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
        # Who was killed in the middle of a line left no end of line; what stands behind the last one was never kept.
        if self.path.exists():
            os.truncate(self.path, sum(len(line) + 1 for line in self._lines()))

    def _mark_seen(self, now: int) -> None:
        # Also of a log without records: that a shard released nothing is another answer than that nobody looked.
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.mark.with_suffix(".draft")
        draft.write_bytes(b"%d" % now)
        draft.replace(self.mark)

    def _append(self, page: tuple[SignedRelease, ...]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(b"".join(encode(each) + b"\n" for each in page))
            file.flush()
            os.fsync(file.fileno())


def _said(signed: SignedRelease) -> ReleaseEvidence | None:
    return None if signed.grounds is None else signed.grounds.grounds


def copies_in(folder: Path, epoch: int) -> Iterator[LogCopy]:
    """All copies in a folder of logs of an epoch, whoever the address book names."""
    for path in sorted(folder.glob(f"releases-{epoch}-0x*.jsonl")):
        with contextlib.suppress(MalformedValue):
            yield LogCopy(folder, epoch, address(path.stem.rpartition("-")[2]))


def pages_of(client: ShardClient, epoch: int, timeout_s: float) -> Pages:
    """The pages of a shard over HTTPS; `Unavailable` if it does not answer, `Fault` if it answers something else.

    A page is waited for `timeout_s`, and all of them `WAIT_S`, without the time that we need ourselves. A shard that is busy is
    asked again, so often.
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


def client_of(holder: ShareHolder) -> ShardClient:
    """A client of a shard that takes answers as large as a page of its log."""
    return ShardClient(holder, most=MAX_PAGE_BYTES)
