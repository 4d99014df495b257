"""Checks of the invariants about disputes, audits, money, batches, demands and release logs."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.keys.epochs import RELEASES
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.units import hex0x
from bytewise.storage.index.reader import Row
from bytewise.storage.index.tables import (
    AuditFact,
    BatchFact,
    CreditFact,
    DemandFact,
    DisputeFact,
    ItemFact,
    LedgerFact,
    OperatorFact,
    PoolFact,
    RoundFact,
    StakeFact,
    VoteFact,
)
from dashboard.index.money import CREDITS
from dashboard.index.receipts import OPEN
from dashboard.monitor.findings import CheckReport
from dashboard.monitor.observation import EpochLogs, MoneySource, Observation, ShardLog
from dashboard.views.disputes import detail, open_disputes, phase_of
from dashboard.views.parties import known_batch
from dashboard.views.records import MemberVote
from dashboard.views.words import AUDIT_RESULTS, DEMAND_KINDS

# --- the court ---

MATCH, MISMATCH = 1, 2
"""Results of audits (`AuditResult`)."""
ABSENT = frozenset({"did not commit", "did not reveal"})


def votes_agree(seen: Observation, report: CheckReport) -> None:
    """Reports each member that voted against the verdict of its round."""
    for row, number, member in _members(seen):
        if member.agrees_with_round is False:
            text = f"round {number}: {member.voter.account} ({_seats(member)}) {member.said}, and the round says otherwise"
            report.note(row["id"], text, (DisputeFact, (row["id"],)))


def members_present(seen: Observation, report: CheckReport) -> None:
    """Reports each member that did not commit, and each member that committed and did not reveal. The check covers only rounds
    whose votes were counted. A commitment under a commit root counts as a commitment."""
    for row, number, member in _members(seen):
        if member.did in ABSENT:
            text = f"round {number}: {member.voter.account} ({_seats(member)}) {_absence(member)}"
            report.note(row["id"], text, (DisputeFact, (row["id"],)))


def _absence(member: MemberVote) -> str:
    if member.did == "did not commit":
        return member.did
    return "did not reveal under the commit root" if member.committed_block is None else "committed and did not reveal"


def _members(seen: Observation) -> Iterator[tuple[Row, int, MemberVote]]:
    """Yields each member of every counted round of recent disputes, with the dispute's row and the number of the round."""
    for row in seen.recent_disputes():
        for told in detail(seen.scene, row, {}).rounds:
            if told.settled:
                yield from ((row, told.number, member) for member in told.members)


def _seats(member: MemberVote) -> str:
    return f"{member.seats} seat{'s' if member.seats > 1 else ''}"


def audits_agree(seen: Observation, report: CheckReport) -> None:
    """Reports each receipt whose audits contradict each other, and each receipt with a mismatch that nobody disputes. The check
    covers only receipts whose batch is known from a dispute or a paid bounty. It ignores audits of such a receipt that name
    another batch."""
    for receipt, rows, disputed in _audits_by_batch(seen, are_proven=True):
        _compare_audits(seen, report, receipt, rows, is_disputed=disputed)


def unproven_audits_agree(seen: Observation, report: CheckReport) -> None:
    """Reports the same as `audits_agree`, but for receipts whose batch is not known from a dispute or a paid bounty. Their audits
    prove less, because any verifier may post an invented receipt id."""
    for receipt, rows, disputed in _audits_by_batch(seen, are_proven=False):
        _compare_audits(seen, report, receipt, rows, is_disputed=disputed)


def _audits_by_batch(seen: Observation, *, are_proven: bool) -> Iterator[tuple[bytes, list[Row], bool]]:
    """Yields each receipt with recent audits, its audits for one batch, and whether the receipt is disputed. With `are_proven`
    these are audits for the known batch of the receipt; otherwise audits of receipts without a known batch."""
    index = seen.scene.index
    by_receipt: dict[bytes, dict[int, list[Row]]] = {}
    for row in index.between(AuditFact, "posted_block", seen.recent_blocks()):
        by_receipt.setdefault(row["receipt_id"], {}).setdefault(row["batch_id"], []).append(row)
    for receipt, by_batch in by_receipt.items():
        disputes = index.all(DisputeFact, receipt_id=receipt)
        known = known_batch(index.all(AuditFact, receipt_id=receipt), next(iter(disputes), None))
        for batch, rows in by_batch.items():
            if known in (None, batch) and (known is not None) is are_proven:
                yield receipt, rows, bool(disputes)


