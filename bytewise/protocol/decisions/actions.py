"""Actions that an actor can take. `decide_*` functions return them; an executor carries each one out idempotently (design
section 2)."""

from dataclasses import dataclass

from bytewise.protocol.records.statements import AuditResult, Finding, Vote
from bytewise.protocol.units import Address, Digest


@dataclass(frozen=True, slots=True)
class CollectSlash:
    """Ask a stake source to pay a slash that it could not pay at once."""

    slash_id: int
    """Number of the slash at EigenLayer."""


@dataclass(frozen=True, slots=True)
class SyncStake:
    """Ask a stake source to record an account's stake at EigenLayer."""

    account: Address
    """Account whose stake is recorded."""
    block: int
    """Block of the record that is replaced, or 0 if there is none. Each record is replaced once."""


@dataclass(frozen=True, slots=True)
class RefreshWeight:
    """Ask the registry to read the stake of a verifier again, whose weight in draws is too old."""

    account: Address
    """Verifier whose weight is set anew."""
    block: int
    """First block of the running stake epoch. A weight is refreshed at most once in an epoch."""


@dataclass(frozen=True, slots=True)
class RetrySlash:
    """Retry a slash that EigenLayer refused."""

    account: Address
    """Account that is slashed."""
    ref: Digest
    """Reference of the slash: the reason for it."""
    times: int
    """How often EigenLayer has refused it. Each refusal is retried once."""


@dataclass(frozen=True, slots=True)
class Rearm:
    """Fix a new seed block, because the chain can no longer read the old one."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round that needs a seed."""


@dataclass(frozen=True, slots=True)
class RunVoteJob:
    """Run a job in the own enclave that judges a disputed receipt."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round number."""
    receipt_id: Digest
    """Disputed receipt."""
    seat_mask: int
    """Mask of the own seats."""
    round_seed: Digest
    """Seed of the round, which the round digest hashes."""
    fetch_deadline: int
    """Chain time after which missing bytes become the vote UNAVAILABLE."""
    commit_end: int
    """Chain time after which the vote no longer counts."""


@dataclass(frozen=True, slots=True)
class CastCommit:
    """Send the commitment to a vote of the protection table."""

    vote: Vote
    """The one vote of this round."""
    commitment: Digest
    """EIP-712 digest of the vote."""


@dataclass(frozen=True, slots=True)
class CastReveal:
    """Reveal a vote whose commitment is on the chain."""

    vote: Vote
    """The committed vote."""


@dataclass(frozen=True, slots=True)
class PostCommitRoot:
    """Put the root of the members' collected commitments on the chain."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round number."""
    root: Digest
    """Root of the commitments."""


@dataclass(frozen=True, slots=True)
class CertifyRound:
    """Send the certificate of members that found the same."""

    finding: Finding
    """What all of them found."""
    root: Digest
    """First root of the round."""
    signers: int
    """Mask of their seats."""
    settles: bool
    """Whether every seat has spoken then, so that the round can be counted at once."""


@dataclass(frozen=True, slots=True)
class RevealUnderRoot:
    """Reveal a vote whose commitment is under the first root of the round."""

    vote: Vote
    """The committed vote."""
    proof: tuple[Digest, ...]
    """Path from its commitment to the root."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Count a round."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round to count."""


@dataclass(frozen=True, slots=True)
class RunAudit:
    """Run a job in the own enclave that judges a receipt drawn for a light audit."""

    receipt_id: Digest
    """Drawn receipt."""


@dataclass(frozen=True, slots=True)
class OpenDispute:
    """Dispute a receipt."""

    receipt_id: Digest
    """Receipt to dispute."""
    bond_wei: int
    """Bond to send, in wei."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Withdraw this account's credit in the ledger."""

    credit_wei: int
    """Amount owed, in wei."""


@dataclass(frozen=True, slots=True)
class DrawPart:
    """Draw some seats of a committee. All parts together are the draw."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round number."""
    first: int
    """First seat that is not drawn yet."""
    count: int
    """How many seats to draw."""


@dataclass(frozen=True, slots=True)
class OpenAlt:
    """Show that this challenger knew the answer that won."""

    dispute: Digest
    """Dispute id."""
    salt: Digest
    """Salt that opens its commitment."""


@dataclass(frozen=True, slots=True)
class Finalize:
    """End a dispute whose airgap is over."""

    dispute: Digest
    """Dispute id."""


