"""Sums of a period: the database's are those of a plain fold over all facts, and a period has no limit of facts."""

import functools
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpx2
import pytest
from sqlalchemy import Engine, insert

from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.decisions.demands import DemandState
from bytewise.protocol.records.statements import AuditOutcome, Outcome, Verdict
from bytewise.protocol.units import Address
from bytewise.storage.engine import open_database
from bytewise.storage.index.period_sums import FINDINGS, OPENED, PeriodSums
from bytewise.storage.index.reader import IndexReader, IndexSnapshot, Row
from bytewise.storage.index.store import IndexWriter
from bytewise.storage.index.tables import (
    INDEX_METADATA,
    AuditFact,
    BatchFact,
    BlockRow,
    DecimalText,
    DemandFact,
    DisputeFact,
    Fact,
    IndexBase,
    ReportFact,
    VoteFact,
)
from dashboard.settings import ApiSettings
from dashboard.web.answers import DashboardSite
from dashboard.web.app import build_app
from tests.fixtures.dashboard.indexed import MEMORY
from tests.fixtures.dashboard.memory_chain import ACCOUNTS
from tests.fixtures.dashboard.site import served
from tests.fixtures.storage.hand_clock import HandClock

NewDatabase = Callable[[], str]
OPERATORS, VOTERS = ACCOUNTS[:3], [Address(f"0x{number:040x}") for number in range(20, 25)]
BLOCKS = 40
START = 1000
"""Time of block 0, Unix seconds."""
MANY = 250_000
"""Audits of the long period: more than were once counted in memory."""


def digest(number: int) -> bytes:
    """One of many digests."""
    return number.to_bytes(32, "big")


def database(url: str) -> Engine:
    """An empty index with blocks whose times rise unevenly."""
    engine = open_database(url)
    IndexWriter(engine).claim(MEMORY)
    add(engine, BlockRow, [
        {"number": number, "hash": digest(number), "parent": digest(max(0, number - 1)), "events": 1,
         "timestamp": START + number * (number + 5)} for number in range(BLOCKS)
    ])  # fmt: skip
    return engine


def add(engine: Engine, table: type[IndexBase], rows: Sequence[dict[str, Any]]) -> None:
    """Rows whose other columns have any value of their type."""
    columns = INDEX_METADATA.tables[table.__tablename__].c
    plain = {str: "", int: 0, bytes: b"\0" * 32, bool: False, object: ""}
    missing = {
        column.name: None if column.nullable else 0 if isinstance(column.type, DecimalText) else plain[column.type.python_type]
        for column in columns
    }
    with engine.begin() as connection:
        for start in range(0, len(rows), 20_000):
            connection.execute(insert(table), [{**missing, **row} for row in rows[start : start + 20_000]])


def fill(engine: Engine, seed: int) -> None:
    """Random facts, each with up to two versions."""
    rng = random.Random(seed)
    block = functools.partial(rng.randrange, BLOCKS)

    def versions(key: dict[str, Any], change: Callable[[], dict[str, Any]]) -> Iterable[dict[str, Any]]:
        first, second = sorted(rng.sample(range(1, BLOCKS), 2))
        if rng.random() < 0.5:
            second = BLOCKS  # no second version
        yield {**key, **change(), "valid_from": first, "valid_to": second if second < BLOCKS or rng.random() < 0.1 else None}
        if second < BLOCKS:
            yield {**key, **change(), "valid_from": second, "valid_to": None}

    receipts = [digest(number) for number in range(100, 114)]
    add(engine, AuditFact, [row for receipt in receipts for voter in VOTERS if rng.random() < 0.6 for row in versions(
        {"receipt_id": receipt, "verifier": voter, "batch_id": rng.randrange(2), "result": rng.choice(list(AuditOutcome)),
         "posted_block": block()},
        lambda: {"out_hash": rng.choice([None, digest(1), digest(2)]), "bounty": rng.choice([0, 0, 7])},
    )])  # fmt: skip
    disputes = [digest(200 + number) for number in range(12)]
    add(engine, DisputeFact, [row for number, id_ in enumerate(disputes) for row in versions(
        {"id": id_, "receipt_id": receipts[number], "operator": rng.choice(OPERATORS), "opened_block": block(),
         "batch_id": rng.randrange(2)},
        lambda: {"verdict": rng.choice([Verdict.UPHELD, *Verdict]), "ended": rng.random() < 0.8},
    )])  # fmt: skip
    add(engine, VoteFact, [row for id_ in disputes for round_ in (1, 2) for voter in VOTERS for row in versions(
        {"dispute": id_, "round": round_, "voter": voter},
        lambda: {"revealed_block": rng.choice([None, block()]), "said": rng.choice([0, *Outcome])},
    )])  # fmt: skip
    add(engine, BatchFact, [row for number in range(12) for row in versions(
        {"id": number, "operator": rng.choice(OPERATORS), "receipts": rng.randrange(1, 50), "block": block()},
        lambda: {"is_void": rng.random() < 0.3},
    )])  # fmt: skip
    add(engine, DemandFact, [row for number in range(30) for row in versions(
        {"subject": digest(number + 99), "kind": rng.randrange(1, 4), "operator": rng.choice(OPERATORS), "opened_block": block()},
        lambda: {"state": rng.choice(list(DemandState)[1:])},
    )])  # fmt: skip
    add(engine, ReportFact, [row for number in range(9) for row in versions(
        {"operator": rng.choice(OPERATORS), "seq": number, "kind": rng.choice(["equivocation", "skipped"])}, dict,
    )])  # fmt: skip


