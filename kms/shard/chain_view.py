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
    """The reads of the chain that a shard needs to serve an epoch."""

    def read(self, ticket: Ticket, batch_id: int) -> ChainFacts:
        """Returns all facts about the ticket, at one block. Raises `Unavailable` if the chain cannot be read."""
        ...

    def shares(self, epoch: int) -> SharesInForce:
        """Returns the shares in force of a key epoch. Raises `Unavailable` if the chain cannot be read."""
        ...

    def time(self) -> int:
        """Returns the time of the newest final block in Unix seconds. Raises `Unavailable` if the chain cannot be read."""
        ...


class KeyChain(AuditDrawChain, Protocol):
    """The methods of the chain client that a shard needs. Each reads at one block."""

    def head(self) -> int:
        """Returns the number of the newest block at the configured finality."""
        ...

    def snapshot(self, who: Address, block: int) -> Snapshot:
        """Returns a snapshot, from which protocol clock and appraisal policy are read."""
        ...

    def release_view(self, voter: Address, epoch: int, dispute: Digest | None, receipt_id: Digest) -> ReleaseView:
        """Returns the facts about a ticket of this voter, key epoch, dispute and receipt, at the newest final block.

        `dispute` is None for an audit. The dispute's receipt is zero if the dispute is not about this receipt.
        """
        ...

    def epoch_on_chain(self, epoch: int, block: int) -> EpochOnChain:
        """Returns a key epoch as the chain has it. Its state is NONE if there is no such epoch."""
        ...

    def is_open_for_disputes(self, epoch: int, block: int) -> bool:
        """Returns whether a dispute may still need the key of an epoch."""
        ...

    def shares_dealt_at(self, epoch: int, block: int) -> int | None:
        """Returns the time, in Unix seconds, of the block that put the newest shares of an ACTIVE key epoch in force. Returns
        None in any other state."""
        ...


class ChainCeremonyView:
    """The view of the chain for key ceremonies, over the chain client. Implements `CeremonyView`."""

    def __init__(self, chain: KeyChain) -> None:
        self._chain = chain

    def key_epoch(self, epoch: int) -> EpochOnChain:
        """Returns the key epoch at the newest final block."""
        return self._chain.epoch_on_chain(epoch, self._chain.head())

    def is_open_for_disputes(self, epoch: int) -> bool:
        """Returns whether a dispute may still need the key of the epoch, at the newest final block."""
        return self._chain.is_open_for_disputes(epoch, self._chain.head())

    def dealt_at(self, epoch: int) -> int | None:
        """Returns the Unix second at which the newest shares of an ACTIVE epoch came into force, by the newest final block.
        Returns None in any other state."""
        return self._chain.shares_dealt_at(epoch, self._chain.head())


class ChainKeyView:
    """The view of the chain for releases, over the chain client. Implements `KeyView`. `own` is the shard's account, for which
    snapshots are read."""

    def __init__(self, chain: KeyChain, own: Address) -> None:
        self._chain = chain
        self._own = own

    def read(self, ticket: Ticket, batch_id: int) -> ChainFacts:
        """Returns all facts about the ticket, each read at the newest final block. Raises `TryAgain` if that block does not have
        the ticket's key epoch."""
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
        """Returns the shares of a key epoch that are in force at the newest final block."""
        block = self._chain.head()
        key = self._chain.epoch_on_chain(epoch, block)
        return SharesInForce(block, key.version, key.commitments, key.shards)

    def time(self) -> int:
        """Returns the time of the newest final block, in Unix seconds."""
        return self._chain.snapshot(self._own, self._chain.head()).timestamp
