"""A shard's reads of the chain: all facts about one ticket at one block (design sections 2 and 8)."""

from typing import Protocol

from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.keys.epochs import ChainFacts, EpochOnChain, ReleaseView
from bytewise.protocol.records.statements import Ticket, TicketKind
from bytewise.protocol.units import Address, Digest
from kms.shard.audit_draw import AuditDrawChain, audit_draw_at
from kms.shard.share_rotation import SharesInForce


class KeyView(Protocol):
    """A shard's whole view of the chain."""

    def read(self, ticket: Ticket, batch_id: int) -> ChainFacts:
        """All facts about the ticket, at one block; `Unavailable` if the chain cannot be read."""
        ...

    def shares(self, epoch: int) -> SharesInForce:
        """The shares in force of a key epoch; `Unavailable` if the chain cannot be read."""
        ...

    def time(self) -> int:
        """Time of the newest block, unix seconds; `Unavailable` if the chain cannot be read."""
        ...


class KeyChain(AuditDrawChain, Protocol):
    """The chain client as a shard needs it: reads, each pinned to one block."""

    def head(self) -> int:
        """Number of the newest block at the configured finality."""
        ...

    def snapshot(self, who: Address, block: int) -> Snapshot:
        """One `Lens` view: protocol clock, policy."""
        ...

    def release_view(self, voter: Address, epoch: int, dispute: Digest | None, receipt_id: Digest) -> ReleaseView:
        """The facts about a ticket of this voter, key epoch, dispute and receipt, at the newest final block.

        The dispute's receipt is zero if the dispute is not about this receipt.
        """
        ...

    def epoch_on_chain(self, epoch: int, block: int) -> EpochOnChain:
        """A key epoch as the chain has it; NONE if there is none."""
        ...

    def is_open_for_disputes(self, epoch: int, block: int) -> bool:
        """Whether a dispute may still need the key of an epoch."""
        ...

    def shares_dealt_at(self, epoch: int, block: int) -> int | None:
        """Unix seconds of the block that put the newest shares of an ACTIVE key epoch in force; None in any other state."""
        ...


class ChainCeremonyView:
    """`CeremonyView` over the chain client."""

    def __init__(self, chain: KeyChain) -> None:
        self._chain = chain

    def key_epoch(self, epoch: int) -> EpochOnChain:
        """The epoch at the newest final block."""
        return self._chain.epoch_on_chain(epoch, self._chain.head())

    def is_open_for_disputes(self, epoch: int) -> bool:
        """Whether a dispute may still need the key of the epoch, at the newest final block."""
        return self._chain.is_open_for_disputes(epoch, self._chain.head())

    def dealt_at(self, epoch: int) -> int | None:
        """When the newest shares of an ACTIVE epoch came in force, as of the newest final block, unix seconds; else None."""
        return self._chain.shares_dealt_at(epoch, self._chain.head())


class ChainKeyView:
    """`KeyView` over the chain client. `own` is the account for which snapshots are read: the shard's."""

    def __init__(self, chain: KeyChain, own: Address) -> None:
        self._chain = chain
        self._own = own

    def read(self, ticket: Ticket, batch_id: int) -> ChainFacts:
        """All facts about the ticket, each read at the newest final block."""
        is_audit = ticket.kind == TicketKind.AUDIT.value
        subject = None if is_audit else ticket.subject
        block, snapshot, key, record, dispute = self._chain.release_view(
            ticket.voter, ticket.key_epoch, subject, ticket.receipt_id
        )
        voter = snapshot.me
        if record is None:
            raise TryAgain("chain view", f"no key epoch {ticket.key_epoch} at block {block}")
        return ChainFacts(
            number=snapshot.number,
            timestamp=snapshot.timestamp,
            clock=snapshot.clock,
            policy=snapshot.policy,
            is_verifier=any(voter.pool),
            dispute=dispute,
            drawing=audit_draw_at(self._chain, ticket.voter, voter, ticket.receipt_id, batch_id, block) if is_audit else None,
            epoch_state=key.state,
            assurance=record.assurance,
            public_key=record.public_key,
            commitments=key.commitments,
            holders=key.shards,
            version=key.version,
            hybrid=record.hybrid,
        )

    def shares(self, epoch: int) -> SharesInForce:
        """The shares of a key epoch in force at the newest final block."""
        block = self._chain.head()
        key = self._chain.epoch_on_chain(epoch, block)
        return SharesInForce(block, key.version, key.commitments, key.shards)

    def time(self) -> int:
        """Wall time of the newest final block, unix seconds."""
        return self._chain.snapshot(self._own, self._chain.head()).timestamp
