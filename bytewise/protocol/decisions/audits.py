"""Decisions of drawn auditors, and the count of posted audit results.

All functions are pure: they read a snapshot and the findings of this process.
"""

import enum
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from bytewise.protocol.court.sortition import audit_is_drawn, beacon_is_known
from bytewise.protocol.decisions.actions import Action, ClaimBounty, OpenAudit, PostAudit, RunAudit
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.records.statements import AuditOutcome, AuditResult
from bytewise.protocol.units import Address, Blob, Digest


class AuditStage(enum.IntEnum):
    """Stage of one verifier's audit of a receipt, as the chain shows it."""

    NOTHING = 0
    POSTED = 1
    OPENED = 2
    PAID = 3


class PostedAudit(NamedTuple):
    """An audit result that a verifier posted on the chain, with the batch that the transaction names.

    The contract checks that the verifier may audit this batch and was drawn for the receipt. It does not check whether the
    receipt is in this batch.
    """

    result: AuditResult
    signature: Blob
    batch_id: int


def results_in(posts: Iterable[PostedAudit], batch_id: int | None) -> dict[Address, AuditResult]:
    """Returns the audit results that count for a receipt, by verifier.

    Only the last result of each verifier counts, and only if it names the receipt's batch. `posts` are about this receipt,
    oldest first. If `batch_id` is None, the receipt's batch is unknown, and every last result counts.
    """
    last = {each.result.verifier: each for each in posts}
    return {who: each.result for who, each in last.items() if batch_id in (None, each.batch_id)}


@dataclass(frozen=True, slots=True)
class AuditDuty:
    """One light audit for which this verifier was drawn."""

    receipt_id: Digest
    """Id of the drawn receipt."""
    batch_id: int
    """Batch of the receipt."""
    batch_block: int
    """Block in which the batch was anchored."""
    result: AuditResult | None
    """Result of the audit; None until the enclave has judged the receipt."""
    stage: AuditStage
    """Stage of the audit on the chain."""
    agreed: bool
    """Whether another verifier opened the same result."""
    is_open: bool = True
    """Whether the key epoch of the batch still allows audits. After a compromise it does not."""


@dataclass(frozen=True, slots=True)
class AuditedReceipt:
    """The chain's state of the light audits of one receipt."""

    receipt_id: Digest
    """Id of the audited receipt."""
    batch_id: int
    """Batch of the receipt."""
    beacon: Digest
    """Beacon of the batch: the hash of the block that draws the auditors of this receipt."""
    seats: tuple[tuple[Address, int], ...]
    """Audit seats of the verifiers that posted `results`, by their stake at the batch's block. Stake that was deposited later
    does not count, so that nobody can choose what to audit."""
    rate_bps: int
    """Chance per seat that the verifier is drawn, in 1/10,000."""
    results: tuple[AuditResult, ...]
    """Results that were posted for this receipt in this batch, oldest first. Results whose post names another batch are left out,
    because the contract checked draw and membership for that other batch."""
    bond_wei: int
    """Bond of a dispute under the batch's parameters, which may differ from those in force now."""


def decide_auditor(snapshot: Snapshot, duties: Sequence[AuditDuty], running: Set[Digest], margin_s: int) -> tuple[Action, ...]:
    """Returns the due actions of a drawn auditor. It judges each drawn receipt, posts the result inside the challenge window,
    opens the result after the window, and claims the bounty. No audit starts in the last `margin_s` seconds of the window.

    Nothing is judged or posted while the chain does not have the beacon, because the contract then cannot check the draw. The
    same is true once the key epoch is compromised, because shards then give no key and the contract takes no result.

    An action is decided again until the chain shows it, because a sender may have to drop it, for example if the bounty pool is
    empty.
    """
    actions: list[Action] = []
    for duty in duties:
        result = duty.result
        left_s = snapshot.window_end(duty.receipt_id, duty.batch_id) - snapshot.clock
        if left_s < 0:
            actions += _after_window(duty)
        elif not (duty.is_open and beacon_is_known(duty.batch_block, snapshot.number)):
            continue
        elif result is None:
            if left_s > margin_s and duty.receipt_id not in running:
                actions.append(RunAudit(duty.receipt_id))
        elif duty.stage is AuditStage.NOTHING:
            actions.append(PostAudit(result, duty.batch_id))
    return tuple(actions)


def count_audits(receipt: AuditedReceipt) -> tuple[int, int]:
    """Counts the distinct verifiers that were drawn for this receipt, by the result that they report. Returns the number of
    MISMATCH results, then the number of MATCH results.

    The last result of each verifier counts, as in the contract.
    """
    seats = dict(receipt.seats)
    reported: dict[Address, int] = {}
    for result in receipt.results:
        has = seats.get(result.verifier, 0)
        drawn = audit_is_drawn(receipt.beacon, receipt.receipt_id, result.verifier, receipt.rate_bps, has)
        if drawn and result.receipt_id == receipt.receipt_id:
            reported[result.verifier] = result.result
    results = list(reported.values())
    return results.count(AuditOutcome.MISMATCH), results.count(AuditOutcome.MATCH)


def _after_window(duty: AuditDuty) -> list[Action]:
    """Returns the actions after the challenge window: the result is opened, then paid once another verifier's result agrees."""
    if duty.result is None or duty.result.result == AuditOutcome.NONE.value:
        return []
    if duty.stage is AuditStage.POSTED:
        return [OpenAudit(duty.receipt_id)]
    return [ClaimBounty(duty.receipt_id)] if duty.stage is AuditStage.OPENED and duty.agreed else []
