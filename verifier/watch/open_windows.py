"""Reads snapshots at one block. A snapshot has all disputes that can still change, all challenge windows that may be open, and
the availability demands that keep windows open (design section 9).

Nothing is stored: each start reads disputes and demands from the chain again.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from bytewise.ports import BlockView, DemandView, SnapshotView
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.demands import DemandKind, DemandRecord, DemandState
from bytewise.protocol.decisions.snapshot import AnchoredBatch, Dispute, DisputeOpening, ExtendedWindow, Snapshot
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.units import Address, Digest
from bytewise.service import telemetry
from verifier.watch.chain_events import EventFollower

SUBJECTS_PER_CALL = 256
"""Most demands that one call to the chain reads."""
MAX_UNPAID = 4096
"""Most old demands that are kept because their penalty may be unpaid. The oldest are dropped first."""


class DemandChain(BlockView, DemandView, Protocol):
    """The part of the chain that the index reads."""


class DemandIndex:
    """An index of demands by subject. It keeps three kinds of demands. The first kind is open. The second kind demands the
    envelope of a receipt that can still be disputed. The third kind has ended, and was opened within the last `keep_s` seconds of
    the protocol clock."""

    def __init__(self, chain: DemandChain, first_block: int, keep_s: int) -> None:
        self._chain = chain
        self._events = EventFollower(chain, first_block, "demands")
        self._keep_s = keep_s
        self._known: dict[Digest, DemandRecord] = {}
        self._unpaid: OrderedDict[Digest, DemandRecord] = OrderedDict()
        self._old: set[Digest] = set()
        """Subjects with a demand that is too old for the index, as far as a caller asked about them."""
        self._extended: dict[Digest, ExtendedWindow] = {}
        self._is_doubtful = False
        """Whether a reorganisation may have changed the demands that are known."""
        self._over: set[Digest] = set()
        """Receipts whose envelope was demanded and whose own window is over. A window that is over never opens again."""

    @property
    def extended(self) -> Mapping[Digest, ExtendedWindow]:
        """Receipts that could still be disputed at the last snapshot and whose envelope was demanded. Each has the end of its
        window."""
        return self._extended

    @property
    def known(self) -> Mapping[Digest, DemandRecord]:
        """Demands by subject, as the chain had them at the last snapshot."""
        return self._known

    @property
    def unpaid(self) -> Mapping[Digest, DemandRecord]:
        """Expired demands that cost the operator a penalty, however old they are. A demand that is too old for `known` stays here
        until its penalty is known to be paid in full."""
        return {**self._unpaid, **{subject: each for subject, each in self._known.items() if _is_punished(each)}}

    def note_paid(self, subject: Digest) -> None:
        """Drops a demand whose penalty was taken in full, if the demand is too old for `known`. A younger one stays in `unpaid`
        until it is too old."""
        self._unpaid.pop(subject, None)

    def was_demanded(self, subject: Digest, snapshot: Snapshot) -> bool:
        """Returns whether the subject was ever demanded, however long ago. An old demand still counts, because each subject can
        be demanded only once, and the duty to anchor a receipt never ends."""
        if subject in self._known or subject in self._old:
            return True
        (found,) = self._chain.demands((subject,), snapshot.number)
        if found.state is DemandState.NONE:
            return False
        self._old.add(subject)
        return True

    def follow(self, snapshot: Snapshot) -> None:
        """Reads the demands that were made since the last snapshot, and the present state of the open demands."""
        if self._events.is_rewound():
            # Another branch may lack a demand, or may have ended it in another way.
            self._known.update(self._unpaid)
            self._unpaid.clear()
            self._old.clear()
            self._over.clear()
            self._is_doubtful = True
        start = self._events.next_block
        if start > snapshot.number and not self._is_doubtful:
            return
        # A shorter branch may have no new block.
        new = self._chain.demanded(start, snapshot.number) if start <= snapshot.number else ()
        self._refresh(dict.fromkeys((*(self._known if self._is_doubtful else self._open()), *new)), snapshot)
        self._known = {subject: each for subject, each in self._known.items() if each.state is not DemandState.NONE}
        self._is_doubtful = False
        # Read the windows before the mark is set, so that the next call reads all of it again after a failure.
        self._extended = self._windows(snapshot)
        self._events.mark_read(snapshot.number, snapshot.block_hash)
        self._forget(snapshot)

    def _windows(self, snapshot: Snapshot) -> dict[Digest, ExtendedWindow]:
        """Returns the window of each receipt whose envelope was demanded, unless it is over. A demand for a list extends the
        window of the whole batch, which the snapshot has."""
        extended = {}
        for subject, each in self._known.items():
            if each.kind is DemandKind.ENVELOPE and subject not in self._over:
                found = ExtendedWindow(each.batch_id, self._chain.window_end(subject, each.batch_id, snapshot.number))
                if found.end < snapshot.clock:
                    self._over.add(subject)
                else:
                    extended[subject] = found
        return extended

    def _open(self) -> tuple[Digest, ...]:
        return tuple(subject for subject, each in self._known.items() if each.state is DemandState.OPEN)

    def _refresh(self, subjects: Mapping[Digest, None], snapshot: Snapshot) -> None:
        names = tuple(subjects)
        for start in range(0, len(names), SUBJECTS_PER_CALL):
            page = names[start : start + SUBJECTS_PER_CALL]
            found = self._chain.demands(page, snapshot.number)
            self._known |= dict(zip(page, found, strict=True))

    def _forget(self, snapshot: Snapshot) -> None:
        since = snapshot.clock - self._keep_s
        ended = [name for name, each in self._known.items() if each.state is not DemandState.OPEN and each.opened_at <= since]
        for name in ended:
            if name in self._extended:
                continue
            record = self._known.pop(name)
            self._over.discard(name)
            if _is_punished(record):
                self._unpaid[name] = record
        while len(self._unpaid) > MAX_UNPAID:
            self._unpaid.popitem(last=False)


def _is_punished(demand: DemandRecord) -> bool:
    return demand.state is DemandState.EXPIRED and demand.kind is not DemandKind.ENVELOPE


BLOCKS_PER_STEP = 50_000
"""Blocks whose events are read before the progress is kept. If the chain node then refuses a request, these blocks are not read
again."""

CHECKPOINTS = 64
"""Most block hashes that are remembered to find the last common block after a reorganisation."""


class WindowChain(BlockView, SnapshotView, Protocol):
    """The part of the chain that is read at each block for a snapshot."""


class OpenDisputes:
    """The disputes that can still change. They are found by the event that reports each new dispute, from the deployment on.

    A restart reads all events again. After a reorganisation, reading continues after the last block that both branches have.
    """

    def __init__(self, chain: WindowChain, first_block: int) -> None:
        self._chain = chain
        self._first_block = first_block
        self._read: list[tuple[int, Digest]] = []
        self._openings: dict[Digest, DisputeOpening] = {}
        self._closed: dict[Digest, int] = {}

    def at(self, block: int) -> tuple[DisputeOpening, ...]:
        """Returns one `DisputeOpening` for each dispute that was opened up to a block and is not known to be over, oldest first.

        Some openings may belong to another branch of the chain; `accept` finds that out. Raises `TryAgain` if the chain was
        reorganised meanwhile.
        """
        self._rewind(block)
        first = self._read[-1][0] + 1 if self._read else self._first_block
        for start in range(first, block + 1, BLOCKS_PER_STEP):
            self._extend(start, min(start + BLOCKS_PER_STEP - 1, block))
        return tuple(each for name, each in self._openings.items() if name not in self._closed)

    def accept(self, snapshot: Snapshot) -> Snapshot:
        """Notes which disputes of the snapshot are over, and returns the snapshot. Raises `TryAgain` if its block is not the
        block up to which events were read."""
        if self._read and self._read[-1] != (snapshot.number, snapshot.block_hash):
            raise TryAgain("chain", f"block {snapshot.number} changed while disputes were read")
        self._closed |= {case.id: snapshot.number for case in snapshot.disputes if is_over(case)}
        return snapshot

    def _extend(self, start: int, end: int) -> None:
        before = self._chain.block_hash(end)
        found = self._chain.opened(start, end)
        if self._chain.block_hash(end) != before:
            raise TryAgain("chain", f"block {end} changed while disputes were read")
        self._openings |= {each.id: each for each in found}
        self._read.append((end, before))
        if len(self._read) > CHECKPOINTS:
            self._read.pop(0)
            self._forget(self._read[0][0])

    def _forget(self, block: int) -> None:
        """Forgets the disputes that were over before this block. After a reorganisation that goes back that far, all events are
        read again."""
        over = {name for name, seen in self._closed.items() if seen < block}
        self._closed = {name: seen for name, seen in self._closed.items() if name not in over}
        self._openings = {name: each for name, each in self._openings.items() if name not in over}

    def _rewind(self, block: int) -> None:
        """Forgets the events of blocks that are no longer in the chain."""
        kept = len(self._read)
        while kept and not self._has(*self._read[kept - 1], block):
            kept -= 1
        if kept == len(self._read):
            return
        self._read = self._read[:kept]
        last = self._read[-1][0] if self._read else self._first_block - 1
        telemetry.log("disputes.reread", from_block=last + 1)
        self._openings = {name: each for name, each in self._openings.items() if each.block <= last}
        self._closed = {name: seen for name, seen in self._closed.items() if seen <= last}

    def _has(self, number: int, block_hash: Digest, block: int) -> bool:
        return number <= block and self._chain.block_hash(number) == block_hash


class SnapshotPages:
    """The reader of complete snapshots. A complete snapshot has every dispute that can still change, and every batch whose window
    may be open or whose list is demanded. It also has every receipt that can be disputed longer because of a demand."""

    def __init__(self, chain: WindowChain, me: Address, first_block: int, demands: DemandIndex | None = None) -> None:
        """`demands` is None for an actor without audits and disputes of receipts, for example an operator."""
        self._chain = chain
        self._me = me
        self._disputes = OpenDisputes(chain, first_block)
        self._first_batch = 0
        self._demands = demands

    def read(self, block: int) -> Snapshot:
        """Returns the snapshot at a block, with `batches` and `extended`. It leaves out only disputes that were already known to
        be over."""
        found = self._with_windows(self.read_cases(block))
        return replace(found, batches=self._batches(found))

    def _with_windows(self, snapshot: Snapshot) -> Snapshot:
        """Returns the snapshot with `extended`. If the demands cannot be read, it sets `has_windows` to False and does not fail,
        because votes do not need `extended`."""
        if self._demands is None:
            return snapshot
        try:
            self._demands.follow(snapshot)
        except (Fault, Unavailable) as error:
            telemetry.log_error("windows.read_failed", error)
            return replace(snapshot, extended=dict(self._demands.extended), has_windows=False)
        return replace(snapshot, extended=dict(self._demands.extended))

    def read_cases(self, block: int) -> Snapshot:
        """Returns the snapshot at a block, but without `batches` and `extended`."""
        return self._disputes.accept(self._chain.snapshot(self._me, block, self._disputes.at(block)))

    def _batches(self, snapshot: Snapshot) -> tuple[AnchoredBatch, ...]:
        kept = {each.batch_id for each in snapshot.extended.values()}
        # Another branch may have fewer batches, other batches under the same numbers, and other demands.
        self._first_batch = min(self._first_batch, snapshot.batch_count, *kept)
        found: list[AnchoredBatch] = []
        while self._first_batch + len(found) < snapshot.batch_count:
            page = self._chain.anchored(self._first_batch + len(found), snapshot.number)
            if not page:
                raise TryAgain("chain", f"block {snapshot.number} changed while batches were read")
            found += page
        if not snapshot.has_windows:
            return tuple(found)
        # A window that is over stays over. Two kinds of batches are kept all the same: those with an unanswered demand, because
        # the demand still has to be ended, and those with a receipt that a demand holds open.
        over = next(
            (
                i
                for i, each in enumerate(found)
                if snapshot.clock <= each.window_end or each.list_demanded or each.batch_id in kept
            ),
            len(found),
        )
        self._first_batch += over
        return tuple(found[over:])


def is_over(case: Dispute) -> bool:
    """Returns whether a dispute is over for good, with all its seats paid or charged."""
    return case.phase is Phase.FINAL and case.paid and all(each.settled == each.seats for each in case.rounds)
