"""What an actor may do next. `decide` returns these values; the shell performs each one, idempotently (design section 2)."""

from dataclasses import dataclass

from bytewise.protocol.messages import AuditResult, Vote
from bytewise.protocol.units import Digest


@dataclass(frozen=True, slots=True)
class DrawSeats:
    """Draw the committee of a round: its seed block exists."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round to draw."""


@dataclass(frozen=True, slots=True)
class Rearm:
    """Fix a new seed block: the old one is out of the chain's reach."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round to seed."""


@dataclass(frozen=True, slots=True)
class RunVoteJob:
    """Have the own enclave judge a disputed receipt."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round."""
    receipt_id: Digest
    """What to judge."""
    seat_mask: int
    """Own seats."""
    round_seed: Digest
    """Goes into the round digest."""
    fetch_deadline: int
    """Chain time after which missing bytes are the vote UNAVAILABLE."""
    commit_end: int
    """Chain time after which the vote is worth nothing."""


@dataclass(frozen=True, slots=True)
class CastCommit:
    """Send the commitment to a vote that the protection table holds."""

    vote: Vote
    """The one vote of this round."""
    commitment: Digest
    """Its EIP-712 digest."""


@dataclass(frozen=True, slots=True)
class CastReveal:
    """Open a commitment that the chain has."""

    vote: Vote
    """The committed vote."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Count a round."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round to count."""


@dataclass(frozen=True, slots=True)
class RunAudit:
    """Have the own enclave judge a receipt that was drawn for a light audit."""

    receipt_id: Digest
    """What to judge."""


@dataclass(frozen=True, slots=True)
class PostAudit:
    """Publish the signed result of a light audit."""

    result: AuditResult
    """The result."""


@dataclass(frozen=True, slots=True)
class OpenDispute:
    """Challenge a receipt with a bond."""

    receipt_id: Digest
    """What to challenge."""
    bond_wei: int
    """Bond to send."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Collect what the ledger owes us."""

    credit_wei: int
    """Amount that is owed."""


Action = DrawSeats | Rearm | RunVoteJob | CastCommit | CastReveal | Settle | RunAudit | PostAudit | OpenDispute | Withdraw
"""Closed: whoever performs actions matches all of them."""