def _compare_audits(seen: Observation, report: CheckReport, receipt: bytes, rows: list[Row], *, is_disputed: bool) -> None:
    said = {row["result"] for row in rows}
    opened = {row["out_hash"] for row in rows if row["out_hash"]}
    key = (AuditFact, (receipt, rows[-1]["verifier"]))
    if {MATCH, MISMATCH} <= said:
        told = ", ".join(f"{row['verifier']} {AUDIT_RESULTS.get(row['result'], row['result'])}" for row in rows)
        report.note(receipt, f"audits contradict each other: {told}", key)
    elif len(opened) > 1:
        report.note(receipt, f"auditors opened {len(opened)} different digests", key)
    elif MISMATCH in said and not is_disputed:
        finder = next(row["verifier"] for row in rows if row["result"] == MISMATCH)
        # One auditor's mismatch is enough for a finding. Watchtowers first get some blocks to dispute the receipt.
        if seen.timestamp - seen.changed_at(AuditFact, receipt, finder, result=MISMATCH) <= seen.limits.grace_s:
            return
        told = f"{finder} found a mismatch for batch {rows[0]['batch_id']}, and nobody disputes the receipt"
        report.note(receipt, told, (AuditFact, (receipt, finder)))


def disputes_advance(seen: Observation, report: CheckReport) -> None:
    """Reports disputes in which a move is overdue. A move is overdue if a phase has ended and nobody made the next move, or if a
    dispute has ended and nobody paid out its money."""
    if seen.is_paused:
        return
    for row in open_disputes(seen.scene):
        if due := _overdue(seen, row):
            report.note(row["id"], due, (DisputeFact, (row["id"],)))
    for row in seen.scene.index.all(DisputeFact, phase=int(Phase.FINAL), ended=True, paid=False):
        late = seen.timestamp - seen.changed_at(DisputeFact, row["id"], ended=True) - seen.limits.grace_s
        if late > 0:
            report.note(
                row["id"], f"ended {late + seen.limits.grace_s} s ago and nobody paid it out", (DisputeFact, (row["id"],))
            )


def _overdue(seen: Observation, row: Row) -> str:
    """Returns a sentence that says which move is overdue in a dispute, or empty text if none is."""
    round_ = seen.scene.index.find(RoundFact, row["id"], row["round"])
    phase, grace, times = phase_of(seen.scene, row, round_), seen.limits.grace_s, seen.times(row)
    if phase in (Phase.SEED, Phase.DRAWING) and round_ is not None and times:
        named = seen.changed_at(RoundFact, row["id"], row["round"], seed_block=round_["seed_block"])
        late = seen.timestamp - named - times["seedTime"] - times["drawTime"]
        return f"round {row['round']}: its seats should be drawn since {late} s" if late > grace else ""
    if phase is Phase.REVEAL and round_ is not None:
        late = seen.scene.clock - round_["reveal_end"]
        return f"round {row['round']}: the reveals ended {late} s ago, and nobody counted the seats" if late > grace else ""
    if phase is Phase.AIRGAP and not _waits_for_breaker(seen, row):
        late = seen.scene.clock - row["airgap_end"]
        return f"its airgap ended {late} s ago, and nobody finished it" if late > grace else ""
    return ""


def _waits_for_breaker(seen: Observation, row: Row) -> bool:
    item = seen.scene.index.find(ItemFact, row["environment"])
    return bool(item and item["held"]) and Verdict(row["verdict"]) in CONVICTIONS


def disputes_end(seen: Observation, report: CheckReport) -> None:
    """Reports two kinds of disputes: those that are open for longer than their parameters allow, and those whose seats are not
    drawn yet and whose pool is too small to judge."""
    for row in open_disputes(seen.scene):
        params = seen.scene.params(row["params_version"])
        if not params:
            report.doubts.append(f"dispute {hex0x(row['id'])}: the index lacks its parameters")
            continue
        item = seen.scene.index.find(ItemFact, row["environment"])
        longest = longest_dispute_s(params, bool(item and item["tripped"]))
        late = seen.timestamp - row["opened_at"] - longest - seen.limits.grace_s
        if late > 0:
            text = f"open for {seen.timestamp - row['opened_at']} s, and the longest dispute takes {longest} s"
            report.note(row["id"], text, (DisputeFact, (row["id"],)))
        elif (since := _stopped_since(seen, row, item)) is not None:
            report.note(row["id"], f"its pool is too small to judge since {since} (protocol clock)", (DisputeFact, (row["id"],)))


