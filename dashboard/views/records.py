"""Records that several views share. The API returns them and the pages show them. Field docstrings become the descriptions of the
OpenAPI document.

Ids and hashes are 0x-hex. An amount is wei in decimal text, because it may be beyond 2^53. A time has Unix seconds and RFC 3339.
"""

import enum

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """An immutable record."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class FinalityState(enum.StrEnum):
    """Finality of a block: how certain it is that the block stays in the chain."""

    PENDING = "pending"
    SAFE = "safe"
    FINALIZED = "finalized"


class Amount(Record):
    """An amount of money."""

    wei: str
    """Amount in wei, decimal."""
    eth: str
    """The same amount in ether, exact, without trailing zeros."""


class Time(Record):
    """A point in time."""

    unix: int
    """Time in Unix seconds."""
    utc: str
    """The same time in UTC (RFC 3339); `never` after the year 9999."""


class Party(Record):
    """An account, with the name that this dashboard shows for it."""

    account: str
    """Address of the account."""
    name: str | None
    """Name that the owner of this dashboard gave to the account; None if it has none."""


class BlockName(Record):
    """A block."""

    number: int
    hash: str
    time: Time


class IndexMeta(Record):
    """State of the index from which an answer was made."""

    chain_id: int
    block: BlockName
    """Newest indexed block, or the block that the request named."""
    head: int
    """Newest block that the chain node had when the indexer last asked it."""
    behind_blocks: int
    """Number of blocks up to `head` that the index does not have yet, whatever block the request named."""
    behind_s: int
    """Age of the newest indexed block in seconds, whatever block the request named."""
    is_stale: bool
    """Whether `behind_s` is above the limit of this dashboard."""
    safe: int
    finalized: int
    checked_block: int
    """Block at which the index was last compared with the contracts; 0 if it was never compared."""
    differences: tuple[str, ...]
    """Differences that the last comparison found. If there are any, do not rely on this index."""
    version: str
    """Version of the dashboard program."""


class DisputeSummary(Record):
    """A dispute in a list."""

    id: str
    receipt_id: str
    operator: Party
    challenger: Party
    opened: Time
    opened_block: int
    phase: str
    """Phase by the protocol clock: `seed`, `drawing`, `commit`, `reveal`, `appeal`, `airgap` or `final`."""
    phase_words: str
    verdict: str
    """Verdict in force: `none`, `upheld`, `overturned`, `invalid`, `unavailable`, `draw` or `refunded`."""
    verdict_words: str
    round: int
    seats: int
    """Seats of the newest round."""
    committed: int
    revealed: int
    deadline: Time | None
    """End of the present phase, if time ends it. A pause of the clock moves it."""
    finality: FinalityState
    """Finality of the newest change of the dispute."""


class DisputeStep(Record):
    """One step of a dispute."""

    name: str
    state: str
    """State of the step: `done`, `current`, `next` or `skipped`."""
    words: str
    deadline: Time | None


class TallyLine(Record):
    """One answer of a round, with the number of seats that gave it."""

    label: str
    seats: int
    reaches_quorum: bool


class MemberVote(Record):
    """A member's vote in one round."""

    voter: Party
    seats: int
    seat_numbers: tuple[int, ...]
    did: str
    """Last step of the member: `pending`, `did not commit`, `committed`, `did not reveal`, `revealed` or `certified`."""
    said: str
    """Content of the vote, in words; empty while it is not known."""
    agrees: bool | None
    """Whether the court counts the vote as right. It follows the final verdict once the member's seats are settled, and equals
    `agrees_with_round` before that."""
    agrees_with_round: bool | None
    """Whether the verdict of the round makes the vote right. None if the round has no verdict, or if the vote states no
    finding."""
    tokens_hash: str | None
    trace_root: str | None
    out_hash: str | None
    quote_hash: str | None
    quote_bytes: int
    evidence: str
    """Assurance of the key epoch, and whether a quote came with the vote."""
    outcome: str
    """Outcome of the member's seats at the settlement, for example paid or charged."""
    pay: Amount
    penalty: Amount
    committed_block: int | None
    revealed_block: int | None


class RoundDetail(Record):
    """One round of a dispute."""

    number: int
    level: int
    seats: int
    drawn: int
    quorum: int
    tau: str
    """The quorum as a fraction of the seats."""
    seed_block: int
    rearms: int
    round_seed: str | None
    commit_end: Time | None
    reveal_end: Time | None
    settled: bool
    verdict: str
    tally: tuple[TallyLine, ...]
    members: tuple[MemberVote, ...]
    empty_seats: int
    """Seats that nobody holds."""


class MoneyLine(Record):
    """One movement of a dispute's money."""

    label: str
    direction: str
    """Direction of the money: `in` to the dispute, or `out` of it."""
    amount: Amount
    to: Party | None


