"""Invariants of receipts: batches follow each other, and availability demands end."""

import itertools

from bytewise.storage.index.reader import Row
from bytewise.storage.index.tables import BatchFact, DemandFact, OperatorFact
from dashboard.index.receipts import OPEN
from dashboard.monitor.findings import CheckReport
from dashboard.monitor.observation import Observation
from dashboard.views.words import DEMAND_KINDS

LEAST_BATCHES = 3
"""Recent batches from which the usual gap of an operator is known."""
UNUSUAL = 5
"""A silence of so many times the longest recent gap is unusual."""


def batches_follow(seen: Observation, report: CheckReport) -> None:
    """Numbers of an operator's recent batches leave no gap, and an operator that anchored regularly goes on."""
    by_operator: dict[str, list[Row]] = {}
    for row in seen.scene.index.between(BatchFact, "block", seen.recent_blocks()):
        by_operator.setdefault(row["operator"], []).append(row)
    for operator, rows in by_operator.items():
        for before, after in itertools.pairwise(rows):
            if after["first_seq"] != before["first_seq"] + before["receipts"]:
                text = f"batch {after['id']} begins at {after['first_seq']}, and batch {before['id']} ends before it"
                report.note(operator, text, (BatchFact, (after["id"],)))
        if silence := _silence(seen, operator, rows):
            report.note(operator, silence, (BatchFact, (rows[-1]["id"],)))


def _silence(seen: Observation, operator: str, rows: list[Row]) -> str:
    """Why the operator's silence is unusual; empty if it is not. A suspended operator is expected to be silent."""
    found = seen.scene.index.find(OperatorFact, operator)
    if seen.is_paused or found is None or found["suspended_until"] is not None:
        return ""
    times = [row["anchored_at"] for row in rows]
    if len(times) < LEAST_BATCHES:
        return ""
    longest = max(after - before for before, after in itertools.pairwise(times))
    silent = seen.scene.clock - times[-1]
    if silent <= max(seen.limits.silent_s, UNUSUAL * longest):
        return ""
    return f"no batch for {silent} s; its longest recent gap was {longest} s"


def demands_end(seen: Observation, report: CheckReport) -> None:
    """A demand that was not answered in time is made to expire."""
    if seen.is_paused:
        return
    for row in seen.scene.index.all(DemandFact, state=OPEN):
        late = seen.scene.clock - row["deadline"]
        if late > seen.limits.grace_s:
            what = DEMAND_KINDS.get(row["kind"], "data")
            text = f"{row['operator']} did not show the {what}, {late} s after its deadline, and nobody ended the demand"
            report.note(row["subject"], text, (DemandFact, (row["subject"],)))