def _stopped_since(seen: Observation, row: Row, item: Row | None) -> int | None:
    if Phase(row["phase"]) not in (Phase.SEED, Phase.DRAWING) or item is None or item["pool"] is None:
        return None
    pool = seen.scene.index.find(PoolFact, item["pool"])
    since: int | None = None if pool is None else pool["stopped_since"]
    return since


def longest_dispute_s(params: Mapping[str, Any], may_be_held: bool) -> int:
    """Returns the longest time from the opening of a dispute to its end, in seconds of wall time. The time contains all rounds,
    one rerun, one pause and the airgap.

    With `may_be_held` it also contains `breakerTime`, because a breaker that tripped may hold a conviction for that long.
    """
    times, rounds = params["times"], params["committee"]["rounds"]
    one = sum(times[name] for name in ("seedTime", "drawTime", "commitTime", "revealTime", "appealTime"))
    rest = sum(times[name] for name in ("rerunTime", "airgap", "maxPause"))
    return int(rounds * one + rest + (times["breakerTime"] if may_be_held else 0))


# --- money ---


def money_sums(seen: Observation, report: CheckReport) -> None:
    """Reports each contract that provably holds less than it owes. Adds a doubt in three cases: money seems to be missing without
    proof, the credits of all accounts do not add up to their total, or the node's views contradict the node's proofs."""
    for part in seen.money.proven:
        if part.drift < 0:
            text = f"holds {part.balance} wei and owes {part.parts}: {-part.drift} wei are missing"
            report.note(part.contract, text)
    if seen.money.failure:
        report.doubts.append(f"money seems to be missing, and the node does not prove it: {seen.money.failure}")
    report.doubts.extend(_contradictions(seen.money))
    index = seen.scene.index
    ledger = {row["name"]: row["amount"] for row in index.all(LedgerFact)}
    owed = sum(row["owed"] for row in index.all(CreditFact))
    if owed != ledger.get(CREDITS, 0):
        report.doubts.append(f"credits of all accounts in the index are {owed} wei, and in all {ledger.get(CREDITS, 0)}")


def _contradictions(money: MoneySource) -> list[str]:
    """Returns one line for each contract for which a node's views differ from its own proofs."""
    proven = {each.contract: each for each in money.proven}
    return [
        f"the node says that {each.contract} has a drift of {each.drift} wei, and proves {proven[each.contract].drift}"
        for each in money.viewed
        if each.contract in proven and proven[each.contract] != each
    ]


# --- batches and demands ---

LEAST_BATCHES, LAST_BATCHES = 3, 20
"""The first number is the fewest batches that show an operator's usual gap. The second number is how many of its newest batches
the check reads at most."""
UNUSUAL = 5
"""A silence is unusual if it lasts more than this many times as long as the longest recent gap between batches."""


def batches_follow(seen: Observation, report: CheckReport) -> None:
    """Reports gaps between the receipt numbers of an operator's recent batches. Also reports each operator that anchored
    regularly and has stopped."""
    by_operator: dict[str, list[Row]] = {}
    for row in seen.scene.index.between(BatchFact, "block", seen.recent_blocks()):
        by_operator.setdefault(row["operator"], []).append(row)
    for operator, rows in by_operator.items():
        for before, after in itertools.pairwise(rows):
            if after["first_seq"] != before["first_seq"] + before["receipts"]:
                text = f"batch {after['id']} begins at {after['first_seq']}, and batch {before['id']} ends before it"
                report.note(operator, text, (BatchFact, (after["id"],)))
    for row in [] if seen.is_paused else seen.scene.index.all(OperatorFact, suspended_until=None):
        if silence := _silence(seen, row["account"]):
            report.note(row["account"], *silence)


