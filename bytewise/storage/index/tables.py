"""Tables of the index: blocks, events, and facts with the range of blocks in which they were in force.

A fact is a row with a key, `valid_from` and `valid_to`. A change closes the row and opens another one. So one query returns the
state at any block, and going back to a block needs two statements for each table (ADR-053).
"""

import json
from typing import Annotated, Any

from sqlalchemy import Dialect, Index, MetaData, String, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from bytewise.storage.tables import NAMES, Account, Bytes, Bytes32, Int64, Prose, Word


class IndexBase(DeclarativeBase):
    """The base class of every table of the index. The database of an actor has none of these tables."""

    metadata = MetaData(naming_convention=NAMES)


class DecimalText(TypeDecorator[int]):
    """Column type that stores an integer as decimal text."""

    # Neither SQLite nor PostgreSQL has an integer of 256 bits.
    impl = String(80)
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> str | None:
        """Returns the integer as decimal text."""
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> int | None:
        """Returns the integer that the text stands for."""
        return None if value is None else int(value)


class JsonText(TypeDecorator[Any]):
    """Column type that stores a value as JSON in one form: sorted names, no spaces, ASCII. None is NULL."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Returns the value as JSON in the form of this column."""
        return None if value is None else json.dumps(value, sort_keys=True, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Returns the value that the JSON stands for."""
        return None if value is None else json.loads(value)


Wei = Annotated[int, mapped_column(DecimalText)]
"""An unsigned integer of 256 bits, stored as decimal text. Amounts are in wei."""
Json = Annotated[Any, mapped_column(JsonText)]
"""Lists and mappings of texts and numbers, stored in one canonical form."""


class MetaRow(IndexBase):
    """One named value about the whole index, for example its network, its rules, or the newest block of the chain node."""

    __tablename__ = "index_meta"
    name: Mapped[Word] = mapped_column(primary_key=True)
    value: Mapped[Prose]


class BlockRow(IndexBase):
    """A block of the chain. Of the blocks below the finalized block, the index has only those with events."""

    __tablename__ = "block"
    number: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    hash: Mapped[Bytes32]
    parent: Mapped[Bytes32]
    timestamp: Mapped[Int64]
    events: Mapped[int]


class EventRow(IndexBase):
    """One event of a contract of the network, with its decoded arguments."""

    __tablename__ = "event"
    block: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    place: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    transaction: Mapped[Bytes32]
    contract: Mapped[Word]
    address: Mapped[Account]
    name: Mapped[Word]
    subject: Mapped[Word]
    """First argument, in text: the dispute, receipt, batch or account that the event is about."""
    arguments: Mapped[Json]
    __table_args__ = (Index("ix_event_subject", "subject", "block", "place"), Index("ix_event_name", "contract", "name", "block"))


class Fact(IndexBase):
    """A row with a key.

    It is in force from block `valid_from` until before block `valid_to`, or until now if `valid_to` is None.
    """

    __abstract__ = True
    valid_from: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False, sort_order=100)
    valid_to: Mapped[Int64 | None] = mapped_column(index=True, sort_order=101)


# --- the court ---


class DisputeFact(Fact):
    """A dispute. The amounts of the settlement are known once the dispute has ended."""

    __tablename__ = "dispute"
    id: Mapped[Bytes32] = mapped_column(primary_key=True)
    receipt_id: Mapped[Bytes32] = mapped_column(index=True)
    operator: Mapped[Account] = mapped_column(index=True)
    challenger: Mapped[Account] = mapped_column(index=True)
    batch_id: Mapped[Int64]
    environment: Mapped[Bytes32]
    model_id: Mapped[Bytes32]
    key_epoch: Mapped[Int64]
    params_version: Mapped[int]
    opened_block: Mapped[Int64] = mapped_column(index=True)
    opened_at: Mapped[Int64]
    phase: Mapped[int] = mapped_column(index=True)
    """The phase that the contract stores. REVEAL and AIRGAP follow from the clock (`bytewise.protocol.court.phases.DERIVED`)."""
    level: Mapped[int]
    round: Mapped[int]
    verdict: Mapped[int] = mapped_column(index=True)
    decided_round: Mapped[int]
    appeal_end: Mapped[Int64]
    airgap_end: Mapped[Int64]
    appellant: Mapped[Account | None]
    appealed_verdict: Mapped[int]
    knew: Mapped[bool]
    replacement: Mapped[Bytes32 | None]
    ended: Mapped[bool]
    paid: Mapped[bool]
    bond: Mapped[Wei]
    appeal_bond: Mapped[Wei]
    advanced: Mapped[Wei]
    operator_locked: Mapped[Wei]
    slashed: Mapped[Wei]
    penalties: Mapped[Wei]
    per_seat: Mapped[Wei]
    to_challenger: Mapped[Wei]
    to_appellant: Mapped[Wei]
    to_operator: Mapped[Wei]
    to_verifiers: Mapped[Wei]
    repaid: Mapped[Wei]
    burned: Mapped[Wei]


class RoundFact(Fact):
    """One round of a dispute, with its tally."""

    __tablename__ = "dispute_round"
    dispute: Mapped[Bytes32] = mapped_column(primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    level: Mapped[int]
    seats: Mapped[int]
    seed_block: Mapped[Int64]
    rearms: Mapped[int]
    drawn: Mapped[int]
    seed: Mapped[Bytes32 | None]
    round_seed: Mapped[Bytes32 | None]
    commit_end: Mapped[Int64]
    reveal_end: Mapped[Int64]
    rooted: Mapped[bool]
    """Whether a commit root was posted. Then any seat may have committed under it and may still reveal its vote."""
    committed: Mapped[int]
    revealed: Mapped[int]
    certified: Mapped[int]
    settled: Mapped[bool]
    verdict: Mapped[int]
    equal: Mapped[int]
    lead: Mapped[int]
    unavailable: Mapped[int]
    no_key: Mapped[int]
    cannot_execute: Mapped[int]
    not_revealed: Mapped[int]
    absent: Mapped[int]
    lead_verdict: Mapped[int]
    lead_key: Mapped[Bytes32 | None]
    """The finding of the largest group that contradicts the receipt, as a hash over outcome, code and out_hash."""
    lead_out_hash: Mapped[Bytes32 | None]
    paid_seats: Mapped[int]
    """Number of seats that were paid or charged so far."""


class SeatFact(Fact):
    """One seat of a round: its holder, its outcome, and its pay in wei."""

    __tablename__ = "seat"
    dispute: Mapped[Bytes32] = mapped_column(primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    seat: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    place: Mapped[int]
    voter: Mapped[Account] = mapped_column(index=True)
    outcome: Mapped[int]
    pay: Mapped[Wei]


class VoteFact(Fact):
    """The commitment and the vote of one member in one round. A verdict certificate may take the place of the revealed vote."""

    __tablename__ = "vote"
    dispute: Mapped[Bytes32] = mapped_column(primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    voter: Mapped[Account] = mapped_column(primary_key=True)
    seat_mask: Mapped[Wei]
    commitment: Mapped[Bytes32 | None]
    committed_block: Mapped[Int64 | None]
    revealed_block: Mapped[Int64 | None]
    certified: Mapped[bool]
    said: Mapped[int]
    """The vote's `Outcome`. It is 0 while it is not known."""
    code: Mapped[int]
    tokens_hash: Mapped[Bytes32 | None]
    trace_root: Mapped[Bytes32 | None]
    round_digest: Mapped[Bytes32 | None]
    quote_hash: Mapped[Bytes32 | None]
    quote_bytes: Mapped[int]
    penalty: Mapped[Wei]


# --- receipts ---


class BatchFact(Fact):
    """An anchored batch."""

    __tablename__ = "batch"
    id: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    operator: Mapped[Account] = mapped_column(index=True)
    first_seq: Mapped[Int64]
    receipts: Mapped[int]
    root: Mapped[Bytes32]
    list_hash: Mapped[Bytes32]
    environment: Mapped[Bytes32]
    model_id: Mapped[Bytes32]
    key_epoch: Mapped[Int64]
    locator: Mapped[Prose]
    params_version: Mapped[int]
    anchored_at: Mapped[Int64]
    """Unix second of the block that anchored the batch."""
    started_at: Mapped[Int64]
    """Time of the anchoring on the protocol clock. The challenge window runs from then."""
    stopped_at_start: Mapped[Int64]
    """Seconds for which the batch's pool had been stopped before the anchoring."""
    block: Mapped[Int64]
    is_void: Mapped[bool]
    released: Mapped[bool]


class DemandFact(Fact):
    """An availability demand for a list, an envelope or an unanchored receipt."""

    __tablename__ = "demand"
    subject: Mapped[Bytes32] = mapped_column(primary_key=True)
    kind: Mapped[int]
    state: Mapped[int] = mapped_column(index=True)
    operator: Mapped[Account] = mapped_column(index=True)
    demanded_by: Mapped[Account]
    contract: Mapped[Account]
    """Address of the contract `Demands`. The subject of a demand for a list is computed from it."""
    opened_block: Mapped[Int64]
    opened_at: Mapped[Int64]
    """Seconds of the protocol clock, like `deadline` and `closed_at`."""
    deadline: Mapped[Int64]
    closed_at: Mapped[Int64]
    """Time at which the demand was answered or expired, when the challenge window runs on. It is 0 while the demand is open."""
    bond: Mapped[Wei]
    answered_by: Mapped[Account | None]
    slashed: Mapped[Wei]


class ReportFact(Fact):
    """A report against an operator, of one of two kinds.

    `equivocation`: the operator signed two receipts with one number. `skipped`: the operator signed a receipt, but anchored the
    number of this receipt as an empty leaf.
    """

    __tablename__ = "report"
    operator: Mapped[Account] = mapped_column(primary_key=True)
    seq: Mapped[Wei] = mapped_column(primary_key=True)
    """The receipt number. It may be any number of 64 bits, because the operator signed it."""
    kind: Mapped[Word] = mapped_column(primary_key=True)
    reporter: Mapped[Account]
    slashed: Mapped[Wei]


class AuditFact(Fact):
    """The result of a light audit that a verifier posted."""

    __tablename__ = "audit"
    receipt_id: Mapped[Bytes32] = mapped_column(primary_key=True)
    verifier: Mapped[Account] = mapped_column(primary_key=True)
    batch_id: Mapped[Int64]
    """The batch that the verifier named. Only a dispute or a paid bounty proves that the receipt is in that batch."""
    result: Mapped[int] = mapped_column(index=True)
    posted_block: Mapped[Int64]
    audited_at: Mapped[Int64]
    out_hash: Mapped[Bytes32 | None]
    bounty: Mapped[Wei]


# --- who and what is registered ---


class OperatorFact(Fact):
    """A registered operator."""

    __tablename__ = "operator"
    account: Mapped[Account] = mapped_column(primary_key=True)
    endpoint: Mapped[Prose]
    registered_block: Mapped[Int64]
    suspended_until: Mapped[Int64 | None]
    """Last second of the protocol clock in which the contract accepts batches of the suspended operator. It is None while the
    operator is not suspended."""


class VerifierFact(Fact):
    """A verifier. `pool` is None after the verifier left its pool."""

    __tablename__ = "verifier"
    account: Mapped[Account] = mapped_column(primary_key=True)
    pool: Mapped[Bytes32 | None]
    platform_id: Mapped[Bytes32 | None]
    measurement: Mapped[Bytes32 | None]
    joined_block: Mapped[Int64]


class PlaceFact(Fact):
    """A place in a pool's stake tree, with its account and weight. A place is never freed."""

    __tablename__ = "place"
    tree: Mapped[Account] = mapped_column(primary_key=True)
    place: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    account: Mapped[Account] = mapped_column(index=True)
    units: Mapped[Int64]
    """Weight of the account from stake epoch `epoch` on."""
    epoch: Mapped[int]


class StakeFact(Fact):
    """Stake of an account in wei: what counts for draws and for posting batches, and what disputes, receipts and demands bind."""

    __tablename__ = "stake"
    account: Mapped[Account] = mapped_column(primary_key=True)
    active: Mapped[Wei]
    """Stake that counts, according to the last event about it."""
    synced_block: Mapped[Int64 | None]
    """At EigenLayer, the block of that event; otherwise None. The stake counts for `IndexState.record_life` blocks after it."""
    locked: Mapped[Wei]
    collateral: Mapped[Wei]
    obliged: Mapped[Wei]
    slashed: Mapped[Wei]
    """Sum of all stake that the account ever lost."""


class PoolFact(Fact):
    """A pool of verifiers. While too few of its verifiers have weight, the pool is stopped and challenge windows do not run."""

    __tablename__ = "pool"
    digest: Mapped[Bytes32] = mapped_column(primary_key=True)
    tree: Mapped[Account]
    stopped_since: Mapped[Int64 | None]
    stopped_s: Mapped[Int64]
    """Seconds of all stops that have ended."""


class ItemFact(Fact):
    """A registered environment, which has a pool, or a registered model, which has none."""

    __tablename__ = "registry_item"
    digest: Mapped[Bytes32] = mapped_column(primary_key=True)
    pool: Mapped[Bytes32 | None] = mapped_column(index=True)
    status: Mapped[int]
    vectors: Mapped[Bytes32 | None]
    certified: Mapped[Int64]
    document: Mapped[Bytes]
    held: Mapped[bool]
    """Whether the breaker suspends the slashes of convictions in this environment."""
    tripped: Mapped[int]
    """Number of times that the breaker tripped for this environment."""


class KeyEpochFact(Fact):
    """A key epoch and its newest shares."""

    __tablename__ = "key_epoch"
    epoch: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    state: Mapped[int]
    assurance: Mapped[int]
    threshold: Mapped[int]
    shards: Mapped[Json]
    version: Mapped[int]
    policy_digest: Mapped[Bytes32]
    public_key: Mapped[Bytes]
    confirmed: Mapped[bool]
    opened_block: Mapped[Int64]


# --- rules and money ---


class SettingFact(Fact):
    """A rule of the network.

    `name` is `params` (the newest parameters), `params N` (the parameters of version N), `fee_limits`, `fee_price`, `policy`,
    `clock`, or `measurement 0x…`.
    """

    __tablename__ = "setting"
    name: Mapped[Word] = mapped_column(primary_key=True)
    version: Mapped[Int64]
    content: Mapped[Json]


class ProposalFact(Fact):
    """A governance proposal, or a call that waits in a timelock."""

    __tablename__ = "proposal"
    kind: Mapped[Word] = mapped_column(primary_key=True)
    """`vote` for a governance proposal. For a call that waits, the address of its timelock."""
    id: Mapped[Word] = mapped_column(primary_key=True)
    state: Mapped[Word]
    proposed_block: Mapped[Int64]
    proposer: Mapped[Account | None]
    vote_start: Mapped[Int64 | None]
    vote_end: Mapped[Int64 | None]
    ready_at: Mapped[Int64 | None]
    votes_for: Mapped[Wei]
    votes_against: Mapped[Wei]
    votes_abstain: Mapped[Wei]
    targets: Mapped[Json]
    text: Mapped[Prose]


class LedgerFact(Fact):
    """A sum that the ledger keeps, by name: `pots`, `credits`, `treasury`, `burned`, `funded`, and payments by their reason."""

    __tablename__ = "ledger"
    name: Mapped[Word] = mapped_column(primary_key=True)
    amount: Mapped[Wei]


class CreditFact(Fact):
    """The credit of an account in wei: what the ledger owes the account, what the account earned so far, and what it withdrew."""

    __tablename__ = "credit"
    account: Mapped[Account] = mapped_column(primary_key=True)
    owed: Mapped[Wei]
    earned: Mapped[Wei]
    withdrawn: Mapped[Wei]


FACTS: tuple[type[Fact], ...] = (
    DisputeFact, RoundFact, SeatFact, VoteFact, BatchFact, DemandFact, ReportFact, AuditFact, OperatorFact, VerifierFact,
    PlaceFact, StakeFact, PoolFact, ItemFact, KeyEpochFact, SettingFact, ProposalFact, LedgerFact, CreditFact,
)  # fmt: skip
"""Every table of facts of the index."""

INDEX_METADATA = IndexBase.metadata
"""The whole schema of the index."""
