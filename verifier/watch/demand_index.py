"""All availability demands on the chain, of any account, and the windows that stay open because of them (design section 9).

Nothing is stored: each start reads the demands from the chain again.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Protocol

from bytewise.ports import BlockView, DemandView
from bytewise.protocol.decisions.demands import DemandKind, DemandRecord, DemandState
from bytewise.protocol.decisions.snapshot import ExtendedWindow, Snapshot
from bytewise.protocol.units import Digest
from verifier.watch.chain_events import EventFollower

SUBJECTS_PER_CALL = 256
"""Most demands that one call to the chain reads."""
MAX_UNPAID = 4096
"""Most old demands that are kept because their penalty may be unpaid. The oldest are dropped first."""


class DemandChain(BlockView, DemandView, Protocol):
    """The part of the chain that the index reads."""


class DemandIndex:
    """Demands by subject. It keeps open demands, demands for envelopes of receipts that can still be disputed, and ended demands
    that were opened within the last `keep_s` seconds of the protocol clock."""

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
        """Receipts whose envelope was demanded and that could still be disputed at the last snapshot, with the end of their
        window."""
        return self._extended

    @property
    def known(self) -> Mapping[Digest, DemandRecord]:
        """Demands by subject, as the chain had them at the last snapshot."""
        return self._known

    @property
    def unpaid(self) -> Mapping[Digest, DemandRecord]:
        """Expired demands that cost the operator a penalty, of any age, until the penalty is known to be paid in full."""
        return {**self._unpaid, **{subject: each for subject, each in self._known.items() if _is_punished(each)}}

    def note_paid(self, subject: Digest) -> None:
        """Drops a demand whose penalty was taken in full."""
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
            # Another branch may lack a demand, or have another end of it.
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
        # Read before the mark: after a failure the next call reads all of it again.
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