def _silence(seen: Observation, operator: str) -> tuple[str, tuple[type[BatchFact], tuple[int]]] | None:
    """Returns a sentence that says why the operator's silence is unusual, and its last batch. Returns None if the silence is
    usual, if too few batches show what is usual, or if the operator has no stake, because it has left then."""
    stake = seen.scene.index.find(StakeFact, operator)
    newest = seen.scene.index.page(BatchFact, "id", True, LAST_BATCHES, operator=operator).rows
    if not seen.scene.stake_of(stake) or not newest:
        return None
    last = newest[0]["started_at"]
    # The period ends at the last batch and not now. Otherwise a long silence would leave no batches to compare with.
    times = [row["started_at"] for row in reversed(newest) if row["started_at"] >= last - seen.limits.recent_s]
    if len(times) < LEAST_BATCHES:
        return None
    longest = max(after - before for before, after in itertools.pairwise(times))
    silent = seen.scene.clock - last
    if silent <= max(seen.limits.silent_s, UNUSUAL * longest):
        return None
    return f"no batch for {silent} s; the longest gap before it was {longest} s", (BatchFact, (newest[0]["id"],))


def demands_end(seen: Observation, report: CheckReport) -> None:
    """Reports demands that are open although their deadline passed more than the grace time ago. Somebody has to send a
    transaction that makes such a demand expire."""
    if seen.is_paused:
        return
    for row in seen.scene.index.all(DemandFact, state=OPEN):
        late = seen.scene.clock - row["deadline"]
        if late > seen.limits.grace_s:
            what = DEMAND_KINDS.get(row["kind"], "data")
            text = f"{row['operator']} did not show the {what}, {late} s after its deadline, and nobody ended the demand"
            report.note(row["subject"], text, (DemandFact, (row["subject"],)))


# --- release logs ---


def logs_extend(seen: Observation, report: CheckReport) -> None:
    """Reports each shard whose release log does not continue the log that the shard showed before. Also reports each shard whose
    log has a release to a voter without a right to it."""
    for epoch in seen.logs:
        _note_unread(epoch, report)
        for log in epoch.logs:
            for line in log.broken:
                report.note(log.shard, f"shard {log.place} of key epoch {log.epoch}: {line}")


def logs_cover(seen: Observation, report: CheckReport) -> None:
    """Reports each vote whose enclave executed the request although too few logs show a release to the voter. In such a case
    shards released partials without a record in the logs that they show."""
    epochs = {each.epoch: each for each in seen.logs}
    for each in seen.logs:
        _note_unread(each, report)
    for row in seen.recent_disputes():
        known = epochs.get(row["key_epoch"])
        if known is None or known.failure:
            report.doubts.append(f"the logs of key epoch {row['key_epoch']} were not read")
            continue
        for vote in seen.scene.index.all(VoteFact, dispute=row["id"], said=int(Outcome.EXECUTED)):
            _compare(report, known, row, vote)


def _compare(report: CheckReport, epoch: EpochLogs, row: Row, vote: Row) -> None:
    having = [log for log in epoch.logs if _has_release(log, row["receipt_id"], vote["voter"], epoch.rebuilt)]
    silent = [log for log in epoch.logs if log.silent and log not in having]
    if len(having) >= epoch.threshold:
        return
    told = f"{vote['voter']} re-executed in round {vote['round']}, and {len(having)} of {epoch.threshold} logs have its release"
    if len(having) + len(silent) >= epoch.threshold:
        report.doubts.append(f"dispute 0x{row['id'].hex()}: {told}, {len(silent)} logs are not known")
    else:
        lacking = ", ".join(f"shard {log.place}" for log in epoch.logs if log not in having)
        report.note(row["id"], f"{told}; it is missing at {lacking}", (DisputeFact, (row["id"],)))


def _has_release(log: ShardLog, receipt: bytes, voter: str, rebuilt: bool) -> bool:
    return any(
        each.record.decision in RELEASES and each.record.voter == voter and (rebuilt or each.record.receipt_id == receipt)
        for each in log.entries
    )


def _note_unread(epoch: EpochLogs, report: CheckReport) -> None:
    if epoch.failure:
        report.doubts.append(f"key epoch {epoch.epoch}: {epoch.failure}")
    for log in epoch.logs:
        if log.silent:
            report.doubts.append(f"shard {log.place} of key epoch {epoch.epoch}: {log.silent}")
