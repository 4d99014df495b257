"""Whether what shards released was somebody's right: the tickets in their logs against the disputes and seats on the chain.

An audit's right is its draw, which needs the batch that the ticket does not name; it is not judged here.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from bytewise.protocol.docket import Case, Seat
from bytewise.protocol.keys import GIVEN, SignedRelease
from bytewise.protocol.messages import Ticket, TicketKind
from bytewise.protocol.units import Digest, hex0x


class Court(Protocol):
    """What is read of the chain."""

    def case(self, dispute: Digest, block: int) -> Case | None:
        """One dispute; None if there is none."""
        ...

    def members(self, dispute: Digest, round_number: int, block: int) -> tuple[Seat, ...]:
        """Members of a round of a dispute."""
        ...


def without_right(entries: Iterable[SignedRelease], court: Court, block: int, timestamp: int) -> Iterator[str]:
    """A line for each release to a ticket that was nobody's right in a dispute, read at a block of that time.

    What was decided after that block is not judged: the node that we ask may be behind the shard's.
    """
    for signed in entries:
        record, right = signed.record, signed.right
        if right is None or record.decision not in GIVEN or record.decided_at > timestamp:
            continue
        if right.ticket.kind == TicketKind.DISPUTE.value:
            problem = _problem(right.ticket, court, block)
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
