"""Builds the records of operators, verifiers, batches, demands, audits and receipts."""

from collections.abc import Mapping, Sequence
from typing import Any

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import CONVICTIONS, SeatOutcome
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import hex0x
from bytewise.storage.index.reader import Row
from bytewise.storage.index.tables import (
    AuditFact,
    BatchFact,
    CreditFact,
    DemandFact,
    DisputeFact,
    OperatorFact,
    PlaceFact,
    PoolFact,
    ReportFact,
    SeatFact,
    StakeFact,
)
from dashboard.index.receipts import ANSWERED, EXPIRED, OPEN, BatchWindows
from dashboard.views.disputes import phase_of
from dashboard.views.records import (
    Amount,
    AuditSummary,
    BatchSummary,
    DemandSummary,
    FinalityState,
    Party,
    ReceiptDetail,
    Record,
    Time,
)
from dashboard.views.scene import Scene, amount, hex_or_none, newest, time_of
from dashboard.views.words import AUDIT_RESULTS, DEMAND_KINDS, DEMAND_STATES, VERDICTS

# --- records of operators and verifiers ---


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


# --- batches, demands, audits ---


def batches(scene: Scene, rows: Sequence[Row]) -> list[BatchSummary]:
    """Returns the records of batches for a list."""
    windows = BatchWindows(scene.index)
    return [_batch(scene, row, windows) for row in rows]


def _batch(scene: Scene, row: Row, windows: BatchWindows) -> BatchSummary:
    end, demanded = windows.end(row), windows.list_demand(row)
    state = "void" if row["is_void"] else "over" if row["released"] or scene.clock > end else "open"
    shown_end = scene.deadline(end)
    assert shown_end is not None, "every batch has a time"
    return BatchSummary(
        id=row["id"], operator=scene.party(row["operator"]), first_seq=row["first_seq"], receipts=row["receipts"],
        root=hex0x(row["root"]), list_hash=hex0x(row["list_hash"]), locator=row["locator"],
        environment=hex0x(row["environment"]), model_id=hex0x(row["model_id"]), key_epoch=row["key_epoch"],
        params_version=row["params_version"], anchored_at=time_of(row["anchored_at"]), block=row["block"],
        window_end=shown_end, state=state, list_demanded=demanded is not None and demanded["state"] == OPEN,
        finality=scene.finality(newest(row, demanded)),
    )  # fmt: skip


def demands(scene: Scene, rows: Sequence[Row]) -> list[DemandSummary]:
    """Returns the records of demands for a list."""
    return [demand(scene, row) for row in rows]


def demand(scene: Scene, row: Row) -> DemandSummary:
    """Returns the record of one demand."""
    overdue = row["state"] == OPEN and scene.clock > row["deadline"]
    deadline = scene.deadline(row["deadline"])
    return DemandSummary(
        subject=hex0x(row["subject"]), kind=DEMAND_KINDS.get(row["kind"], str(row["kind"])),
        state="overdue" if overdue else DEMAND_STATES.get(row["state"], str(row["state"])),
        operator=scene.party(row["operator"]), demanded_by=scene.party(row["demanded_by"]), opened_block=row["opened_block"],
        deadline=deadline or time_of(0), bond=amount(row["bond"]), answered_by=scene.somebody(row["answered_by"]),
        slashed=amount(row["slashed"]), finality=scene.finality(newest(row)),
    )  # fmt: skip


def audits(scene: Scene, rows: Sequence[Row]) -> list[AuditSummary]:
    """Returns the records of light audits for a list."""
    return [
        AuditSummary(
            receipt_id=hex0x(row["receipt_id"]), verifier=scene.party(row["verifier"]), batch_id=row["batch_id"],
            result=AUDIT_RESULTS.get(row["result"], str(row["result"])), posted_block=row["posted_block"],
            audited_at=time_of(row["audited_at"]), out_hash=hex_or_none(row["out_hash"]), bounty=amount(row["bounty"]),
            finality=scene.finality(newest(row)),
        )
        for row in rows
    ]  # fmt: skip


# --- one receipt ---


def known_batch(checks: Sequence[Row], dispute: Row | None) -> int | None:
    """Returns the number of the batch that contains a receipt, or None if the index does not know it. Only a dispute about the
    receipt, or an audit that got a bounty, shows the batch. `checks` are the receipt's audits."""
    return dispute["batch_id"] if dispute else next((row["batch_id"] for row in checks if row["bounty"] > 0), None)


