"""Records of operators, verifiers, rules, keys and money, and the contents of whole pages. See `dashboard.views.records`."""

from dashboard.views.records import (
    Amount,
    AuditSummary,
    BatchSummary,
    DemandSummary,
    DisputeDetail,
    DisputeSummary,
    EventLine,
    FinalityState,
    IndexMeta,
    Party,
    Record,
    Time,
)


class OperatorSummary(Record):
    """An operator."""

    operator: Party
    endpoint: str
    registered_block: int
    suspended_until: Time | None
    stake: Amount
    stake_lapsed: bool
    """Whether the account's stake at EigenLayer does not count, because its record is too old or because a dispute may last
    longer than the stake is slashable."""
    locked: Amount
    collateral: Amount
    batches: int
    receipts: int
    convictions: int
    upheld: int
    open_disputes: int
    demands_lost: int
    demands_answered: int
    equivocations: int
    skipped: int
    slashed: Amount
    credit: Amount
    finality: FinalityState


class VerifierSummary(Record):
    """A verifier."""

    verifier: Party
    pool: str | None
    """Digest of the verifier's pool; None if it left its pool."""
    platform_id: str | None
    measurement: str | None
    joined_block: int
    stake: Amount
    stake_lapsed: bool
    """Whether the account's stake at EigenLayer does not count, because its record is too old or because a dispute may last
    longer than the stake is slashable."""
    units: int
    share_bps: int
    """Share of the verifier in all units of its pool, in 1/10,000."""
    rounds: int
    seats: int
    right: int
    worked: int
    wrong: int
    not_revealed: int
    absent: int
    unpaid: int
    """Seats that are not settled yet, and seats that were neither paid nor charged because their outcome is neutral."""
    audits: int
    mismatches: int
    earned: Amount
    slashed: Amount
    finality: FinalityState


class MemberSeat(Record):
    """Seats of one member in one round of one dispute."""

    dispute: str
    round: int
    voter: Party
    seats: int
    outcome: str
    pay: Amount
    finality: FinalityState


class ItemSummary(Record):
    """An environment or a model."""

    digest: str
    kind: str
    """Kind of item: `environment` or `model`."""
    status: str
    pool: str | None
    certified_units: int
    vectors: str | None
    held: bool
    """Whether the breaker holds convictions in this environment."""
    tripped: int
    batches: int
    title: str
    """A few words from the document of the item. They are not checked against the digest."""
    finality: FinalityState


class KeyEpochSummary(Record):
    """A key epoch."""

    epoch: int
    state: str
    assurance: str
    threshold: int
    shards: tuple[Party, ...]
    version: int
    """Version of the shares. It rises each time that new shares of the key are dealt."""
    confirmed: bool
    policy_digest: str
    public_key: str
    opened_block: int
    batches: int
    finality: FinalityState


class ParameterLine(Record):
    """One parameter in force."""

    group: str
    name: str
    value: str
    unit: str
    previous: str | None
    """Value before the last change of this parameter; None if it never changed."""
    since_block: int
    meaning: str


class ParameterVersion(Record):
    """A version of all parameters, and the blocks in which it is or was in force."""

    version: int
    valid_from: int
    valid_to: int | None
    finality: FinalityState


class ProposalSummary(Record):
    """A governance proposal, or an operation that a timelock delays."""

    kind: str
    id: str
    state: str
    """`voting`, `defeated`, `queued`, `scheduled`, `executed`, `cancelled`; or `ended: …` if a vote ended with a majority and
    nobody queued the proposal."""
    text: str
    proposed_block: int
    ready_at: Time | None
    calls: int
    votes_for: str
    votes_against: str
    finality: FinalityState


class Parameters(Record):
    """The rules of the network."""

    version: int
    in_force: tuple[ParameterLine, ...]
    versions: tuple[ParameterVersion, ...]
    fee_price: Amount | None
    policy_serial: int
    policy_digest: str | None
    paused_until: Time | None
    proposals: tuple[ProposalSummary, ...]


class MoneyFlow(Record):
    """Sum of all money that moved for one reason."""

    label: str
    amount: Amount


class MoneyReport(Record):
    """All money of the network, by the place where it is."""

    stake: Amount
    pots: Amount
    credits: Amount
    treasury: Amount
    burned: Amount
    taken: tuple[MoneyFlow, ...]
    credited: tuple[MoneyFlow, ...]
    burned_by_reason: tuple[MoneyFlow, ...]
    sums: bool
    """Whether all money that came into the ledger equals the money in it and the money that left it."""


class Statistics(Record):
    """Counts of everything in the index."""

    disputes: int
    open_disputes: int
    verdicts: dict[str, int]
    phases: dict[str, int]
    batches: int
    receipts: int
    last_batch: Time | None
    demands_open: int
    demands_expired: int
    audits: int
    audit_results: dict[str, int]
    operators: int
    suspended_operators: int
    verifiers: int
    environments_active: int
    models_active: int
    held_environments: int
    stopped_pools: int
    key_epochs_active: int
    convictions_24h: int
    convictions_30d: int
    demands_24h: int
    audits_24h: int
    slashed: Amount
    burned: Amount


class Overview(Record):
    """Content of the start page: open disputes, overdue demands, recent events and alarms."""

    meta: IndexMeta
    statistics: Statistics
    open_disputes: tuple[DisputeSummary, ...]
    """At most 20 open disputes, newest first."""
    overdue_demands: tuple[DemandSummary, ...]
    recent: tuple[EventLine, ...]
    """Events of disputes, batches and rules, newest first."""
    alarms: tuple[str, ...]
    """Sentences about what is wrong now."""


class OperatorPage(Record):
    """An operator with its disputes and batches."""

    meta: IndexMeta
    operator: OperatorSummary
    disputes: tuple[DisputeSummary, ...]
    batches: tuple[BatchSummary, ...]


class VerifierPage(Record):
    """A verifier with its seats and audits."""

    meta: IndexMeta
    verifier: VerifierSummary
    seats: tuple[MemberSeat, ...]
    audits: tuple[AuditSummary, ...]


class DisputePage(Record):
    """A dispute with its events."""

    meta: IndexMeta
    dispute: DisputeDetail
    events: tuple[EventLine, ...]


class ItemsPage(Record):
    """Environments and models."""

    meta: IndexMeta
    environments: tuple[ItemSummary, ...]
    models: tuple[ItemSummary, ...]
