"""Reads the inputs of an audit draw from the chain at one block. Shards use them to decide about releases. Auditors use them to
check a shard's log."""

from typing import Protocol

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.court.sortition import BEACON_DELAY_BLOCKS, may_audit, seats_in_audit_draw
from bytewise.protocol.decisions.snapshot import AnchoredBatch, Holdings
from bytewise.protocol.keys.epochs import AuditDraw
from bytewise.protocol.records.receipt import BatchHeader
from bytewise.protocol.units import Address, Digest


class AuditDrawChain(Protocol):
    """The reads of the chain that the inputs of an audit draw need, each at a named block."""

    def block_hash(self, number: int) -> Digest:
        """Returns the hash of a block."""
        ...

    def batch(self, batch_id: int, block: int) -> tuple[BatchHeader, AnchoredBatch] | None:
        """Returns a batch by its number, without its locator, or None if there is none."""
        ...

    def params(self, version: int, block: int) -> ParamSet:
        """Returns one version of the network's parameters."""
        ...

    def stake_at(self, account: Address, stake_block: int, block: int) -> int:
        """Returns the stake in wei that counted for an account at the end of an earlier block."""
        ...

    def window_end(self, receipt: Digest, batch_id: int, block: int) -> int:
        """Returns the last second of the protocol clock in which a receipt can be disputed or audited. A demand for its envelope
        extends this time."""
        ...

    def pool_of(self, environment: Digest, block: int) -> Digest:
        """Returns the pool whose verifiers judge an environment, or zero if there is no such environment."""
        ...


def audit_draw_at(
    chain: AuditDrawChain, who: Address, voter: Holdings, receipt: Digest, batch_id: int, block: int
) -> AuditDraw | None:
    """Returns the inputs of a receipt's audit draw at a block. They include the number of seats of the account `who`, whose
    registrations and amounts are in `voter`. An account that may not audit the batch has no seats.

    Returns None if there is no such batch, or no beacon yet. It does not check that the receipt is in the batch.
    """
    found = chain.batch(batch_id, block)
    if found is None or found[0].block + BEACON_DELAY_BLOCKS > block:
        return None
    header, anchored = found
    params = chain.params(anchored.params_version, block)
    stake = chain.stake_at(who, header.block, block)
    is_member = may_audit(voter.pool, voter.joined_at, chain.pool_of(header.environment, block), header.block)
    return AuditDraw(
        batch=header,
        window_end=chain.window_end(receipt, batch_id, block),
        beacon=chain.block_hash(header.block + BEACON_DELAY_BLOCKS),
        rate_bps=params.shares.audit_rate_bps,
        seats=seats_in_audit_draw(stake, params.money.audit_unit, is_member),
    )