def receipt(scene: Scene, receipt_id: bytes) -> ReceiptDetail | None:
    """Returns what the chain says about a receipt. Returns None if no event names the receipt."""
    index = scene.index
    dispute = next(iter(index.all(DisputeFact, receipt_id=receipt_id)), None)
    asked = index.find(DemandFact, receipt_id)
    checks = index.all(AuditFact, receipt_id=receipt_id)
    if dispute is None and asked is None and not checks:
        return None
    known = known_batch(checks, dispute)
    batch = None if known is None else index.find(BatchFact, known)
    level, words = _level(scene, dispute, batch, checks, known)
    operator = dispute["operator"] if dispute else asked["operator"] if asked else None
    return ReceiptDetail(
        id=hex0x(receipt_id), level=level, words=words, replacement=hex_or_none(dispute["replacement"]) if dispute else None,
        operator=scene.somebody(operator), batch_id=known,
        dispute_id=hex0x(dispute["id"]) if dispute else None, demand=demand(scene, asked) if asked else None,
        audits=tuple(audits(scene, checks)), capsule=None, finality=scene.finality(newest(dispute, asked, batch, *checks)),
    )  # fmt: skip


def _level(
    scene: Scene, dispute: Row | None, batch: Row | None, posts: Sequence[Row], known: int | None
) -> tuple[str, str]:  # fmt: skip
    checks = [row for row in posts if known in (None, row["batch_id"])]
    if batch is not None and batch["is_void"]:
        return "void", "Its batch is void: the operator did not show the list of its receipts. Do not rely on it."
    if dispute is not None:
        return _final_level(dispute) if Phase(dispute["phase"]) is Phase.FINAL else ("disputed", _verdict_for_now(scene, dispute))
    results = [AUDIT_RESULTS.get(row["result"]) for row in checks]
    if "mismatch" in results:
        told = "At least one verifier says that it found another answer, and nobody has disputed it yet. Do not rely on it."
        return "audited", f"{told} {_NOT_KNOWN}" if known is None else told
    if paid := sum(row["bounty"] > 0 for row in checks):
        return "audited", f"Auditors that found the same answer and were paid: {paid}."
    if "match" in results:
        return "audited", f"Verifiers that say they found the same answer: {results.count('match')}. {_NOT_KNOWN}"
    return "unknown", "No auditor has said anything about its answer."


_NOT_KNOWN = "The events do not show whether they were drawn for it: `bytewise verify` checks that."
"""Sentence for a receipt whose batch is not known. The contract accepts an audit result for a batch that does not contain the
receipt, and checks the draw for that batch. It pays a bounty only if the batch contains the receipt. Without a dispute that
convicted the receipt it pays only for a match."""


def _final_level(dispute: Row) -> tuple[str, str]:
    """Returns level and description of a receipt whose dispute is over. The receipt counts only if the committee confirmed it
    (`ReceiptAnchor.isFinal`)."""
    verdict = Verdict(dispute["verdict"])
    if verdict in CONVICTIONS:
        told = "It was found wrong. Do not rely on it."
        return "overturned", told + (" The replaced answer is below." if dispute["replacement"] else "")
    if verdict is Verdict.UPHELD:
        return "upheld", "It was disputed, and a committee confirmed it."
    return "void", f"Its dispute ended without a verdict: {VERDICTS[verdict]}. It is void for ever. Do not rely on it."


def _verdict_for_now(scene: Scene, dispute: Row) -> str:
    verdict = Verdict(dispute["verdict"])
    if verdict is Verdict.NONE:
        return "It is in dispute. Wait for the verdict."
    causes = {Phase.APPEAL: "An appeal or a refund by the guardian", Phase.AIRGAP: "A refund by the guardian"}
    cause = causes.get(phase_of(scene, dispute, None), "It was appealed, and a larger committee")
    return f"For now {VERDICTS[verdict]}. {cause} can still change that."


# --- operators ---


def operators(scene: Scene, rows: Sequence[Row]) -> list[OperatorSummary]:
    """Returns the records of operators for a list."""
    return [_operator(scene, row) for row in rows]


