"""What to do now: a pure function of one snapshot and of what we know, recomputed from nothing at each tick.

Nothing is remembered between ticks, so a restart needs no recovery, and an action that the chain already shows is not
decided again. No wall clock: a block's time is the only time (design section 2).
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from bytewise.protocol.actions import (
    Action,
    CastCommit,
    CastReveal,
    DrawSeats,
    OpenDispute,
    PostAudit,
    Rearm,
    RunAudit,
    RunVoteJob,
    Settle,
    Withdraw,
)
from bytewise.protocol.dispute import Dispute, Member, Phase, Snapshot
from bytewise.protocol.errors import ProtectionMissing
from bytewise.protocol.messages import AuditOutcome, AuditResult, Vote
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.sortition import audit_is_drawn
from bytewise.protocol.units import Address, Digest

SEED_REACH_BLOCKS = 256
"""How far back a contract can read a block hash (EVM BLOCKHASH)."""

Round = tuple[Digest, int]
"""A dispute and one of its rounds."""


@dataclass(frozen=True, slots=True)
class MovePolicy:
    """How eagerly we make moves that anybody may make."""

    turn_blocks: int = 2
    """Blocks for which one verifier is first in line."""
    overdue_s: int = 15
    """A move later than this is anybody's; seconds of chain time."""
    withdraw_above_wei: int = 0
    """Collect credit from this amount on; 0: never by itself."""


@dataclass(frozen=True, slots=True)
class VotePolicy:
    """When a vote job still makes sense."""

    job_margin_s: int = 3
    """No job starts later than this before the end of the commit phase; seconds of chain time."""


@dataclass(frozen=True, slots=True)
class AuditDuty:
    """One light audit that fell to us."""

    receipt_id: Digest
    """Drawn receipt."""
    anchored_at: int
    """Chain time of its batch."""
    result: AuditResult | None
    """Once judged and attributed."""
    posted: bool
    """Whether the chain has the result."""


@dataclass(frozen=True, slots=True)
class AuditedReceipt:
    """What the chain shows about one receipt's light audits."""

    receipt_id: Digest
    """Audited receipt."""
    anchored_at: int
    """Chain time of its batch."""
    beacon: Digest
    """Hash of the block that draws its auditors."""
    weights: tuple[tuple[Address, int], ...]
    """Verifiers with their stake in wei as it stood at the batch's block: who pays in later cannot choose what to audit."""
    results: tuple[AuditResult, ...]
    """Posted results, oldest first."""


@dataclass(frozen=True, slots=True)
class WatchPolicy:
    """When a watchtower risks its bond."""

    mismatches: int = 2
    """Distinct drawn verifiers that must say MISMATCH."""
    margin_s: int = 2
    """Do not open in the last seconds of the window."""


def decide_moves(snapshot: Snapshot, me: Address, policy: MovePolicy) -> tuple[Action, ...]:
    """Moves that anybody may make: draw, rearm, settle, and collecting own credit.

    Verifiers take turns by registry index so that not all pay for one move; who is no verifier helps only when it is late.
    """
    actions: list[Action] = []
    for dispute in snapshot.disputes:
        move, late_s = _open_move(snapshot, dispute)
        if move is not None and (late_s > policy.overdue_s or _my_turn(snapshot, me, policy.turn_blocks)):
            actions.append(move)
    if 0 < policy.withdraw_above_wei <= snapshot.credit_wei:
        actions.append(Withdraw(snapshot.credit_wei))
    return tuple(actions)


def decide_member(
    snapshot: Snapshot,
    domain: Domain,
    me: Address,
    votes: Mapping[Round, Vote],
    declined: Set[Digest],
    running: Set[Round],
    policy: VotePolicy,
) -> tuple[Action, ...]:
    """What a seat holder does about its seats. `domain` is `Disputes`; `votes` is the protection table.

    `ProtectionMissing` (a bug: stop) if the chain shows a commitment of ours that the table cannot open.
    """
    actions: list[Action] = []
    for dispute in snapshot.disputes:
        seat = dispute.member(me)
        if seat is None or dispute.phase not in (Phase.COMMIT, Phase.REVEAL):
            continue
        vote = votes.get((dispute.id, dispute.round))
        _verify_protected(domain, dispute, seat, vote)
        action = _seat_action(snapshot, domain, dispute, seat, vote, policy)
        stays_away = dispute.id in declined and not any(seat.commitment)
        busy = isinstance(action, RunVoteJob) and (dispute.id, dispute.round) in running
        if action is not None and not stays_away and not busy:
            actions.append(action)
    return tuple(actions)


