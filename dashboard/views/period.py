"""Statistics of a period for auditors: audits, operators, availability, and what receipts were opened for.

Each fact counts in the period in which it began: a batch when it was anchored, an audit when it was posted, a dispute or demand
when it was opened. How it ended is what the index knows now (or at `?block=`), so that the figures of a past period still move
while its disputes run.
"""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.storage.index.reader import Row
from bytewise.storage.index.tables import AuditFact, BatchFact, DemandFact, DisputeFact, OperatorFact, ReportFact, VoteFact
from dashboard.release_logs import LoggedDecision, LogsSeen
from dashboard.views.period_records import (
    AuditStatistics,
    DemandStatistics,
    Measure,
    OpeningCause,
    OperatorStatistics,
    Period,
    PeriodStatistics,
    ReleaseCause,
    ReleaseStatistics,
)
from dashboard.views.records import Record
from dashboard.views.scene import Scene, time_of
from dashboard.views.words import AUDIT_RESULTS, DEMAND_KINDS

OPEN, ANSWERED, EXPIRED = 1, 2, 3
"""States of a demand."""
MAX_FACTS = 200_000
"""Most facts of a period that one answer counts: some 200 MB of memory and ten seconds."""
WHOLE_BPS = 10_000
FINDINGS = ("match", "mismatch")
OPENED = (Outcome.EXECUTED, Outcome.INVALID)
"""Votes of members that had opened the receipt."""


def period_statistics(scene: Scene, since: int | None, until: int | None, logs: LogsSeen | None = None) -> PeriodStatistics:
    """Everything from the moment `since` until before `until`, Unix seconds; None: without that bound."""
    blocks = scene.index.blocks_of(since, until)
    _verify_length(scene, blocks)
    demands = scene.index.between(DemandFact, "opened_block", blocks)
    batches = scene.index.between(BatchFact, "block", blocks)
    answers = _answer_times(scene, demands)
    kinds = (_demands(kind, [row for row in demands if row["kind"] == kind], answers) for kind in DEMAND_KINDS)
    return PeriodStatistics(
        period=Period(
            since=None if since is None else time_of(since), until=None if until is None else time_of(until),
            first_block=blocks.start if blocks else None, last_block=blocks[-1] if blocks else None,
        ),
        audits=_audits(scene, blocks, sum(row["receipts"] for row in batches)),
        operators=tuple(_operators(scene, blocks, batches, demands, answers)), demands=tuple(kinds),
        openings=tuple(_openings(scene, blocks)),
        releases=None if logs is None else _releases(logs, since, until),
    )  # fmt: skip


class PeriodTooLong(Exception):
    """A period has more facts than one answer counts. The value is their number."""


def _verify_length(scene: Scene, blocks: range) -> None:
    """`PeriodTooLong` before anything is read: one visitor must not fill the memory."""
    counted = (
        (DemandFact, "opened_block"), (BatchFact, "block"), (AuditFact, "posted_block"), (VoteFact, "revealed_block"),
        (ReportFact, "valid_from"), (DisputeFact, "opened_block"),
    )  # fmt: skip
    facts = sum(scene.index.count_between(table, column, blocks) for table, column in counted) + scene.index.count(DisputeFact)
    if facts > MAX_FACTS:
        raise PeriodTooLong(facts)


def measures(told: PeriodStatistics) -> Iterator[Measure]:
    """The same as lines of one table."""
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


# --- audits ---


def _audits(scene: Scene, blocks: range, anchored: int) -> AuditStatistics:
    rows = scene.index.between(AuditFact, "posted_block", blocks)
    results = Counter(AUDIT_RESULTS.get(row["result"], "") for row in rows)
    by_receipt: dict[bytes, list[Row]] = {}
    for row in rows:
        by_receipt.setdefault(row["receipt_id"], []).append(row)
    judged = {row["receipt_id"]: row for row in scene.index.all(DisputeFact)}
    same = [_is_same(found) for found in by_receipt.values() if _count_findings(found) > 1]
    return AuditStatistics(
        receipts_anchored=anchored, receipts_audited=len(by_receipt),
        receipts_audited_twice=sum(len(found) > 1 for found in by_receipt.values()), coverage_bps=_bps(len(by_receipt), anchored),
        audits=len(rows), match=results["match"], mismatch=results["mismatch"], none=results["none"],
        opened=sum(row["out_hash"] is not None for row in rows), agreeing=sum(same), disagreeing=len(same) - sum(same),
        matches_refuted=sum(_says(row, "match") and _is_convicted(judged.get(row["receipt_id"])) for row in rows),
        mismatches_refuted=sum(_says(row, "mismatch") and _is_upheld(judged.get(row["receipt_id"])) for row in rows),
        mismatches_open=sum(_says(row, "mismatch") and row["receipt_id"] not in judged for row in rows),
    )  # fmt: skip