def _operator(scene: Scene, row: Row) -> OperatorSummary:
    index, account = scene.index, row["account"]
    own = index.all(BatchFact, operator=account)
    cases = index.all(DisputeFact, operator=account)
    asked = index.all(DemandFact, operator=account)
    reports = index.all(ReportFact, operator=account)
    staked, owed = index.find(StakeFact, account), index.find(CreditFact, account)
    stake, credit = staked or {}, owed or {}
    convicted = [each for each in cases if each["ended"] and Verdict(each["verdict"]) in CONVICTIONS]
    return OperatorSummary(
        operator=scene.party(account), endpoint=row["endpoint"], registered_block=row["registered_block"],
        suspended_until=scene.deadline(row["suspended_until"] or 0), stake=amount(scene.stake_of(staked)),
        stake_lapsed=scene.is_lapsed(staked),
        locked=amount(stake.get("locked", 0)), collateral=amount(stake.get("collateral", 0)), batches=len(own),
        receipts=sum(each["receipts"] for each in own), convictions=len(convicted),
        upheld=sum(each["ended"] and each["verdict"] == Verdict.UPHELD for each in cases),
        open_disputes=sum(not each["ended"] for each in cases),
        demands_lost=sum(each["state"] == EXPIRED for each in asked),
        demands_answered=sum(each["state"] == ANSWERED for each in asked),
        equivocations=sum(each["kind"] == "equivocation" for each in reports),
        skipped=sum(each["kind"] == "skipped" for each in reports), slashed=amount(stake.get("slashed", 0)),
        credit=amount(credit.get("owed", 0)),
        finality=scene.finality(newest(row, *own, *cases, *asked, *reports, staked, owed)),
    )  # fmt: skip


# --- verifiers ---


def verifiers(scene: Scene, rows: Sequence[Row]) -> list[VerifierSummary]:
    """Returns the records of verifiers for a list."""
    pools = {row["digest"]: row["tree"] for row in scene.index.all(PoolFact)}
    places: dict[tuple[str, str], Row] = {}
    totals: dict[str, int] = {}
    changed: dict[str, int] = {}
    for each in scene.index.all(PlaceFact):
        places[each["tree"], each["account"]] = each
        totals[each["tree"]] = totals.get(each["tree"], 0) + each["units"]
        changed[each["tree"]] = max(changed.get(each["tree"], 0), newest(each))
    found = []
    for row in rows:
        tree = pools.get(row["pool"], "")
        place = places.get((tree, row["account"]))
        units = place["units"] if place and row["pool"] else 0
        share = units * 10_000 // totals[tree] if units else 0
        found.append(_verifier(scene, row, units, share, changed.get(tree, 0)))
    return found


def _verifier(scene: Scene, row: Row, units: int, share_bps: int, share_block: int) -> VerifierSummary:
    """Returns the record of one verifier. `share_block` is the block of the newest change of its pool's weights."""
    index, account = scene.index, row["account"]
    seats = index.all(SeatFact, voter=account)
    checks = index.count_by(AuditFact, "result", verifier=account)
    last = index.page(AuditFact, "valid_from", True, 1, verifier=account).rows
    staked, owed = index.find(StakeFact, account), index.find(CreditFact, account)
    stake, credit = staked or {}, owed or {}
    ends: Mapping[Any, int] = {code: sum(seat["outcome"] == code for seat in seats) for code in SeatOutcome}
    return VerifierSummary(
        verifier=scene.party(account), pool=hex_or_none(row["pool"]), platform_id=hex_or_none(row["platform_id"]),
        measurement=hex_or_none(row["measurement"]), joined_block=row["joined_block"], stake=amount(scene.stake_of(staked)),
        stake_lapsed=scene.is_lapsed(staked),
        units=units, share_bps=share_bps, rounds=len({(seat["dispute"], seat["round"]) for seat in seats}), seats=len(seats),
        right=ends[SeatOutcome.RIGHT], worked=ends[SeatOutcome.WORKED], wrong=ends[SeatOutcome.WRONG],
        not_revealed=ends[SeatOutcome.NOT_REVEALED], absent=ends[SeatOutcome.ABSENT],
        unpaid=ends[SeatOutcome.NONE] + ends[SeatOutcome.NEUTRAL], audits=sum(checks.values()), mismatches=checks.get(2, 0),
        earned=amount(credit.get("earned", 0)), slashed=amount(stake.get("slashed", 0)),
        finality=scene.finality(max(share_block, newest(row, *seats, *last, staked, owed))),
    )  # fmt: skip


def known_operator(scene: Scene, account: str) -> Row | None:
    """Returns the row of a registered operator, or None if the account is not registered."""
    return scene.index.find(OperatorFact, account)
