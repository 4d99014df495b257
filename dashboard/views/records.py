"""Records that the API returns and the pages show. Field docstrings become the descriptions of the OpenAPI document.

Ids and hashes are 0x-hex. An amount is wei in decimal text, because it may be beyond 2^53. A time has Unix seconds and RFC 3339.
"""

import enum

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """An immutable record."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class FinalityState(enum.StrEnum):
    """How sure it is that a block stays in the chain."""

    PENDING = "pending"
    SAFE = "safe"
    FINALIZED = "finalized"


class Amount(Record):
    """An amount of money."""

    wei: str
    """Wei, decimal."""
    eth: str
    """The same in ether, exact, without trailing zeros."""


class Time(Record):
    """A point in time."""

    unix: int
    """Unix seconds."""
    utc: str
    """RFC 3339 in UTC."""


class Party(Record):
    """An account."""

    account: str
    """Address."""
    name: str | None
    """Name that this dashboard's owner gave it."""


class BlockName(Record):
    """A block."""

    number: int
    hash: str
    time: Time


class IndexMeta(Record):
    """What an answer rests on."""

    chain_id: int
    block: BlockName
    """Newest indexed block, or the block that was asked for."""
    head: int
    """Newest block of the node at the last look."""
    behind_blocks: int
    """Blocks that the index does not have yet."""
    behind_s: int
    """Age of the newest indexed block in seconds."""
    is_stale: bool
    """Whether that age is beyond the limit of this dashboard."""
    safe: int
    finalized: int
    checked_block: int
    """Block at which the index was last compared with the contracts; 0: not yet."""
    differences: tuple[str, ...]
    """What that comparison found. Where there are any, do not rely on this index."""
    version: str
    """Version of this program."""


class DisputeSummary(Record):
    """A dispute in a list."""

    id: str
    receipt_id: str
    operator: Party
    challenger: Party
    opened: Time
    opened_block: int
    phase: str
    """`seed`, `drawing`, `commit`, `reveal`, `appeal`, `airgap` or `final`, by the protocol clock."""
    phase_words: str
    verdict: str
    """`none`, `upheld`, `overturned`, `invalid`, `unavailable`, `draw` or `refunded`: what stands now."""
    verdict_words: str
    round: int
    seats: int
    """Seats of the newest round."""
    committed: int
    revealed: int
    deadline: Time | None
    """End of the phase, where time ends it. It moves if the clock is paused."""
    finality: FinalityState
    """Of the newest change."""


class DisputeStep(Record):
    """One step of a dispute."""

    name: str
    state: str
    """`done`, `current`, `next` or `skipped`."""
    words: str
    deadline: Time | None


class TallyLine(Record):
    """Seats that said one thing."""

    label: str
    seats: int
    reaches_quorum: bool


class MemberVote(Record):
    """What one member did in one round."""

    voter: Party
    seats: int
    seat_numbers: tuple[int, ...]
    did: str
    """`pending`, `did not commit`, `committed`, `did not reveal`, `revealed` or `certified`."""
    said: str
    """What its vote says, in words; empty while it is not known."""
    agrees: bool | None
    """Whether the court counts its vote as right: under the final verdict once its seats are settled, before that as
    `agrees_with_round`."""
    agrees_with_round: bool | None
    """Whether its vote is one that the verdict of its round makes right; None without verdict, or if it found nothing."""
    tokens_hash: str | None
    trace_root: str | None
    out_hash: str | None
    quote_hash: str | None
    quote_bytes: int
    evidence: str
    """Assurance of the key epoch, and whether a quote came with the vote."""
    outcome: str
    """How its seats were treated at the end."""
    pay: Amount
    penalty: Amount
    committed_block: int | None
    revealed_block: int | None


class RoundDetail(Record):
    """One round."""

    number: int
    level: int
    seats: int
    drawn: int
    quorum: int
    tau: str
    """The quorum as a fraction."""
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
    """`in` or `out`."""
    amount: Amount
    to: Party | None


class NextAct(Record):
    """Something that a party may do."""

    title: str
    who: str
    function: str
    """Contract and function."""
    to: str
    """Address of the contract."""
    calldata: str | None
    """The call, where its arguments are known; None where the caller must add some."""
    value: Amount
    command: str | None
    """A command that does it."""
    words: str
    allowed_now: bool
    """Whether the index says that it is allowed at its newest block."""


class EventLine(Record):
    """One event of a contract."""

    id: str
    """Resumes a stream behind this event."""
    block: int
    place: int
    block_hash: str
    time: Time
    transaction: str
    contract: str
    address: str
    name: str
    words: str
    """What happened, in a sentence; empty for events that have none."""
    arguments: dict[str, object]
    finality: FinalityState


class PreflightLine(Record):
    """One of the eleven points about whether a record is complete (design section 11)."""

    point: str
    words: str
    """What must be so."""
    result: str
    """`pass`, `fail` or `unknown`."""


class CapsuleNote(Record):
    """A file that proves how a dispute ended without this dashboard, chain or DA, and what a verification of it said here."""

    url: str
    """Where it is downloaded."""
    size: int
    """Bytes."""
    sha256: str
    is_wrong: bool
    """Whether a proof in it fails, or it is of another dispute."""
    shows: tuple[str, ...]
    """What it shows; empty if it is wrong."""
    conditions: tuple[str, ...]
    """What a reader must still compare, or what is wrong."""
    preflight: tuple[PreflightLine, ...]
    """The eleven points; empty if they are not proven."""
    claim: str | None
    """The largest claim that the record supports."""


class DisputeDetail(DisputeSummary):
    """A dispute with everything that the index has of it."""

    headline: str
    """What was decided, or what is waited for, in one sentence."""
    why: tuple[str, ...]
    """Why, in sentences."""
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
    """out_hash that replaces the receipt's."""
    ended: bool
    paid: bool
    steps: tuple[DisputeStep, ...]
    rounds: tuple[RoundDetail, ...]
    money_in: tuple[MoneyLine, ...]
    money_out: tuple[MoneyLine, ...]
    penalties: Amount
    sums: bool
    """Whether both sides of the money are equal, to the wei."""
    acts: tuple[NextAct, ...]
    capsule: CapsuleNote | None
    """None while there is no capsule here."""


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
    """End of the time in which its receipts can be disputed, if neither the clock nor its pool stops and no demand adds time."""
    state: str
    """`open`, `over`, `void`."""
    list_demanded: bool
    finality: FinalityState


class DemandSummary(Record):
    """A demand for a list, an envelope or an anchored receipt."""

    subject: str
    kind: str
    state: str
    """`open`, `overdue`, `answered` or `expired`."""
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
    """The batch that the post names. Only a bounty shows that the receipt is in it."""
    result: str
    """`match`, `mismatch` or `none`."""
    posted_block: int
    audited_at: Time
    out_hash: str | None
    bounty: Amount
    finality: FinalityState


class ReceiptDetail(Record):
    """What the chain says about one receipt."""

    id: str
    level: str
    """`disputed`, `overturned`, `upheld`, `void`, `audited` or `unknown`."""
    words: str
    replacement: str | None
    operator: Party | None
    batch_id: int | None
    dispute_id: str | None
    demand: DemandSummary | None
    audits: tuple[AuditSummary, ...]
    capsule: CapsuleNote | None
    """Of its dispute; None while there is none here."""
    finality: FinalityState


class Problem(Record):
    """An error (RFC 9457, `application/problem+json`)."""

    type: str
    """Page about this kind of error."""
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    request_id: str