@dataclass(frozen=True, slots=True)
class CollectReport:
    """Distribute what a report or an expired demand slashed, including payments that arrived later."""

    ref: Digest
    """Pot of the report."""
    payments: int
    """Number of late payments to the pot. Each new payment is distributed once."""


@dataclass(frozen=True, slots=True)
class PayOut:
    """Pay all parties except the seats, once the slashed stake has arrived."""

    dispute: Digest
    """Dispute id."""


@dataclass(frozen=True, slots=True)
class SettleSeats:
    """Pay or charge some seats of a round."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round number."""
    first: int
    """First seat that is not settled yet."""
    count: int
    """How many seats to settle."""


@dataclass(frozen=True, slots=True)
class ReleaseBatch:
    """Free the collateral of a batch whose window is over."""

    batch_id: int
    """Number of the batch."""


@dataclass(frozen=True, slots=True)
class AnswerList:
    """Put the list of a batch on the chain, because it was demanded."""

    batch_id: int
    """Number of the batch."""
    deadline: int
    """Last second to answer, protocol clock."""


@dataclass(frozen=True, slots=True)
class ExpireList:
    """End a demand for a list that the operator did not answer in time."""

    batch_id: int
    """Number of the batch."""


@dataclass(frozen=True, slots=True)
class DemandList:
    """Demand the list of a batch."""

    batch_id: int
    """Number of the batch."""
    bond_wei: int
    """Bond to send, in wei."""


@dataclass(frozen=True, slots=True)
class DemandEnvelope:
    """Demand the envelope of a receipt in a batch."""

    receipt_id: Digest
    """Receipt whose envelope is demanded."""
    bond_wei: int
    """Bond to send, in wei."""


@dataclass(frozen=True, slots=True)
class DemandAnchor:
    """Demand that an issued receipt be anchored."""

    receipt_id: Digest
    """Receipt to anchor."""
    bond_wei: int
    """Bond to send, in wei."""


@dataclass(frozen=True, slots=True)
class Expire:
    """End a demand that the operator did not answer in time."""

    subject: Digest
    """Subject of the demand."""
    times: int = 0
    """How often it was ended before. It is ended again if the operator had too little stake then and has some now."""


@dataclass(frozen=True, slots=True)
class ReportEquivocation:
    """Prove that an operator signed two receipts with one number."""

    operator: Address
    """Operator that signed both."""
    seq: int
    """The number."""
    times: int = 0
    """How often a penalty was taken before. The report is repeated if the operator had too little stake then."""


@dataclass(frozen=True, slots=True)
class ReportSkipped:
    """Prove that an operator signed a receipt with a number that it anchored as an empty leaf."""

    operator: Address
    """Operator that signed it."""
    seq: int
    """The number."""
    times: int = 0
    """How often a penalty was taken before. The report is repeated if the operator had too little stake then."""


@dataclass(frozen=True, slots=True)
class FinishUnbond:
    """Withdraw stake whose unbonding delay is over."""

    due_wei: int
    """Amount in wei."""


@dataclass(frozen=True, slots=True)
class PostAudit:
    """Publish the signed result of a light audit."""

    result: AuditResult
    """The result."""
    batch_id: int
    """Batch of the receipt."""


@dataclass(frozen=True, slots=True)
class OpenAudit:
    """Open the commitment of our audit result."""

    receipt_id: Digest
    """Audited receipt."""


@dataclass(frozen=True, slots=True)
class ClaimBounty:
    """Claim the bounty of our audit, which another verifier confirmed."""

    receipt_id: Digest
    """Audited receipt."""


Action = (
    DrawPart | Rearm | RunVoteJob | CastCommit | CastReveal | Settle | OpenAlt | Finalize | PayOut
    | SettleSeats | ReleaseBatch | AnswerList | ExpireList | FinishUnbond | Withdraw
    | RunAudit | PostAudit | OpenAudit | ClaimBounty | OpenDispute | DemandList | DemandEnvelope | DemandAnchor | Expire
    | PostCommitRoot | CertifyRound | RevealUnderRoot
    | ReportEquivocation | ReportSkipped | CollectSlash | CollectReport | SyncStake | RefreshWeight | RetrySlash
)  # fmt: skip
"""The union is closed: an executor matches every one of these actions."""
