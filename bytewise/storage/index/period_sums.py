"""Computes sums over the facts that began in a period of blocks.

The database adds them up, so the memory of this process does not grow with the period.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, or_, select
from sqlalchemy.sql.selectable import Subquery

from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.decisions.demands import DemandState
from bytewise.protocol.records.statements import AuditOutcome, Outcome, Verdict
from bytewise.storage.index.reader import IndexSnapshot, Row
from bytewise.storage.index.tables import (
    INDEX_METADATA,
    AuditFact,
    BatchFact,
    BlockRow,
    DemandFact,
    DisputeFact,
    Fact,
    ReportFact,
    VoteFact,
)

FINDINGS = (AuditOutcome.MATCH, AuditOutcome.MISMATCH)
"""Results of audits in which the verifier computed the answer again."""
OPENED = (Outcome.EXECUTED, Outcome.INVALID)
"""Outcomes of votes whose member had opened the receipt."""


class PeriodSums:
    """Computes sums over one period of blocks. Each method sends the database at most two queries, whatever the number of
    facts."""

    def __init__(self, index: IndexSnapshot, blocks: range) -> None:
        self._index = index
        self._blocks = blocks

    def audits(self) -> Row:
        """Counts the light audits whose result was posted in the period. Returns one row.

        `audits` is the number of all; `match`, `mismatch` and `none` are the numbers by result. `opened` counts audits whose
        digest was shown, and `unconnected` audits without proof that the receipt is in its batch. `matches_refuted` and
        `mismatches_refuted` count results that a verdict contradicted, and `mismatches_open` mismatches without a dispute.
        """
        audit, dispute = self._began(AuditFact, "posted_block"), self._index.select_facts(DisputeFact, {}).subquery()
        result, disputed = audit.c.result, dispute.c.receipt_id == audit.c.receipt_id
        match, mismatch = result == AuditOutcome.MATCH, result == AuditOutcome.MISMATCH
        query = select(
            func.count().label("audits"), _count("match", match), _count("mismatch", mismatch),
            _count("none", result == AuditOutcome.NONE), _count("opened", audit.c.out_hash.is_not(None)),
            _count("unconnected", ~self._is_connected(audit)),
            _count("matches_refuted", match, exists().where(disputed, _is_convicted(dispute))),
            _count("mismatches_refuted", mismatch, exists().where(disputed, _is_upheld(dispute))),
            _count("mismatches_open", mismatch, ~exists().where(disputed)),
        ).select_from(audit)  # fmt: skip
        return self._index.rows(query)[0]

    def audited_receipts(self) -> Row:
        """Counts the audited receipts that are proven to be in their batch.

        The numbers are `audited`, `audited_twice`, `agreeing` and `disagreeing`. Only a receipt with two or more findings can be
        in the last two: it is agreeing if all findings have the same result and none shows another digest, otherwise disagreeing.
        """
        audit = self._began(AuditFact, "posted_block")
        is_finding = audit.c.result.in_(FINDINGS)
        receipt = (
            select(
                func.count().label("audits"), _count("findings", is_finding),
                func.count(case((is_finding, audit.c.result)).distinct()).label("results"),
                func.count(case((is_finding, audit.c.out_hash)).distinct()).label("digests"),
            ).where(self._is_connected(audit)).group_by(audit.c.receipt_id).subquery()
        )  # fmt: skip
        twice, same = receipt.c.findings > 1, and_(receipt.c.results == 1, receipt.c.digests <= 1)
        query = select(
            func.count().label("audited"), _count("audited_twice", receipt.c.audits > 1), _count("agreeing", twice, same),
            _count("disagreeing", twice, ~same),
        ).select_from(receipt)  # fmt: skip
        return self._index.rows(query)[0]

    def batches(self) -> dict[Any, Row]:
        """Counts for each operator its `batches`, their `receipts`, and its `void_batches`."""
        batch = self._began(BatchFact, "block")
        query = select(
            batch.c.operator, func.count().label("batches"), func.sum(batch.c.receipts).label("receipts"),
            _count("void_batches", batch.c.is_void),
        )  # fmt: skip
        return self._by("operator", query.group_by(batch.c.operator))

    def disputes(self) -> dict[Any, Row]:
        """Counts for each operator its `disputes`, and how many ended in `convictions` or were `upheld`."""
        dispute = self._began(DisputeFact, "opened_block")
        query = select(
            dispute.c.operator, func.count().label("disputes"), _count("convictions", _is_convicted(dispute)),
            _count("upheld", _is_upheld(dispute)),
        )  # fmt: skip
        return self._by("operator", query.group_by(dispute.c.operator))

    def reports(self) -> dict[Any, Row]:
        """Counts for each operator the `equivocations`, and the `skipped` receipt numbers, that were first reported in the
        period."""
        report, version = self._index.select_facts(ReportFact, {}).subquery(), INDEX_METADATA.tables[ReportFact.__tablename__]
        same = (version.c[name] == report.c[name] for name in ("operator", "seq", "kind"))
        # The fact of a report changes again when a penalty is paid later.
        began = select(func.min(version.c.valid_from)).where(*same).scalar_subquery()
        query = select(
            report.c.operator, _count("equivocations", report.c.kind == "equivocation"),
            _count("skipped", report.c.kind == "skipped"),
        ).where(began >= self._blocks.start, began < self._blocks.stop)  # fmt: skip
        return self._by("operator", query.group_by(report.c.operator))

    def demands(self, by: str) -> dict[Any, Row]:
        """Counts the availability demands that were made in the period, grouped by the column `by`: `kind` or `operator`.

        Each row has the numbers `demands`, `answered`, `expired` and `open`. `median_s` and `slowest_s` are the seconds from
        demand to answer, or None if no demand was answered. The median of an even number of times is the lower of the middle two.
        """
        demand = self._began(DemandFact, "opened_block")
        state, group = demand.c.state, demand.c[by]
        counts = select(
            group, func.count().label("demands"), _count("answered", state == DemandState.ANSWERED),
            _count("expired", state == DemandState.EXPIRED), _count("open", state == DemandState.OPEN),
        )  # fmt: skip
        found = self._by(by, counts.group_by(group))
        times = self._by(by, _answer_times(demand, by))
        return {name: {"median_s": None, "slowest_s": None, **row, **times.get(name, {})} for name, row in found.items()}

    def audit_openings(self) -> Row:
        """Counts how often light audits opened a receipt and showed its digest, and how many receipts they opened.

        The numbers are named `openings` and `receipts`. Only receipts that are proven to be in their batch count.
        """
        audit = self._began(AuditFact, "posted_block")
        query = select(func.count().label("openings"), func.count(audit.c.receipt_id.distinct()).label("receipts"))
        shown = audit.c.result.in_(FINDINGS), audit.c.out_hash.is_not(None), self._is_connected(audit)
        return self._index.rows(query.where(*shown))[0]

    def vote_openings(self) -> dict[Any, Row]:
        """Counts for each round number the votes that show that the member opened the receipt, and the distinct receipts of these
        votes.

        The numbers are named `openings` and `receipts`. Only votes that were revealed in the period count. Rounds are ascending.
        """
        vote, dispute = self._began(VoteFact, "revealed_block"), self._index.select_facts(DisputeFact, {}).subquery()
        query = (
            select(
                vote.c.round, func.count().label("openings"), func.count(dispute.c.receipt_id.distinct()).label("receipts")
            ).join_from(vote, dispute, dispute.c.id == vote.c.dispute).where(vote.c.said.in_(OPENED))
        )  # fmt: skip
        return self._by("round", query.group_by(vote.c.round).order_by(vote.c.round))

    def _is_connected(self, audit: Subquery) -> ColumnElement[bool]:
        """Returns the condition that a dispute or a paid bounty shows that the receipt is in the batch that the audit names.

        The contract asks for the receipt only for these two. Before that, a verifier may post any receipt id.
        """
        dispute, paid = (self._index.select_facts(table, {}).subquery() for table in (DisputeFact, AuditFact))
        return or_(
            *(
                exists().where(each.c.receipt_id == audit.c.receipt_id, each.c.batch_id == audit.c.batch_id, *more)
                for each, more in ((dispute, ()), (paid, (paid.c.bounty != 0,)))
            )
        )

    def _began(self, table: type[Fact], column: str) -> Subquery:
        """Returns a query for the facts whose column names a block of the period."""
        facts = self._index.select_facts(table, {}).subquery()
        return select(facts).where(facts.c[column] >= self._blocks.start, facts.c[column] < self._blocks.stop).subquery()

    def _by(self, name: str, query: Select[Any]) -> dict[Any, Row]:
        return {row[name]: row for row in self._index.rows(query)}


def _count(name: str, *conditions: ColumnElement[bool]) -> ColumnElement[int]:
    return func.count().filter(*conditions).label(name)


def _is_convicted(dispute: Subquery) -> ColumnElement[bool]:
    return and_(dispute.c.ended, dispute.c.verdict.in_(_codes(CONVICTIONS)))


def _is_upheld(dispute: Subquery) -> ColumnElement[bool]:
    return and_(dispute.c.ended, dispute.c.verdict == Verdict.UPHELD)


def _codes(verdicts: Collection[Verdict]) -> list[int]:
    return sorted(int(each) for each in verdicts)


def _answer_times(demand: Subquery, by: str) -> Select[Any]:
    """Returns a query for the median and the longest answer time by group.

    An answered demand never changes again, so its fact began with the answer.
    """
    asked, answered = select(BlockRow).subquery(), select(BlockRow).subquery()
    took, group = answered.c.timestamp - asked.c.timestamp, demand.c[by]
    ranked = (
        select(
            group, took.label("took"), func.row_number().over(partition_by=group, order_by=took).label("place"),
            func.count().over(partition_by=group).label("size"), func.max(took).over(partition_by=group).label("slowest_s"),
        )
        .join_from(demand, asked, asked.c.number == demand.c.opened_block)
        .join(answered, answered.c.number == demand.c.valid_from)
        .where(demand.c.state == DemandState.ANSWERED).subquery()
    )  # fmt: skip
    middle = ranked.c.place == (ranked.c.size + 1) // 2
    return select(ranked.c[by], ranked.c.took.label("median_s"), ranked.c.slowest_s).where(middle)