def _says(row: Row, result: str) -> bool:
    return AUDIT_RESULTS.get(row["result"]) == result


def _count_findings(rows: Sequence[Row]) -> int:
    return sum(AUDIT_RESULTS.get(row["result"]) in FINDINGS for row in rows)


def _is_same(rows: Sequence[Row]) -> bool:
    """One result, and where digests were shown, one digest. An auditor without a finding says nothing."""
    found = [row for row in rows if AUDIT_RESULTS.get(row["result"]) in FINDINGS]
    digests = {row["out_hash"] for row in found} - {None}
    return len({row["result"] for row in found}) == 1 and len(digests) <= 1


def _is_convicted(dispute: Row | None) -> bool:
    return dispute is not None and dispute["ended"] and Verdict(dispute["verdict"]) in CONVICTIONS


def _is_upheld(dispute: Row | None) -> bool:
    return dispute is not None and dispute["ended"] and dispute["verdict"] == Verdict.UPHELD


# --- operators ---


def _operators(
    scene: Scene, blocks: range, batches: Sequence[Row], demands: Sequence[Row], answers: dict[bytes, int]
) -> Iterator[OperatorStatistics]:
    disputes = scene.index.between(DisputeFact, "opened_block", blocks)
    reports = scene.index.between(ReportFact, "valid_from", blocks)
    for row in scene.index.all(OperatorFact):
        account = row["account"]
        own = [each for each in batches if each["operator"] == account]
        cases = [each for each in disputes if each["operator"] == account]
        asked = [each for each in demands if each["operator"] == account]
        told = Counter(each["kind"] for each in reports if each["operator"] == account)
        convictions, upheld = sum(map(_is_convicted, cases)), sum(map(_is_upheld, cases))
        took = [answers[each["subject"]] for each in asked if each["subject"] in answers]
        yield OperatorStatistics(
            operator=scene.party(account), batches=len(own), receipts=sum(each["receipts"] for each in own),
            void_batches=sum(each["is_void"] for each in own), disputes=len(cases), convictions=convictions, upheld=upheld,
            undecided=len(cases) - convictions - upheld, equivocations=told["equivocation"], skipped=told["skipped"],
            demands=len(asked), demands_answered=sum(each["state"] == ANSWERED for each in asked),
            demands_expired=sum(each["state"] == EXPIRED for each in asked), median_answer_s=_median(took),
            slowest_answer_s=max(took, default=None),
        )  # fmt: skip


# --- availability ---


def _answer_times(scene: Scene, demands: Sequence[Row]) -> dict[bytes, int]:
    """Seconds between demand and answer, by subject. An answered demand never changes again, so its row began with the answer."""
    answered = [row for row in demands if row["state"] == ANSWERED]
    times = scene.index.block_times([block for row in answered for block in (row["opened_block"], row["valid_from"])])
    return {row["subject"]: times[row["valid_from"]] - times[row["opened_block"]] for row in answered}


def _demands(kind: int, rows: Sequence[Row], answers: dict[bytes, int]) -> DemandStatistics:
    states = Counter(row["state"] for row in rows)
    return DemandStatistics(
        kind=DEMAND_KINDS[kind], demands=len(rows), answered=states[ANSWERED], expired=states[EXPIRED], open=states[OPEN],
        answered_bps=_bps(states[ANSWERED], states[ANSWERED] + states[EXPIRED]),
        median_answer_s=_median([answers[row["subject"]] for row in rows if row["subject"] in answers]),
    )  # fmt: skip


# --- openings ---


def _openings(scene: Scene, blocks: range) -> Iterator[OpeningCause]:
    checks = scene.index.between(AuditFact, "posted_block", blocks)
    yield _cause("light audit", [row["receipt_id"] for row in checks if AUDIT_RESULTS.get(row["result"]) in FINDINGS])
    cases = {row["id"]: row["receipt_id"] for row in scene.index.all(DisputeFact)}
    by_round: dict[int, list[bytes]] = {}
    for row in scene.index.between(VoteFact, "revealed_block", blocks):
        if row["said"] in OPENED and row["dispute"] in cases:
            by_round.setdefault(row["round"], []).append(cases[row["dispute"]])
    for round_, receipts in sorted(by_round.items()):
        yield _cause(f"vote in round {round_}", receipts)


def _cause(cause: str, receipts: Sequence[bytes]) -> OpeningCause:
    return OpeningCause(cause=cause, openings=len(receipts), receipts=len(set(receipts)))


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


def _median(seconds: Sequence[int]) -> int | None:
    return statistics.median_low(seconds) if seconds else None
