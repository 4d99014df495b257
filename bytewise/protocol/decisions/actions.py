"""Actions that an actor can take. The `decide_*` functions return them, and an executor carries each one out.

Carrying out an action twice changes nothing (design section 2).
"""

from dataclasses import dataclass

from bytewise.protocol.records.statements import AuditResult, Finding, Vote
from bytewise.protocol.units import Address, Digest


@dataclass(frozen=True, slots=True)
class CollectSlash:
    """Action to ask a stake source to pay a slash. The stake source could not pay it at once."""

    slash_id: int
    """Number of the slash at EigenLayer."""


@dataclass(frozen=True, slots=True)
class SyncStake:
    """Action to ask a stake source to record an account's stake at EigenLayer."""

    account: Address
    """Account whose stake is recorded."""
    block: int
    """Block of the record that is replaced, or 0 if there is none. Each record is replaced only once."""


@dataclass(frozen=True, slots=True)
class RefreshWeight:
    """Action to make the registry read the stake of a verifier again. The verifier still has weight in draws, although none of
    its stake counts."""

    account: Address
    """Verifier whose weight is updated."""
    block: int
    """First block of the running stake epoch. A weight is refreshed at most once in an epoch."""


@dataclass(frozen=True, slots=True)
class RetrySlash:
    """Action to retry a slash that EigenLayer refused."""

    account: Address
    """Account that is slashed."""
    ref: Digest
    """Reference of the slash, which names the dispute, demand or report that caused it."""
    times: int
    """Number of times that EigenLayer has refused the slash. Each refusal is retried once."""


@dataclass(frozen=True, slots=True)
class Rearm:
    """Action to make the contract set a new seed block for a round, because the chain can no longer read the old one."""

    dispute: Digest
    """Id of the dispute."""
    round: int
    """Round that needs a seed."""


@dataclass(frozen=True, slots=True)
class RunVoteJob:
    """Action to run a job in this node's enclave that judges a disputed receipt."""

    dispute: Digest
    """Id of the dispute."""
    round: int
    """Number of the round."""
    receipt_id: Digest
    """Id of the disputed receipt."""
    seat_mask: int
    """Mask of this member's seats."""
    round_seed: Digest
    """Seed of the round. The round digest hashes it."""
    fetch_deadline: int
    """Chain time after which missing bytes become the vote UNAVAILABLE."""
    commit_end: int
    """Chain time after which the vote no longer counts."""


@dataclass(frozen=True, slots=True)
class CastCommit:
    """Action to send this member's commitment to the chain. The vote behind it is already in the protection table."""

    vote: Vote
    """The only vote of this member in this round."""
    commitment: Digest
    """EIP-712 digest of the vote."""


@dataclass(frozen=True, slots=True)
class CastReveal:
    """Action to reveal a vote whose commitment is on the chain."""

    vote: Vote
    """The committed vote."""


@dataclass(frozen=True, slots=True)
class PostCommitRoot:
    """Action to post the Merkle root of the members' collected commitments."""

    dispute: Digest
    """Id of the dispute."""
    round: int
    """Number of the round."""
    root: Digest
    """Root of the commitments."""


@dataclass(frozen=True, slots=True)
class CertifyRound:
    """Action to send the verdict certificate that members with the same finding signed together."""

    finding: Finding
    """The common finding of all signers."""
    root: Digest
    """First commit root of the round."""
    signers: int
    """Mask of the seats of all signers."""
    settles: bool
    """Whether every seat will have revealed or signed after this action. Then the round can be counted at once."""


@dataclass(frozen=True, slots=True)
class RevealUnderRoot:
    """Action to reveal a vote whose commitment is under the first commit root of the round."""

    vote: Vote
    """The committed vote."""
    proof: tuple[Digest, ...]
    """Merkle proof from the vote's commitment to the root."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Action to count the votes of a round."""

    dispute: Digest
    """Id of the dispute."""
    round: int
    """Number of the round whose votes are counted."""


@dataclass(frozen=True, slots=True)
class RunAudit:
    """Action to run a job in this node's enclave that judges a receipt drawn for a light audit."""

    receipt_id: Digest
    """Id of the drawn receipt."""


@dataclass(frozen=True, slots=True)
class OpenDispute:
    """Action to open a dispute about a receipt."""

    receipt_id: Digest
    """Receipt to dispute."""
    bond_wei: int
    """Bond to send, in wei."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Action to withdraw this account's credit in the ledger."""

    credit_wei: int
    """Amount in wei that the ledger can pay now."""


@dataclass(frozen=True, slots=True)
class DrawPart:
    """Action to draw some seats of a committee. A large committee needs several of these actions."""

    dispute: Digest
    """Id of the dispute."""
    round: int
    """Number of the round."""
    first: int
    """First seat that is not drawn yet."""
    count: int
    """Number of seats to draw."""


@dataclass(frozen=True, slots=True)
class OpenAlt:
    """Action to show that this challenger knew the answer that won."""

    dispute: Digest
    """Id of the dispute."""
    salt: Digest
    """Salt that opens the challenger's commitment."""


