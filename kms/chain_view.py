"""What a shard asks the chain: everything about one ticket at one block (design sections 2 and 8)."""

from typing import Protocol

from bytewise.ports import ChainView
from bytewise.protocol.dispute import Dispute
from bytewise.protocol.errors import TryAgain
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys import ChainFacts, EpochState
from bytewise.protocol.messages import Ticket, TicketKind
from bytewise.protocol.receipt import BatchHeader
from bytewise.protocol.units import Address, Digest

BEACON_DELAY_BLOCKS = 2
"""Light audits of a batch are drawn by the hash of the second block after it: nobody knows it when the batch is posted."""

NO_DISPUTES = 2**63
"""Beyond any dispute's index: a snapshot from there on holds none, and the one in question is read by its id."""


class KeyView(Protocol):
    """A shard's whole view of the chain."""

    def read(self, ticket: Ticket, batch_id: int) -> ChainFacts:
        """All facts about the ticket, at one block; `Unavailable` if the chain cannot be read."""
        ...


class KeyChain(ChainView, Protocol):
    """The chain client as a shard needs it."""

    def dispute(self, dispute: Digest, block: int) -> Dispute | None:
        """One dispute with its current round, as of a block; None if there is none."""
        ...

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
        snapshot = self._chain.snapshot(self._own, block, NO_DISPUTES)
        is_audit = ticket.kind == TicketKind.AUDIT.value
        dispute = None if is_audit else self._chain.dispute(ticket.subject, block)
        batch = self._chain.batch(batch_id, block) if is_audit else None
        state = self._chain.epoch_state(ticket.key_epoch, block)
        record = self._epoch(ticket.key_epoch, state, block)
        beacon = self._beacon(batch, block)
        return ChainFacts(
            number=snapshot.number,
            timestamp=snapshot.timestamp,
            params=snapshot.params,
            policy=snapshot.policy,
            dispute=dispute,
            batch=batch,
            beacon=beacon,
            verifiers=snapshot.verifiers,
            # Not today's stakes: who sees the beacon could make an account that it draws.
            audit_stakes=self._chain.weights(batch.block, block) if batch is not None and beacon is not None else (),
            epoch_state=state,
            assurance=record.assurance,
            public_key=record.public_key,
        )

    def _epoch(self, epoch: int, state: EpochState, block: int) -> EpochRecord:
        if state is EpochState.NONE:
            raise TryAgain("chain view", f"no key epoch {epoch} at block {block}")
        return self._chain.epoch(epoch, block)

    def _beacon(self, batch: BatchHeader | None, block: int) -> Digest | None:
        if batch is None or batch.block + BEACON_DELAY_BLOCKS > block:
            return None
        return self._chain.block_hash(batch.block + BEACON_DELAY_BLOCKS)
