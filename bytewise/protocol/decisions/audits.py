"""What drawn auditors and watchtowers do about receipts: pure functions of a snapshot and what we know, as in `decide`."""

import enum
from collections.abc import Sequence, Set
from dataclasses import dataclass

from bytewise.protocol.court.sortition import audit_is_drawn
from bytewise.protocol.decisions.actions import Action, ClaimBounty, OpenAudit, OpenDispute, PostAudit, RunAudit
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.records.statements import AuditOutcome, AuditResult
from bytewise.protocol.units import Address, Digest


class AuditStage(enum.IntEnum):
    """How far the chain has one verifier's audit of a receipt."""

    NOTHING = 0
    POSTED = 1
    OPENED = 2
    PAID = 3


@dataclass(frozen=True, slots=True)
class AuditDuty:
    """One light audit that fell to us."""

    receipt_id: Digest
    """Drawn receipt."""
    batch_id: int
    """Its batch."""
    result: AuditResult | None
    """Once judged and attributed."""
    stage: AuditStage
    """What the chain shows of it."""
    agreed: bool
    """Whether another verifier showed the same."""


@dataclass(frozen=True, slots=True)
class AuditedReceipt:
    """What the chain shows about one receipt's light audits."""

    receipt_id: Digest
    """Audited receipt."""
    batch_id: int
    """Its batch."""
    beacon: Digest
    """Hash of the block that draws its auditors."""
    seats: tuple[tuple[Address, int], ...]
    """Audit seats of who posted, by the stake at the batch's block: who pays in later cannot choose what to audit."""
    rate_bps: int
    """Chance of one seat to be drawn."""
    results: tuple[AuditResult, ...]
    """Posted results, oldest first."""
    bond_wei: int
    """What a dispute costs under the batch's parameters: those in force today may ask for another bond."""


@dataclass(frozen=True, slots=True)
class WatchPolicy:
    """When a watchtower risks its bond."""

    mismatches: int = 2
    """Distinct drawn verifiers that must say MISMATCH."""
    margin_s: int = 2
    """Do not open in the last seconds of the window; protocol clock."""


def decide_auditor(snapshot: Snapshot, duties: Sequence[AuditDuty], running: Set[Digest], margin_s: int) -> tuple[Action, ...]:
    """What a drawn auditor does: judge each drawn receipt once, publish it inside the window, show what it found after it.

    Each act is decided until the chain shows it: a sender may have to drop one, for a pool that is empty, say.
    """
    actions: list[Action] = []
    for duty in duties:
        result, batch = duty.result, snapshot.batch(duty.batch_id)
        left_s = batch.window_end - snapshot.clock if batch is not None else -1
        if left_s < 0:
            actions += _after_window(duty)
        elif result is None:
            if left_s > margin_s and duty.receipt_id not in running:
                actions.append(RunAudit(duty.receipt_id))
        elif duty.stage is AuditStage.NOTHING:
            actions.append(PostAudit(result, duty.batch_id))
    return tuple(actions)


def decide_watchtower(
    snapshot: Snapshot, audited: Sequence[AuditedReceipt], disputed: Set[Digest], policy: WatchPolicy
) -> tuple[Action, ...]:
    """Which receipts to challenge: posted results of drawn auditors are all that a watchtower without keys has to go by."""
    balance = snapshot.me.balance_wei
    known = disputed | {case.receipt_id for case in snapshot.disputes}
    actions: list[Action] = []
    for receipt in audited:
        batch = snapshot.batch(receipt.batch_id)
        closing = batch is None or snapshot.clock + policy.margin_s > batch.window_end
        if receipt.receipt_id in known or closing or snapshot.paused:
            continue
        against, for_it = count_audits(receipt)
        if against >= policy.mismatches and against > for_it and balance >= receipt.bond_wei:
            balance -= receipt.bond_wei
            actions.append(OpenDispute(receipt.receipt_id, receipt.bond_wei))
    return tuple(actions)


def count_audits(receipt: AuditedReceipt) -> tuple[int, int]:
    """Distinct verifiers, drawn for this receipt, that say MISMATCH and MATCH; the first word of each counts."""
    seats = dict(receipt.seats)
    said: dict[Address, int] = {}
    for result in receipt.results:
        has = seats.get(result.verifier, 0)
        drawn = audit_is_drawn(receipt.beacon, receipt.receipt_id, result.verifier, receipt.rate_bps, has)
        if drawn and result.receipt_id == receipt.receipt_id:
            said.setdefault(result.verifier, result.result)
    words = list(said.values())
    return words.count(AuditOutcome.MISMATCH), words.count(AuditOutcome.MATCH)


def _after_window(duty: AuditDuty) -> list[Action]:
    """Once the window is over a judgement can be shown, and is paid for if another verifier's agrees."""
    if duty.result is None or duty.result.result == AuditOutcome.NONE.value:
        return []
    if duty.stage is AuditStage.POSTED:
        return [OpenAudit(duty.receipt_id)]
    return [ClaimBounty(duty.receipt_id)] if duty.stage is AuditStage.OPENED and duty.agreed else []