class Fold:
    """The same sums, from all facts in memory."""

    def __init__(self, index: IndexSnapshot, blocks: range) -> None:
        self.index, self.blocks = index, blocks
        self.all_disputes = index.all(DisputeFact)
        self.found_audits = self._began(AuditFact, "posted_block")

    def _began(self, table: type[Fact], column: str) -> list[Row]:
        return [row for row in self.index.all(table) if row[column] is not None and row[column] in self.blocks]

    def _first_reports(self) -> list[Row]:
        def first(row: Row) -> int:
            began: int = self.index.history(ReportFact, row["operator"], row["seq"], row["kind"])[0]["valid_from"]
            return began

        return [row for row in self.index.all(ReportFact) if first(row) in self.blocks]

    def _judged(self, row: Row, *verdicts: Verdict) -> bool:
        return any(
            each["receipt_id"] == row["receipt_id"] and (not verdicts or (each["ended"] and each["verdict"] in verdicts))
            for each in self.all_disputes
        )

    def _is_connected(self, row: Row) -> bool:
        paid = any(
            each["receipt_id"] == row["receipt_id"] and each["batch_id"] == row["batch_id"] and each["bounty"] > 0
            for each in self.index.all(AuditFact)
        )
        return paid or any(
            each["receipt_id"] == row["receipt_id"] and each["batch_id"] == row["batch_id"] for each in self.all_disputes
        )

    def audits(self) -> Row:
        """As `PeriodSums.audits`."""
        results = Counter(row["result"] for row in self.found_audits)
        of = {result: [row for row in self.found_audits if row["result"] == result] for result in AuditOutcome}
        return {
            "audits": len(self.found_audits), "match": results[1], "mismatch": results[2], "none": results[3],
            "opened": sum(row["out_hash"] is not None for row in self.found_audits),
            "unconnected": sum(not self._is_connected(row) for row in self.found_audits),
            "matches_refuted": sum(self._judged(row, *CONVICTIONS) for row in of[AuditOutcome.MATCH]),
            "mismatches_refuted": sum(self._judged(row, Verdict.UPHELD) for row in of[AuditOutcome.MISMATCH]),
            "mismatches_open": sum(not self._judged(row) for row in of[AuditOutcome.MISMATCH]),
        }  # fmt: skip

    def audited_receipts(self) -> Row:
        """As `PeriodSums.audited_receipts`."""
        by: dict[bytes, list[Row]] = {}
        for row in filter(self._is_connected, self.found_audits):
            by.setdefault(row["receipt_id"], []).append(row)
        findings = [[row for row in rows if row["result"] in FINDINGS] for rows in by.values()]
        same = [
            len({row["result"] for row in rows}) == 1 and len({row["out_hash"] for row in rows} - {None}) <= 1
            for rows in findings
            if len(rows) > 1
        ]
        return {
            "audited": len(by), "audited_twice": sum(len(rows) > 1 for rows in by.values()), "agreeing": sum(same),
            "disagreeing": len(same) - sum(same),
        }  # fmt: skip

    def batches(self) -> dict[Any, Row]:
        """As `PeriodSums.batches`."""
        return {
            name: {"operator": name, "batches": len(rows), "receipts": sum(row["receipts"] for row in rows),
                   "void_batches": sum(row["is_void"] for row in rows)}
            for name, rows in _grouped(self._began(BatchFact, "block"), "operator").items()
        }  # fmt: skip

    def disputes(self) -> dict[Any, Row]:
        """As `PeriodSums.disputes`."""
        return {
            name: {"operator": name, "disputes": len(rows),
                   "convictions": sum(row["ended"] and row["verdict"] in CONVICTIONS for row in rows),
                   "upheld": sum(row["ended"] and row["verdict"] == Verdict.UPHELD for row in rows)}
            for name, rows in _grouped(self._began(DisputeFact, "opened_block"), "operator").items()
        }  # fmt: skip

    def reports(self) -> dict[Any, Row]:
        """As `PeriodSums.reports`."""
        return {
            name: {"operator": name, "equivocations": sum(row["kind"] == "equivocation" for row in rows),
                   "skipped": sum(row["kind"] == "skipped" for row in rows)}
            for name, rows in _grouped(self._first_reports(), "operator").items()
        }  # fmt: skip

    def demands(self, by: str) -> dict[Any, Row]:
        """As `PeriodSums.demands`."""
        found: dict[Any, Row] = {}
        for name, rows in _grouped(self._began(DemandFact, "opened_block"), by).items():
            states = Counter(row["state"] for row in rows)
            answered = [row for row in rows if row["state"] == DemandState.ANSWERED]
            times = self.index.block_times([row[name] for row in answered for name in ("valid_from", "opened_block")])
            took = [times[row["valid_from"]] - times[row["opened_block"]] for row in answered]
            found[name] = {
                by: name, "demands": len(rows), "answered": states[2], "expired": states[3], "open": states[1],
                "median_s": statistics.median_low(took) if took else None, "slowest_s": max(took, default=None),
            }  # fmt: skip
        return found

    def audit_openings(self) -> Row:
        """As `PeriodSums.audit_openings`."""
        shown = [row for row in self.found_audits if row["out_hash"] is not None and row["result"] in FINDINGS]
        rows = [row["receipt_id"] for row in shown if self._is_connected(row)]
        return {"openings": len(rows), "receipts": len(set(rows))}

    def vote_openings(self) -> dict[Any, Row]:
        """As `PeriodSums.vote_openings`."""
        cases = {row["id"]: row["receipt_id"] for row in self.all_disputes}
        votes = [row for row in self._began(VoteFact, "revealed_block") if row["said"] in OPENED and row["dispute"] in cases]
        return {
            name: {"round": name, "openings": len(rows), "receipts": len({cases[row["dispute"]] for row in rows})}
            for name, rows in sorted(_grouped(votes, "round").items())
        }