def decide_auditor(snapshot: Snapshot, duties: Sequence[AuditDuty], running: Set[Digest], margin_s: int) -> tuple[Action, ...]:
    """What a drawn auditor does: judge each drawn receipt once, publish each result once, all inside the window."""
    actions: list[Action] = []
    for duty in duties:
        left_s = duty.anchored_at + snapshot.params.window_s - snapshot.timestamp
        if duty.posted or left_s <= 0:
            continue
        if duty.result is not None:
            actions.append(PostAudit(duty.result))
        elif left_s > margin_s and duty.receipt_id not in running:
            actions.append(RunAudit(duty.receipt_id))
    return tuple(actions)


def decide_watchtower(
    snapshot: Snapshot, audited: Sequence[AuditedReceipt], disputed: Set[Digest], balance_wei: int, policy: WatchPolicy
) -> tuple[Action, ...]:
    """Which receipts to challenge: posted results of drawn auditors are all that a watchtower without keys has to go by."""
    bond = snapshot.params.required_bond_wei
    known = disputed | {dispute.receipt_id for dispute in snapshot.disputes}
    actions: list[Action] = []
    for receipt in audited:
        closes_at = receipt.anchored_at + snapshot.params.window_s
        if receipt.receipt_id in known or snapshot.timestamp + policy.margin_s > closes_at:
            continue
        against, for_it = count_audits(snapshot, receipt)
        if against >= policy.mismatches and against > for_it and balance_wei >= bond:
            balance_wei -= bond
            actions.append(OpenDispute(receipt.receipt_id, bond))
    return tuple(actions)


def count_audits(snapshot: Snapshot, receipt: AuditedReceipt) -> tuple[int, int]:
    """Distinct verifiers, drawn for this receipt, that say MISMATCH and MATCH; the first word of each counts."""
    stakes = dict(receipt.weights)
    said: dict[Address, int] = {}
    for result in receipt.results:
        seats = stakes.get(result.verifier, 0) // snapshot.params.audit_unit_wei
        drawn = audit_is_drawn(receipt.beacon, receipt.receipt_id, result.verifier, snapshot.params.audit_rate_bps, seats)
        if drawn and result.receipt_id == receipt.receipt_id:
            said.setdefault(result.verifier, result.result)
    words = list(said.values())
    return words.count(AuditOutcome.MISMATCH), words.count(AuditOutcome.MATCH)


def _seat_action(
    snapshot: Snapshot, domain: Domain, dispute: Dispute, seat: Member, vote: Vote | None, policy: VotePolicy
) -> Action | None:
    if dispute.phase is Phase.REVEAL:
        return CastReveal(vote) if vote is not None and any(seat.commitment) and not seat.revealed else None
    if any(seat.commitment):
        return None
    if vote is not None:
        return CastCommit(vote, typed_digest(domain, vote))
    if snapshot.timestamp + policy.job_margin_s >= dispute.commit_end:
        return None
    return RunVoteJob(
        dispute.id, dispute.round, dispute.receipt_id, seat.seat_mask, dispute.round_seed,
        fetch_deadline=dispute.commit_end - snapshot.params.commit_s // 2, commit_end=dispute.commit_end,
    )  # fmt: skip


def _verify_protected(domain: Domain, dispute: Dispute, seat: Member, vote: Vote | None) -> None:
    if any(seat.commitment) and (vote is None or typed_digest(domain, vote) != seat.commitment):
        raise ProtectionMissing(dispute.id.hex(), dispute.round)


def _open_move(snapshot: Snapshot, dispute: Dispute) -> tuple[Action | None, int]:
    """The move that the dispute waits for, and for how many seconds it has been possible at least."""
    if dispute.phase is Phase.SEED and snapshot.number > dispute.seed_block:
        age = snapshot.number - dispute.seed_block
        if age >= SEED_REACH_BLOCKS:
            return Rearm(dispute.id, dispute.round), age - SEED_REACH_BLOCKS
        # A block takes at least a second, so a wait of so many blocks is at least so many seconds.
        return DrawSeats(dispute.id, dispute.round), age
    if dispute.phase is Phase.REVEAL and (dispute.ready_to_settle or snapshot.timestamp > dispute.reveal_end):
        return Settle(dispute.id, dispute.round), snapshot.timestamp - dispute.reveal_end
    return None, 0


def _my_turn(snapshot: Snapshot, me: Address, turn_blocks: int) -> bool:
    registered = [verifier for verifier, _ in snapshot.verifiers]
    return me in registered and snapshot.number // turn_blocks % len(registered) == registered.index(me)