@dataclass(frozen=True, slots=True)
class Finalize:
    """Action to end a dispute whose airgap is over."""

    dispute: Digest
    """Id of the dispute."""


@dataclass(frozen=True, slots=True)
class CollectReport:
    """Action to distribute the stake that was slashed because of a report or an expired demand.

    The action is repeated for payments that arrive later.
    """

    ref: Digest
    """Reference of the report, which names its pot in the ledger."""
    payments: int
    """Number of late payments to the pot. Each new payment is distributed once."""


@dataclass(frozen=True, slots=True)
class PayOut:
    """Action to pay all parties of a dispute except the seats, once the slashed stake has arrived."""

    dispute: Digest
    """Id of the dispute."""


@dataclass(frozen=True, slots=True)
class SettleSeats:
    """Action to pay or charge some seats of a round."""

    dispute: Digest
    """Id of the dispute."""
    round: int
    """Number of the round."""
    first: int
    """First seat that is not settled yet."""
    count: int
    """Number of seats to settle."""


@dataclass(frozen=True, slots=True)
class ReleaseBatch:
    """Action to unlock the collateral of a batch whose challenge window is over."""

    batch_id: int
    """Number of the batch."""


@dataclass(frozen=True, slots=True)
class AnswerList:
    """Action to show the list of a batch on the chain, because it was demanded."""

    batch_id: int
    """Number of the batch."""
    deadline: int
    """Last second of the protocol clock in which an answer counts."""


@dataclass(frozen=True, slots=True)
class ExpireList:
    """Action to end the demand for a batch's list, because the operator did not answer in time."""

    batch_id: int
    """Number of the batch."""


@dataclass(frozen=True, slots=True)
class DemandList:
    """Action to demand the list of a batch."""

    batch_id: int
    """Number of the batch."""
    bond_wei: int
    """Bond to send, in wei."""


@dataclass(frozen=True, slots=True)
class DemandEnvelope:
    """Action to demand the envelope of a receipt in a batch."""

    receipt_id: Digest
    """Receipt whose envelope is demanded."""
    bond_wei: int
    """Bond to send, in wei."""


@dataclass(frozen=True, slots=True)
class DemandAnchor:
    """Action to demand that an issued receipt be anchored."""

    receipt_id: Digest
    """Receipt to anchor."""
    bond_wei: int
    """Bond to send, in wei."""


@dataclass(frozen=True, slots=True)
class Expire:
    """Action to end a demand, because the operator did not answer in time."""

    subject: Digest
    """Subject of the demand."""
    times: int = 0
    """Number of times that the demand was ended before. It is ended again if the operator had too little stake then and has some
    now."""


@dataclass(frozen=True, slots=True)
class ReportEquivocation:
    """Action to prove that an operator signed two receipts with one number."""

    operator: Address
    """Operator that signed both receipts."""
    seq: int
    """Number of both receipts."""
    times: int = 0
    """Number of times that a penalty was taken before. The report is repeated if the operator had too little stake then."""


@dataclass(frozen=True, slots=True)
class ReportSkipped:
    """Action to prove that an operator signed a receipt with a number that it anchored as an empty leaf."""

    operator: Address
    """Operator that signed the receipt."""
    seq: int
    """Number of the receipt and of the empty leaf."""
    times: int = 0
    """Number of times that a penalty was taken before. The report is repeated if the operator had too little stake then."""


@dataclass(frozen=True, slots=True)
class FinishUnbond:
    """Action to withdraw stake whose unbonding delay is over."""

    due_wei: int
    """Amount to withdraw, in wei."""


@dataclass(frozen=True, slots=True)
class PostAudit:
    """Action to publish the signed result of a light audit."""

    result: AuditResult
    """Result with the auditor's commitment."""
    batch_id: int
    """Batch of the receipt."""


@dataclass(frozen=True, slots=True)
class OpenAudit:
    """Action to open the commitment of this verifier's audit result."""

    receipt_id: Digest
    """Id of the audited receipt."""


@dataclass(frozen=True, slots=True)
class ClaimBounty:
    """Action to claim the bounty of this verifier's light audit, after another verifier confirmed the result."""

    receipt_id: Digest
    """Id of the audited receipt."""


Action = (
    DrawPart | Rearm | RunVoteJob | CastCommit | CastReveal | Settle | OpenAlt | Finalize | PayOut
    | SettleSeats | ReleaseBatch | AnswerList | ExpireList | FinishUnbond | Withdraw
    | RunAudit | PostAudit | OpenAudit | ClaimBounty | OpenDispute | DemandList | DemandEnvelope | DemandAnchor | Expire
    | PostCommitRoot | CertifyRound | RevealUnderRoot
    | ReportEquivocation | ReportSkipped | CollectSlash | CollectReport | SyncStake | RefreshWeight | RetrySlash
)  # fmt: skip
"""Union of all actions. It is closed: an executor handles every one of them."""
