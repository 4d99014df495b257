"""Records of the statistics of a period (`dashboard.views.period`)."""

from dashboard.views.records import IndexMeta, Party, Record, Time


class Period(Record):
    """A span of time."""

    since: Time | None
    """First moment of the period; None if it begins with the first block."""
    until: Time | None
    """First moment after the period; None if it goes to the newest block."""
    first_block: int | None
    """First block of the period in the index; None if there is none. The index keeps final blocks only if they have events."""
    last_block: int | None


class AuditStatistics(Record):
    """Light audits that were posted in the period."""

    receipts_anchored: int
    """Receipts of the batches that were anchored in the period."""
    receipts_audited: int
    """Receipts with at least one audit in the period. Only audits for a batch that a dispute or a paid bounty shows to contain
    the receipt count."""
    receipts_audited_twice: int
    """Receipts with at least two such audits. The result of one auditor alone proves little."""
    coverage_bps: int | None
    """Audited receipts per 10,000 anchored receipts; None if none was anchored. It is above 10,000 if many audits are of earlier
    batches."""
    audits: int
    match: int
    mismatch: int
    none: int
    """Audits that could not re-execute the request."""
    opened: int
    """Audits whose digest was opened after the commitment."""
    unconnected: int
    """Audits for a batch that no dispute and no paid bounty shows to contain the receipt.

    A verifier may post any receipt id. These audits count as posted audits, but in no figure of receipts or openings.
    """
    agreeing: int
    """Receipts with two or more counted audits that all have one finding (match or mismatch)."""
    disagreeing: int
    """Receipts whose counted audits have different findings, so that at least one auditor is wrong or dishonest."""
    matches_refuted: int
    """Audits with result `match` of a receipt that a committee found wrong."""
    mismatches_refuted: int
    """Audits with result `mismatch` of a receipt that a committee upheld."""
    mismatches_open: int
    """Audits with result `mismatch` of a receipt that nobody has disputed."""


class OperatorStatistics(Record):
    """Record of one operator in the period. Disputes and demands count in the period in which they were opened."""

    operator: Party
    batches: int
    receipts: int
    void_batches: int
    disputes: int
    convictions: int
    upheld: int
    undecided: int
    """Disputes without a final verdict, or with a verdict that says neither right nor wrong."""
    equivocations: int
    skipped: int
    demands: int
    demands_answered: int
    demands_expired: int
    median_answer_s: int | None
    """Median time to the answer of a demand, in seconds; None if no demand was answered."""
    slowest_answer_s: int | None


class DemandStatistics(Record):
    """Demands of one kind that were opened in the period."""

    kind: str
    """Kind of demand: `list`, `envelope` or `anchor`."""
    demands: int
    answered: int
    expired: int
    open: int
    answered_bps: int | None
    """Answered demands per 10,000 ended demands; None if none ended."""
    median_answer_s: int | None


class OpeningCause(Record):
    """Openings of receipts for one cause. The chain shows an opening by a vote, or by an audit whose digest was opened."""

    cause: str
    openings: int
    receipts: int


class ReleaseCause(Record):
    """Decisions of shards about requests for one cause, from their release logs."""

    cause: str
    """Cause in the words of the openings; `without a ticket` for records that name no ticket."""
    openings: int
    """Pairs of receipt and voter with at least one release. An opening needs releases of as many shards as the key's
    threshold."""
    receipts: int
    """Number of receipts with at least one release."""
    released: int
    """Number of release records, of all shards, in which a shard released a partial."""
    refused: int
    """Number of release records, of all shards, in which a shard refused a partial."""


class ReleaseStatistics(Record):
    """Statistics of the release log records whose time, by the shard's clock, is in the period."""

    source: str
    """Origin of the figures, in words."""
    logs: int
    """Number of logs that were read."""
    unreadable: tuple[str, ...]
    """Copies that were altered or cannot be read. Their records are missing in these figures."""
    read_at: Time | None
    """Time up to which every log is known; None if a log was never read to its end."""
    causes: tuple[ReleaseCause, ...]


class PeriodStatistics(Record):
    """Statistics of a period, for auditors."""

    period: Period
    audits: AuditStatistics
    operators: tuple[OperatorStatistics, ...]
    demands: tuple[DemandStatistics, ...]
    openings: tuple[OpeningCause, ...]
    """Openings by cause, as the chain shows them."""
    releases: ReleaseStatistics | None
    """Releases by cause, as the shards' logs show them; None if no logs are configured, or if they are not read yet."""


class Measure(Record):
    """One figure of the statistics, as a line of a table."""

    topic: str
    """Topic of the figure: `audits`, `operators`, `demands` or `openings` (by the chain) or `releases` (by the shards' logs)."""
    subject: str
    """Account, kind or cause that the figure is about; empty for the whole network."""
    measure: str
    value: int | None
    """The figure; None if there is nothing to measure."""


class StatisticsPage(Record):
    """Content of the statistics page."""

    meta: IndexMeta
    statistics: PeriodStatistics
    items: tuple[Measure, ...]
    """The same statistics, with one line for each figure."""