def _grouped(rows: Sequence[Row], by: str) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row[by], []).append(row)
    return found


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "audits": lambda each: each.audits(), "audited receipts": lambda each: each.audited_receipts(),
    "batches": lambda each: each.batches(), "disputes": lambda each: each.disputes(), "reports": lambda each: each.reports(),
    "demands by kind": lambda each: each.demands("kind"), "demands by operator": lambda each: each.demands("operator"),
    "audit openings": lambda each: each.audit_openings(), "vote openings": lambda each: each.vote_openings(),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_sums_of_the_database_are_those_of_a_fold(new_database: NewDatabase, seed: int) -> None:
    engine = database(new_database())
    fill(engine, seed)
    spans = [range(0), range(BLOCKS), range(seed, seed + 1), range(5, 25), range(20, BLOCKS)]
    for at in (None, BLOCKS - 5, 12):
        with IndexReader(engine).snapshot(at) as index:
            for blocks in spans:
                sums, fold = PeriodSums(index, blocks), Fold(index, blocks)
                for name, ask in QUESTIONS.items():
                    assert ask(sums) == ask(fold), (name, at, blocks)


def test_random_facts_reach_every_sum(new_database: NewDatabase) -> None:
    """Otherwise two sums that are both zero would agree."""
    reached = Counter[str]()
    for seed in range(4):
        engine = database(new_database())
        fill(engine, seed)
        with IndexReader(engine).snapshot() as index:
            for name, ask in QUESTIONS.items():
                found = ask(PeriodSums(index, range(BLOCKS)))
                for row in [found] if isinstance(next(iter(found.values())), int) else found.values():
                    reached.update({f"{name}: {key}": bool(value) for key, value in row.items()})
    assert [name for name, count in reached.items() if not count] == []


def test_period_of_more_than_200000_facts_is_answered(new_database: NewDatabase) -> None:
    url = new_database()
    engine = database(url)
    audits = [
        {"receipt_id": (number // 2).to_bytes(32, "big"), "verifier": VOTERS[number % 2], "result": 2 if number % 10 == 1 else 1,
         "batch_id": 0, "posted_block": 1 + number % (BLOCKS - 1), "valid_from": 1, "bounty": 1 - number % 2}
        for number in range(MANY)
    ]  # fmt: skip
    add(engine, AuditFact, audits)
    clock = HandClock()
    clock.seconds = START
    site = DashboardSite(IndexReader(open_database(url, read_only=True), 30), {}, {}, clock, 60, "0")
    with served(build_app(site, ApiSettings())) as address, httpx2.Client(base_url=address, timeout=120) as visitor:
        answer = visitor.get("/api/v1/statistics/period")
        assert answer.status_code == 200, answer.text
        told = answer.json()["data"]["audits"]
        assert visitor.get("/statistics").status_code == 200
    assert (told["audits"], told["receipts_audited"], told["mismatch"]) == (MANY, MANY // 2, MANY // 10)
    # In every fifth pair the second auditor says otherwise.
    assert (told["agreeing"], told["disagreeing"], told["mismatches_open"]) == (MANY * 2 // 5, MANY // 10, MANY // 10)
