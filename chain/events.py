"""Events in order, each delivered at least once, and taken back when their blocks leave the chain.

    poll = log.poll()
    if poll.rewound_to is not None: delete what was derived from later blocks
    handle poll.events, idempotently
    log.finish(poll)          # only now is the cursor moved: a crash before it delivers again

Blocks are compared by hash with those that earlier polls finished (`bytewise.storage.cursor`). A node that is behind us is waited
for: a missing block proves nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from bytewise.protocol.errors import TryAgain
from bytewise.protocol.messages import AuditResult
from bytewise.protocol.receipt import BatchHeader
from bytewise.protocol.units import Blob, Digest
from bytewise.storage.cursor import Cursor, Mark
from chain.artifacts import Log
from chain.client import Block
from chain.reader import ChainReader, audit_of, batch_of

BLOCKS_PER_POLL = 500
"""Bound of one poll; a reader that starts late catches up over several."""

DISPUTE_EVENTS = (
    "AuditPosted", "DisputeOpened", "SeedRearmed", "SeatsDrawn", "Committed", "Revealed", "Settled", "Escalated", "Finalized",
)  # fmt: skip
"""Events of `Disputes` that a poll reports."""


class BatchPosted(NamedTuple):
    """An operator anchored a batch."""

    batch: BatchHeader
    block_hash: Digest


class AuditPosted(NamedTuple):
    """A verifier published the result of a light audit."""

    result: AuditResult
    signature: Blob
    block: int
    block_hash: Digest


class DisputeMoved(NamedTuple):
    """Something happened to a dispute; its state is read from a snapshot, never from the event."""

    dispute: Digest
    event: str
    block: int
    block_hash: Digest


Event = BatchPosted | AuditPosted | DisputeMoved


class Poll(NamedTuple):
    """What one poll found."""

    rewound_to: int | None
    """Newest block that earlier polls finished and that is still there; None if nothing was taken back."""
    events: tuple[Event, ...]
    """Events of the new blocks, in chain order."""
    to_block: Mark | None
    """Last block they cover; None if there is no new block."""


class EventLog:
    """One named reader's way through the chain."""

    def __init__(self, reader: ChainReader, cursor: Cursor, blocks_per_poll: int = BLOCKS_PER_POLL) -> None:
        self._reader = reader
        self._cursor = cursor
        self._blocks_per_poll = blocks_per_poll

    def poll(self) -> Poll:
        """New events, and what was taken back; `TryAgain` if the chain changed while we read."""
        head = self._reader.head()
        seen = self._cursor.head()
        if seen is not None and head < seen.number:
            return Poll(None, (), None)
        common = self._common(self._cursor.marks())
        start = common.number + 1 if common else self._first_block
        rewound = None if common == seen else start - 1
        if start > head:
            return Poll(rewound, (), None)
        target = self._reader.block(min(head, start + self._blocks_per_poll - 1))
        events = self._events(start, target.number)
        self._still_there(common, target)
        return Poll(rewound, events, Mark(target.number, target.hash))

    def finish(self, poll: Poll) -> None:
        """Moves the cursor past a handled poll."""
        if poll.rewound_to is not None:
            self._cursor.rewind(poll.rewound_to)
        if poll.to_block is not None:
            self._cursor.advance(*poll.to_block)

    @property
    def _first_block(self) -> int:
        return self._reader.network.deploy_block

    def _common(self, marks: Sequence[Mark]) -> Mark | None:
        return next((mark for mark in marks if self._reader.block_hash(mark.number) == mark.hash), None)

    def _still_there(self, common: Mark | None, target: Block) -> None:
        # A block's hash fixes all its ancestors: if the last one is the same after reading, so was everything between.
        kept = common is None or self._reader.block_hash(common.number) == common.hash
        if not kept or self._reader.block_hash(target.number) != target.hash:
            raise TryAgain("chain", "reorganised while events were read")

    def _events(self, start: int, end: int) -> tuple[Event, ...]:
        client, where = self._reader.client, self._reader.network.addresses
        batches = client.logs("ReceiptAnchor", where.receipt_anchor, ["BatchAnchored"], start, end)
        disputes = client.logs("Disputes", where.disputes, DISPUTE_EVENTS, start, end)
        logs = sorted(batches + disputes, key=lambda log: (log.block, log.place))
        return tuple(_typed(log) for log in logs)


def _typed(log: Log) -> Event:
    if log.event == "BatchAnchored":
        return BatchPosted(batch_of(log), log.block_hash)
    if log.event == "AuditPosted":
        return AuditPosted(*audit_of(log), log.block, log.block_hash)
    return DisputeMoved(Digest(log.values["id"]), log.event, log.block, log.block_hash)
