"""All availability demands that the chain shows, whoever made them. Nothing is stored: a start reads them again."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Protocol

from bytewise.ports import BlockView, DemandView
from bytewise.protocol.decisions.demands import DemandKind, DemandRecord, DemandState
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.units import Digest
from bytewise.service import telemetry

SUBJECTS_PER_CALL = 256
"""Demands read at once."""
MAX_UNPAID = 4096
"""Old demands whose penalty is not known to be paid; those demanded first go."""


class DemandChain(BlockView, DemandView, Protocol):
    """What the index reads of the chain."""


class DemandIndex:
    """Demands by subject, those that are open and those that ended and were opened within `keep_s` of the protocol clock."""

    def __init__(self, chain: DemandChain, first_block: int, keep_s: int) -> None:
        self._chain = chain
        self._first_block = first_block
        self._keep_s = keep_s
        self._next_block = first_block
        self._last: tuple[int, Digest] | None = None
        self._known: dict[Digest, DemandRecord] = {}
        self._unpaid: OrderedDict[Digest, DemandRecord] = OrderedDict()
        self._old: set[Digest] = set()
        """Subjects that somebody asked us about and that were demanded longer ago."""

    @property
    def known(self) -> Mapping[Digest, DemandRecord]:
        """As of the last snapshot that was followed."""
        return self._known

    @property
    def unpaid(self) -> Mapping[Digest, DemandRecord]:
        """Demands that cost a penalty because nobody answered, however long ago, until it is known to be paid in full."""
        return {**self._unpaid, **{subject: each for subject, each in self._known.items() if _is_punished(each)}}

    def note_paid(self, subject: Digest) -> None:
        """The penalty of a demand was taken in full."""
        self._unpaid.pop(subject, None)

    def was_demanded(self, subject: Digest, snapshot: Snapshot) -> bool:
        """Whether it ever was, however long ago: a subject is demanded once, and an anchor is owed for good."""
        if subject in self._known or subject in self._old:
            return True
        (found,) = self._chain.demands((subject,), snapshot.number)
        if found.state is DemandState.NONE:
            return False
        self._old.add(subject)
        return True

    def follow(self, snapshot: Snapshot) -> None:
        """Reads what was demanded since, and how what was open stands now."""
        if self._last is not None and self._chain.block_hash(self._last[0]) != self._last[1]:
            telemetry.log("demands.reread", from_block=self._first_block)
            self._next_block, self._last = self._first_block, None
            self._known.clear()
            self._unpaid.clear()
            self._old.clear()
        if self._next_block > snapshot.number:
            return
        new = self._chain.demanded(self._next_block, snapshot.number)
        self._refresh(dict.fromkeys((*self._open(), *new)), snapshot)
        self._next_block, self._last = snapshot.number + 1, (snapshot.number, snapshot.block_hash)
        self._forget(snapshot)

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
        old = [name for name, each in self._known.items() if each.state is not DemandState.OPEN and each.opened_at <= since]
        for name in old:
            record = self._known.pop(name)
            if _is_punished(record):
                self._unpaid[name] = record
        while len(self._unpaid) > MAX_UNPAID:
            self._unpaid.popitem(last=False)


def _is_punished(demand: DemandRecord) -> bool:
    return demand.state is DemandState.EXPIRED and demand.kind is not DemandKind.ENVELOPE
