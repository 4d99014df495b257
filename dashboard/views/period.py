"""Computes statistics of a period for auditors: audits, operators, availability, and the causes for which receipts were opened.

Each fact counts in the period in which it began: a batch when it was anchored, an audit when it was posted, a dispute or demand
when it was opened. Its outcome is the one that the index knows now, or at the block of the query (`?block=`). So the figures of
a past period still change while its disputes run.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from bytewise.storage.index.period_sums import PeriodSums
from bytewise.storage.index.reader import Row
from bytewise.storage.index.tables import OperatorFact
from dashboard.release_logs import LoggedDecision, LogsSeen
from dashboard.views.records import IndexMeta, Party, Record, Time
from dashboard.views.scene import Scene, time_of
from dashboard.views.words import DEMAND_KINDS

# --- records ---


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
    """Topic of the figure. `audits`, `operators`, `demands` and `openings` come from the chain, and `releases` from the shards'
    logs."""
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


# --- all statistics ---

WHOLE_BPS = 10_000


def period_statistics(scene: Scene, since: int | None, until: int | None, logs: LogsSeen | None = None) -> PeriodStatistics:
    """Returns all statistics of a period. The period begins at `since` and ends before `until`, both in Unix seconds. None means
    that the period has no such bound."""
    blocks = scene.index.blocks_of(since, until)
    sums = PeriodSums(scene.index, blocks)
    batches, kinds = sums.batches(), sums.demands("kind")
    return PeriodStatistics(
        period=Period(
            since=None if since is None else time_of(since), until=None if until is None else time_of(until),
            first_block=blocks.start if blocks else None, last_block=blocks[-1] if blocks else None,
        ),
        audits=_audits(sums, sum(int(row["receipts"]) for row in batches.values())),
        operators=tuple(_operators(scene, sums, batches)),
        demands=tuple(_demands(name, kinds.get(kind, {})) for kind, name in DEMAND_KINDS.items()),
        openings=tuple(_openings(sums)),
        releases=None if logs is None else _releases(logs, since, until),
    )  # fmt: skip


def measures(told: PeriodStatistics) -> Iterator[Measure]:
    """Yields the statistics as lines of one table. Each line has one figure."""
    yield from _lines("audits", "", told.audits)
    for operator in told.operators:
        yield from _lines("operators", operator.operator.account, operator)
    for kind in told.demands:
        yield from _lines("demands", kind.kind, kind)
    for cause in told.openings:
        yield from _lines("openings", cause.cause, cause)
    if told.releases is not None:
        yield from _lines("releases", "", told.releases)
        for logged in told.releases.causes:
            yield from _lines("releases", logged.cause, logged)


def _lines(topic: str, subject: str, record: Record) -> Iterator[Measure]:
    for name in type(record).model_fields:
        value = getattr(record, name)
        if value is None or isinstance(value, int):
            yield Measure(topic=topic, subject=subject, measure=name, value=value)


# --- by the chain ---


def _audits(sums: PeriodSums, anchored: int) -> AuditStatistics:
    receipts = sums.audited_receipts()
    return AuditStatistics(
        receipts_anchored=anchored, receipts_audited=receipts["audited"], receipts_audited_twice=receipts["audited_twice"],
        coverage_bps=_bps(receipts["audited"], anchored), agreeing=receipts["agreeing"], disagreeing=receipts["disagreeing"],
        **sums.audits(),
    )  # fmt: skip


def _operators(scene: Scene, sums: PeriodSums, batches: Mapping[Any, Row]) -> Iterator[OperatorStatistics]:
    disputes, reports, demands = sums.disputes(), sums.reports(), sums.demands("operator")
    for row in scene.index.all(OperatorFact):
        account = row["account"]
        own, cases, told, asked = (found.get(account, {}) for found in (batches, disputes, reports, demands))
        convictions, upheld = cases.get("convictions", 0), cases.get("upheld", 0)
        yield OperatorStatistics(
            operator=scene.party(account), batches=own.get("batches", 0), receipts=int(own.get("receipts", 0)),
            void_batches=own.get("void_batches", 0), disputes=cases.get("disputes", 0), convictions=convictions, upheld=upheld,
            undecided=cases.get("disputes", 0) - convictions - upheld, equivocations=told.get("equivocations", 0),
            skipped=told.get("skipped", 0), demands=asked.get("demands", 0), demands_answered=asked.get("answered", 0),
            demands_expired=asked.get("expired", 0), median_answer_s=asked.get("median_s"),
            slowest_answer_s=asked.get("slowest_s"),
        )  # fmt: skip


def _demands(kind: str, row: Row) -> DemandStatistics:
    answered, expired = row.get("answered", 0), row.get("expired", 0)
    return DemandStatistics(
        kind=kind, demands=row.get("demands", 0), answered=answered, expired=expired, open=row.get("open", 0),
        answered_bps=_bps(answered, answered + expired), median_answer_s=row.get("median_s"),
    )  # fmt: skip


def _openings(sums: PeriodSums) -> Iterator[OpeningCause]:
    yield OpeningCause(cause="light audit", **sums.audit_openings())
    for round_, row in sums.vote_openings().items():
        yield OpeningCause(cause=f"vote in round {round_}", openings=row["openings"], receipts=row["receipts"])


# --- releases ---


def _releases(logs: LogsSeen, since: int | None, until: int | None) -> ReleaseStatistics:
    by_cause: dict[str, list[LoggedDecision]] = {}
    for each in logs.decisions:
        if (since is None or each.at >= since) and (until is None or each.at < until):
            by_cause.setdefault(each.cause, []).append(each)
    causes = []
    for cause, found in sorted(by_cause.items()):
        given = [each for each in found if each.is_release]
        causes.append(
            ReleaseCause(
                cause=cause, openings=len({(each.receipt_id, each.voter) for each in given}),
                receipts=len({each.receipt_id for each in given}), released=len(given), refused=len(found) - len(given),
            )
        )  # fmt: skip
    return ReleaseStatistics(
        source=f"copies of {logs.logs} release logs on this machine, each record signed by its shard", logs=logs.logs,
        unreadable=logs.unreadable, read_at=time_of(logs.read_at) if logs.read_at else None, causes=tuple(causes),
    )  # fmt: skip


# --- figures ---


def _bps(part: int, whole: int) -> int | None:
    return part * WHOLE_BPS // whole if whole else None
