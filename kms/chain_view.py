"""What a shard asks the chain: everything about one ticket at one block (design sections 2 and 8)."""

from typing import Protocol

from bytewise.ports import ChainView
from bytewise.protocol.dispute import Dispute, Snapshot
from bytewise.protocol.errors import TryAgain
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys import ChainFacts, EpochState
from bytewise.protocol.messages import Ticket, TicketKind
from bytewise.protocol.receipt import BatchHeader
from bytewise.protocol.units import Address, Digest

BEACON_DELAY_BLOCKS = 2
"""Light audits of a batch are drawn by the hash of the second block after it: nobody knows it when the batch is posted."""

MAX_PAGES = 1000
"""Bound on snapshots that are paged through to find one dispute."""


class KeyView(Protocol):
    """A shard's whole view of the chain."""

    def read(self, ticket: Ticket, batch_id: int) -> ChainFacts:
        """All facts about the ticket, at one block; `Unavailable` if the chain cannot be read."""
        ...


class KeyChain(ChainView, Protocol):
    """The chain client as a shard needs it."""

    def batch(self, batch_id: int, block: int) -> BatchHeader | None:
        """A batch by its id, as of a block; None if there is none."""
        ...

    def epoch_state(self, epoch: int, block: int) -> EpochState:
        """State of a key epoch at a block; NONE if there is none."""
        ...


class ChainKeyView:
    """`KeyView` over the chain client; `own` is the shard's account, which snapshots are read for."""

    def __init__(self, chain: KeyChain, own: Address) -> None:
        self._chain = chain
        self._own = own

    def read(self, ticket: Ticket, batch_id: int) -> ChainFacts:
        """All facts about the ticket, each read at the newest final block."""
        block = self._chain.head()
        dispute, snapshot = self._find(ticket, block)
        batch = self._chain.batch(batch_id, block) if ticket.kind == TicketKind.AUDIT.value else None
        state = self._chain.epoch_state(ticket.key_epoch, block)
        record = self._epoch(ticket.key_epoch, state, block)
        return ChainFacts(
            number=snapshot.number,
            timestamp=snapshot.timestamp,
            params=snapshot.params,
            policy=snapshot.policy,
            dispute=dispute,
            batch=batch,
            beacon=self._beacon(batch, block),
            verifiers=snapshot.verifiers,
            epoch_state=state,
            assurance=record.assurance,
            public_key=record.public_key,
        )

    def _find(self, ticket: Ticket, block: int) -> tuple[Dispute | None, Snapshot]:
        start = 0
        for _ in range(MAX_PAGES):
            snapshot = self._chain.snapshot(self._own, block, start)
            found = next((each for each in snapshot.disputes if each.id == ticket.subject), None)
            start += len(snapshot.disputes)
            if found or ticket.kind == TicketKind.AUDIT.value or not snapshot.disputes or start >= snapshot.dispute_count:
                return found, snapshot
        raise TryAgain("chain view", f"more than {MAX_PAGES} pages of disputes")

    def _epoch(self, epoch: int, state: EpochState, block: int) -> EpochRecord:
        if state is EpochState.NONE:
            raise TryAgain("chain view", f"no key epoch {epoch} at block {block}")
        return self._chain.epoch(epoch, block)

    def _beacon(self, batch: BatchHeader | None, block: int) -> Digest | None:
        if batch is None or batch.block + BEACON_DELAY_BLOCKS > block:
            return None
        return self._chain.block_hash(batch.block + BEACON_DELAY_BLOCKS)
