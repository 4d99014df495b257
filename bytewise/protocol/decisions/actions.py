"""What an actor may do next. `decide` returns these values; the shell performs each one, idempotently (design section 2)."""

from dataclasses import dataclass

from bytewise.protocol.records.statements import AuditResult, Vote
from bytewise.protocol.units import Address, Digest

# What an actor may do about stake that EigenLayer holds; `actions.Action` has these among all others.


@dataclass(frozen=True, slots=True)
class CollectSlash:
    """Have a stake source pay what a slash took and it could not pay at once."""

    slash_id: int
    """Of EigenLayer."""


@dataclass(frozen=True, slots=True)
class SyncStake:
    """Have a stake source record what an account has at EigenLayer."""

    account: Address
    """Whose stake."""
    block: int
    """Of the record that is replaced; 0 without one: each is replaced once."""


@dataclass(frozen=True, slots=True)
class RetrySlash:
    """Take what EigenLayer refused when it was slashed."""

    account: Address
    """Whose stake."""
    ref: Digest
    """What it was slashed for."""
    times: int
    """How often EigenLayer has refused it; each is retried once."""


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


@dataclass(frozen=True, slots=True)
class DrawPart:
    """Draw some seats of a committee; all parts together are the draw."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round."""
    first: int
    """First seat that is not drawn."""
    count: int
    """How many to draw."""


@dataclass(frozen=True, slots=True)
class OpenAlt:
    """Show that we knew the answer that won."""

    dispute: Digest
    """Dispute id."""
    salt: Digest
    """Opens it."""


@dataclass(frozen=True, slots=True)
class Finalize:
    """End a dispute whose airgap is over."""

    dispute: Digest
    """Dispute id."""


@dataclass(frozen=True, slots=True)
class CollectReport:
    """Share what a report or an expired demand slashed and what has arrived since."""

    ref: Digest
    """Pot of the report."""
    payments: int
    """To that pot, which came late; each time that there are more is a sharing of its own."""


@dataclass(frozen=True, slots=True)
class PayOut:
    """Pay everybody but the seats once slashed stake has arrived."""

    dispute: Digest
    """Dispute id."""


@dataclass(frozen=True, slots=True)
class SettleSeats:
    """Pay or charge seats of a round."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round."""
    first: int
    """First seat that is not settled."""
    count: int
    """How many to settle."""


@dataclass(frozen=True, slots=True)
class ReleaseBatch:
    """Free the collateral of a batch whose window is over."""

    batch_id: int
    """Its number."""


@dataclass(frozen=True, slots=True)
class AnswerList:
    """Put the list of a batch on the chain, because somebody demanded it."""

    batch_id: int
    """Its number."""
    deadline: int
    """Last second, protocol clock."""


@dataclass(frozen=True, slots=True)
class ExpireList:
    """End a demand for a list that nobody answered in time."""

    batch_id: int
    """Its number."""


@dataclass(frozen=True, slots=True)
class DemandList:
    """Demand the list of a batch."""

    batch_id: int
    """Its number."""
    bond_wei: int
    """Bond to send."""


@dataclass(frozen=True, slots=True)
class DemandEnvelope:
    """Demand the envelope of a receipt in a batch."""

    receipt_id: Digest
    """Whose envelope."""
    bond_wei: int
    """Bond to send."""


@dataclass(frozen=True, slots=True)
class DemandAnchor:
    """Demand that a receipt which was given out be anchored."""

    receipt_id: Digest
    """Which one."""
    bond_wei: int
    """Bond to send."""


@dataclass(frozen=True, slots=True)
class Expire:
    """End a demand that nobody answered in time."""

    subject: Digest
    """What was demanded."""
    times: int = 0
    """How often it was ended before: again, where its penalty found too little stake and there is some now."""


@dataclass(frozen=True, slots=True)
class ReportEquivocation:
    """Show that an operator signed two receipts with one number."""

    operator: Address
    """Who signed."""
    seq: int
    """The number."""
    times: int = 0
    """How often something was taken for it before: again, where there was too little stake."""


@dataclass(frozen=True, slots=True)
class ReportSkipped:
    """Show that an operator signed a receipt with a number that it anchored as an empty leaf."""

    operator: Address
    """Who signed."""
    seq: int
    """The number."""
    times: int = 0
    """How often a report took something for it before: again, where there was too little stake."""


@dataclass(frozen=True, slots=True)
class FinishUnbond:
    """Take stake that has waited long enough."""

    due_wei: int
    """How much."""


@dataclass(frozen=True, slots=True)
class PostAudit:
    """Publish the signed result of a light audit."""

    result: AuditResult
    """The result."""
    batch_id: int
    """Batch of the receipt."""


@dataclass(frozen=True, slots=True)
class OpenAudit:
    """Show what our result committed to."""

    receipt_id: Digest
    """Audited receipt."""


@dataclass(frozen=True, slots=True)
class ClaimBounty:
    """Claim the bounty of our audit, with which another verifier's agrees."""

    receipt_id: Digest
    """Audited receipt."""


Action = (
    DrawPart | Rearm | RunVoteJob | CastCommit | CastReveal | Settle | OpenAlt | Finalize | PayOut
    | SettleSeats | ReleaseBatch | AnswerList | ExpireList | FinishUnbond | Withdraw
    | RunAudit | PostAudit | OpenAudit | ClaimBounty | OpenDispute | DemandList | DemandEnvelope | DemandAnchor | Expire
    | ReportEquivocation | ReportSkipped | CollectSlash | CollectReport | SyncStake | RetrySlash
)  # fmt: skip
"""Closed: whoever performs actions matches all of them."""
