"""Records of the statistics of a period (`dashboard.views.period`)."""

from dashboard.views.records import IndexMeta, Party, Record, Time


class Period(Record):
    """A span of time."""

    since: Time | None
    """First moment; None: from the first block."""
    until: Time | None
    """First moment that is outside; None: to the newest block."""
    first_block: int | None
    """First block with an event; None: there is none."""
    last_block: int | None


class AuditStatistics(Record):
    """Light audits that were posted in the period."""

    receipts_anchored: int
    """Receipts of the batches that were anchored in the period."""
    receipts_audited: int
    """Receipts with at least one audit of the period for the batch in which a dispute or a paid bounty shows them."""
    receipts_audited_twice: int
    """Those with at least two. One auditor alone can say anything."""
    coverage_bps: int | None
    """Receipts audited per 10,000 anchored; None: none was anchored. Above 10,000 if many audits are of earlier batches."""
    audits: int
    match: int
    mismatch: int
    none: int
    """Audits that could not re-execute the request."""
    opened: int
    """Audits whose digest was shown."""
    unconnected: int
    """Posts that nothing connects to a receipt: no dispute and no paid bounty shows the receipt in the batch that they name.

    A verifier may post any receipt id. These count as posts, and in no figure of receipts or openings.
    """
    agreeing: int
    """Receipts, as above, whose two or more findings (match or mismatch) are the same."""
    disagreeing: int
    """Receipts whose findings differ: at least one auditor is wrong, or says what is not so."""
    matches_refuted: int
    """Audits that said `match` of a receipt that a committee found wrong."""
    mismatches_refuted: int
    """Audits that said `mismatch` of a receipt that a committee upheld."""
    mismatches_open: int
    """Audits that said `mismatch` of a receipt that nobody has disputed."""


class OperatorStatistics(Record):
    """What one operator did in the period. Disputes and demands count in the period in which they were opened."""

    operator: Party
    batches: int
    receipts: int
    void_batches: int
    disputes: int
    convictions: int
    upheld: int
    undecided: int
    """Disputes without a final verdict, or with one that says neither right nor wrong."""
    equivocations: int
    skipped: int
    demands: int
    demands_answered: int
    demands_expired: int
    median_answer_s: int | None
    """Half of the answered demands were answered within so many seconds; None: none was."""
    slowest_answer_s: int | None


class DemandStatistics(Record):
    """Demands of one kind that were opened in the period."""

    kind: str
    """`list`, `envelope` or `anchor`."""
    demands: int
    answered: int
    expired: int
    open: int
    answered_bps: int | None
    """Answered per 10,000 that ended; None: none ended."""
    median_answer_s: int | None


class OpeningCause(Record):
    """Re-executions that the chain shows, of one cause: votes, and audits of connected receipts whose digest was shown."""

    cause: str
    openings: int
    receipts: int


class ReleaseCause(Record):
    """What shards decided about requests of one cause, by their logs."""

    cause: str
    """As the causes of openings; `without a ticket` for records that name no right."""
    openings: int
    """Pairs of receipt and voter with a release. Each needs releases of as many shards as the key's threshold."""
    receipts: int
    """Receipts with a release."""
    released: int
    """Records of releases, of all shards."""
    refused: int
    """Records of refusals, of all shards."""


class ReleaseStatistics(Record):
    """Records that shards dated in the period."""

    source: str
    """Where the figures are from, in words."""
    logs: int
    """Logs that were read."""
    unreadable: tuple[str, ...]
    """Copies that were altered or cannot be read: their records are missing here."""
    read_at: Time | None
    """When the log that was read first was last read to its end; None: one never was."""
    causes: tuple[ReleaseCause, ...]


class PeriodStatistics(Record):
    """Statistics of a period, for auditors."""

    period: Period
    audits: AuditStatistics
    operators: tuple[OperatorStatistics, ...]
    demands: tuple[DemandStatistics, ...]
    openings: tuple[OpeningCause, ...]
    """What the chain shows."""
    releases: ReleaseStatistics | None
    """What the shards' logs say; None: no logs are configured, or they are not read yet."""


class Measure(Record):
    """One figure of the statistics, as a line of a table."""

    topic: str
    """`audits`, `operators`, `demands` or `openings` (by the chain) or `releases` (by the shards' logs)."""
    subject: str
    """Account, kind or cause; empty for the whole network."""
    measure: str
    value: int | None
    """None: nothing to measure."""


class StatisticsPage(Record):
    """The page."""

    meta: IndexMeta
    statistics: PeriodStatistics
    items: tuple[Measure, ...]
    """The same, a line for each figure."""