class NextAct(Record):
    """An action that a party may take in a dispute."""

    title: str
    who: str
    function: str
    """Contract and function of the call, as `Contract.function`."""
    to: str
    """Address of the contract."""
    calldata: str | None
    """Data of the call; None if the caller must add arguments that the index does not know."""
    value: Amount
    command: str | None
    """A `bytewise` command that sends the call; None if the caller must add arguments."""
    words: str
    allowed_now: bool
    """Whether the contract accepts the call, as far as the newest block of the index shows."""


class EventLine(Record):
    """One event of a contract."""

    id: str
    """Id of the event. A client that sends this id resumes a stream after the event."""
    block: int
    place: int
    block_hash: str
    time: Time
    transaction: str
    contract: str
    address: str
    name: str
    words: str
    """Description of the event in a sentence; empty for an event without one."""
    arguments: dict[str, object]
    finality: FinalityState


class PreflightLine(Record):
    """One of the eleven points of the preflight, which checks that a record is complete (design section 11)."""

    point: str
    words: str
    """Condition that the point requires."""
    result: str
    """Result of the point: `pass`, `fail` or `unknown`."""


class CapsuleNote(Record):
    """An evidence capsule, and the result of its verification here. The file proves how a dispute ended, without this dashboard,
    the chain or DA."""

    url: str
    """Path from which the file can be downloaded."""
    size: int
    """Size of the file in bytes."""
    sha256: str
    is_wrong: bool
    """Whether a proof in the capsule fails, or the capsule is of another dispute."""
    shows: tuple[str, ...]
    """Statements that the capsule shows; empty if it is wrong."""
    conditions: tuple[str, ...]
    """Values that a reader must still compare, or descriptions of what is wrong."""
    preflight: tuple[PreflightLine, ...]
    """The eleven points of the preflight; empty if they are not proven."""
    claim: str | None
    """The largest claim that the record supports; None if that is not proven."""


class DisputeDetail(DisputeSummary):
    """One dispute with everything that the index knows about it."""

    headline: str
    """The decision, or the step for which the dispute waits, in one sentence."""
    why: tuple[str, ...]
    """Reasons for the present state, in sentences."""
    batch_id: int
    environment: str
    model_id: str
    key_epoch: int
    assurance: str
    params_version: int
    appellant: Party | None
    knew: bool
    """Whether the challenger showed that it knew the winning answer."""
    replacement: str | None
    """The `out_hash` that replaces that of the receipt; None if nothing replaces it."""
    ended: bool
    paid: bool
    steps: tuple[DisputeStep, ...]
    rounds: tuple[RoundDetail, ...]
    money_in: tuple[MoneyLine, ...]
    money_out: tuple[MoneyLine, ...]
    penalties: Amount
    sums: bool
    """Whether `money_in` and `money_out` have the same sum, to the wei. Always true before the dispute has ended."""
    acts: tuple[NextAct, ...]
    capsule: CapsuleNote | None
    """Capsule of the dispute; None if this dashboard has none."""


class BatchSummary(Record):
    """An anchored batch."""

    id: int
    operator: Party
    first_seq: int
    receipts: int
    root: str
    list_hash: str
    locator: str
    environment: str
    model_id: str
    key_epoch: int
    params_version: int
    anchored_at: Time
    block: int
    window_end: Time
    """End of the challenge window of the batch, unless a pause of the clock, a stop of the pool or a demand adds time."""
    state: str
    """State of the challenge window, `open` or `over`; or `void` if the batch is void."""
    list_demanded: bool
    finality: FinalityState


class DemandSummary(Record):
    """A demand that an operator shows a list or an envelope, or anchors a receipt."""

    subject: str
    kind: str
    state: str
    """`open`, `overdue` (open after its deadline), `answered` or `expired`."""
    operator: Party
    demanded_by: Party
    opened_block: int
    deadline: Time
    bond: Amount
    answered_by: Party | None
    slashed: Amount
    finality: FinalityState


class AuditSummary(Record):
    """A light audit."""

    receipt_id: str
    verifier: Party
    batch_id: int
    """Batch that the verifier named with its result. Only a dispute or a bounty shows that the receipt is in this
    batch."""
    result: str
    """Result of the audit: `match`, `mismatch` or `none`."""
    posted_block: int
    audited_at: Time
    out_hash: str | None
    bounty: Amount
    finality: FinalityState


class ReceiptDetail(Record):
    """Facts from the chain about one receipt."""

    id: str
    level: str
    """State of the receipt: `disputed`, `overturned`, `upheld`, `void`, `audited` or `unknown`."""
    words: str
    replacement: str | None
    operator: Party | None
    batch_id: int | None
    dispute_id: str | None
    demand: DemandSummary | None
    audits: tuple[AuditSummary, ...]
    capsule: CapsuleNote | None
    """Capsule of the receipt's dispute; None if this dashboard has none."""
    finality: FinalityState


class Problem(Record):
    """An error (RFC 9457, `application/problem+json`)."""

    type: str
    """Path of the page that explains this kind of error."""
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    request_id: str
