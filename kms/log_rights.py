"""Whether what shards released was somebody's right: what stands in their logs against disputes, seats and batches of the chain.

An audit is judged by what it says of its batch: that the receipt is in it, and that the batch's own beacon drew the voter by its
stake then. Not asked is in which pool the voter was, if in any, for it may have left since; nor whether the window was over, for
that is by the clock of the protocol, and a record has the wall's.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from bytewise.protocol import merkle, sortition
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.docket import AnchoredBatch, Case, Seat
from bytewise.protocol.errors import Fault
from bytewise.protocol.grounds import AuditPlace
from bytewise.protocol.keys import GIVEN, SignedRelease
from bytewise.protocol.messages import Ticket, TicketKind
from bytewise.protocol.receipt import BatchHeader
from bytewise.protocol.units import Address, Digest, hex0x
from kms.chain_view import BEACON_DELAY_BLOCKS


class Court(Protocol):
    """What is read of the chain."""

    def case(self, dispute: Digest, block: int) -> Case | None:
        """One dispute; None if there is none."""
        ...

    def members(self, dispute: Digest, round_number: int, block: int) -> tuple[Seat, ...]:
        """Members of a round of a dispute."""
        ...

    def batch(self, batch_id: int, block: int) -> tuple[BatchHeader, AnchoredBatch] | None:
        """A batch by its number; None if there is none."""
        ...

    def params(self, version: int, block: int) -> ParamSet:
        """A version of all parameters."""
        ...

    def stake_at(self, account: Address, stake_block: int, block: int) -> int:
        """Wei that counted for an account at the end of an earlier block."""
        ...

    def block_hash(self, number: int) -> Digest:
        """Hash of a block."""
        ...


def without_right(entries: Iterable[SignedRelease], court: Court, block: int, timestamp: int) -> Iterator[str]:
    """A line for each release to a ticket that was nobody's right, read at a block of that time.

    What was decided after that block is not judged: the node that we ask may be behind the shard's. Nor is an audit of before
    shards kept grounds.
    """
    for signed in entries:
        record, right = signed.record, signed.right
        if right is None or record.decision not in GIVEN or record.decided_at > timestamp:
            continue
        problem = ""
        if right.ticket.kind == TicketKind.DISPUTE.value:
            problem = _problem(right.ticket, court, block)
        elif signed.grounds is not None and signed.grounds.grounds.audit is not None:
            problem = _audit_problem(right.ticket, signed.grounds.grounds.audit, court, block)
        if problem:
            yield f"record {record.index} released without a right: {problem}"


def _problem(ticket: Ticket, court: Court, block: int) -> str:
    case = court.case(ticket.subject, block)
    if case is None:
        return f"there is no dispute {hex0x(ticket.subject)}"
    if case.receipt_id != ticket.receipt_id:
        return f"dispute {hex0x(ticket.subject)} is about another receipt"
    if all(seat.voter != ticket.voter for seat in court.members(ticket.subject, ticket.round, block)):
        return f"{ticket.voter} had no seat in round {ticket.round} of dispute {hex0x(ticket.subject)}"
    return ""


def _audit_problem(ticket: Ticket, place: AuditPlace, court: Court, block: int) -> str:
    found = court.batch(place.batch_id, block)
    if found is None or found[0].block + BEACON_DELAY_BLOCKS > block:
        return f"there is no batch {place.batch_id}, or nothing has drawn its auditors"
    header, anchored = found
    if header.key_epoch != ticket.key_epoch:
        return f"batch {place.batch_id} is of key epoch {header.key_epoch}"
    try:
        merkle.verify_batch_proof(header.root, merkle.batch_leaf(ticket.receipt_id, place.seq), place.proof)
    except Fault:
        return f"the receipt is not in batch {place.batch_id}"
    params = court.params(anchored.params_version, block)
    seats = court.stake_at(ticket.voter, header.block, block) // params.money.audit_unit
    beacon = court.block_hash(header.block + BEACON_DELAY_BLOCKS)
    if not sortition.audit_is_drawn(beacon, ticket.receipt_id, ticket.voter, params.shares.audit_rate_bps, seats):
        return f"{ticket.voter} was not drawn to audit a receipt of batch {place.batch_id}"
    return ""
