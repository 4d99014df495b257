"""Decisions about disputes: pure functions of a snapshot and of this process's findings, computed again at each tick.

Nothing is kept between ticks, so a restart needs no recovery. An action that the chain already shows is not decided again.
Deadlines are times of the protocol clock. A pause stops this clock, and meanwhile the contracts accept almost nothing. Seeds
depend on blocks, which continue during a pause.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from bytewise.protocol.court.commitments import sealed
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.court.tally import vote_content
from bytewise.protocol.decisions.actions import (
    Action,
    AnswerList,
    CastCommit,
    CastReveal,
    DrawPart,
    ExpireList,
    Finalize,
    FinishUnbond,
    OpenAlt,
    PayOut,
    Rearm,
    ReleaseBatch,
    RunVoteJob,
    Settle,
    SettleSeats,
    Withdraw,
)
from bytewise.protocol.decisions.snapshot import AnchoredBatch, Dispute, Seat, Snapshot
from bytewise.protocol.errors.actors import ConfigurationError, ProtectionMissing
from bytewise.protocol.records.statements import Verdict, Vote
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.units import Address, Digest

Round = tuple[Digest, int]
"""A dispute id and the number of one of the dispute's rounds."""


@dataclass(frozen=True, slots=True)
class MovePolicy:
    """Rules for moves that any account may make, for example a draw: when this process makes them, and for how many seats at
    once."""

    turns: int = 4
    """Number of groups into which verifiers are divided by their place in the stake tree, at least 1. One group at a time
    makes moves first."""
    turn_blocks: int = 2
    """Number of blocks for which one group makes moves first, at least 1."""
    overdue: int = 15
    """Delay after which every node makes a move that nobody made. It is in blocks for seeds, and in seconds of the protocol clock
    for all other moves."""
    seats_per_draw: int = 64
    """Number of seats in one draw transaction, at least 1. Each seat costs some 14,000 gas."""
    seats_per_settlement: int = 64
    """Number of seats in one settlement transaction, at least 1."""
    collect_above_wei: int = 0
    """Amount in wei from which on the node withdraws credit and unbonded stake. With 0 the node never withdraws."""

    def __post_init__(self) -> None:
        verify_bounds(self, "turns", "turn_blocks", "seats_per_draw", "seats_per_settlement")


@dataclass(frozen=True, slots=True)
class VotePolicy:
    """Time limits of vote jobs: when it is too late to start a job, and how long its result waits before it becomes the vote."""

    job_margin_s: int = 3
    """Seconds of chain time before the end of the commit phase in which no job starts."""
    seed_depth: int = 6
    """Number of blocks after the seed's block before a result becomes the vote. After half of the commit phase the node no longer
    waits."""

    def __post_init__(self) -> None:
        verify_bounds(self)


@dataclass(frozen=True, slots=True)
class Alternative:
    """The answer that a challenger expects to win."""

    key: Digest
    """Key that the verdict must have if this answer wins (`court.tally.key_of`)."""
    salt: Digest
    """Salt that opens the challenger's commitment."""


def decide_moves(snapshot: Snapshot, policy: MovePolicy) -> tuple[Action, ...]:
    """Decides the moves that any account may make: to draw seats, replace a lost seed, count votes, end a dispute and pay. It
    also decides withdrawals of this account.

    Verifiers take turns by their place in the pool's stake tree, so that not all of them pay for the same move. Other accounts
    help when a move is late.
    """
    moves = [(move, late) for dispute in snapshot.disputes for move, late in _open_moves(snapshot, dispute, policy)]
    wanted = [move for move, late in moves if late > policy.overdue or is_my_turn(snapshot, policy)]
    return (*wanted, *_collections(snapshot, policy))


def decide_member(
    snapshot: Snapshot,
    domain: Domain,
    me: Address,
    votes: Mapping[Round, Vote],
    declined: Set[Digest],
    running: Set[Round],
    policy: VotePolicy,
    lost: Set[Round] = frozenset(),
) -> tuple[Action, ...]:
    """Decides the actions of a committee member for its seats.

    `domain` is the domain of `Disputes`, and `votes` is the protection table. `declined` are disputes in which the member does
    not commit. `running` are rounds with a running job.

    `lost` are rounds in which an earlier database of this member may have voted, and that database is lost. In such a round the
    member makes no new vote, and a vote of this member that only the chain has is no bug. In any other round the chain may show
    a commitment or vote of this member only if the table has the same one. Otherwise raises `ProtectionMissing` (a bug: stop).
    """
    actions: list[Action] = []
    for dispute in snapshot.disputes:
        seat = dispute.seat_of(me)
        if seat is None or dispute.phase not in (Phase.COMMIT, Phase.REVEAL):
            continue
        vote = votes.get((dispute.id, dispute.round))
        if vote is None and (dispute.id, dispute.round) in lost:
            continue
        _verify_protected(domain, dispute, seat, vote)
        action = _seat_action(snapshot, domain, dispute, seat, vote, policy)
        stays_away = dispute.id in declined and not seat.committed
        busy = isinstance(action, RunVoteJob) and (dispute.id, dispute.round) in running
        if action is not None and not stays_away and not busy and not snapshot.paused:
            actions.append(action)
    return tuple(actions)


def decide_challenger(snapshot: Snapshot, me: Address, known: Mapping[Digest, Alternative]) -> tuple[Action, ...]:
    """Decides when a challenger opens its commitment to the winning answer, which earns its reward.

    The challenger opens it in the airgap, when the verdict can no longer be appealed.
    """
    actions: list[Action] = []
    for dispute in snapshot.disputes:
        mine = known.get(dispute.id)
        waiting = dispute.challenger.account == me and not dispute.challenger.knew
        won = dispute.verdict in (Verdict.OVERTURNED, Verdict.INVALID) and mine is not None and mine.key == dispute.key
        if waiting and won and mine is not None and dispute.phase is Phase.AIRGAP and snapshot.clock <= dispute.airgap_end:
            actions.append(OpenAlt(dispute.id, mine.salt))
    return tuple(actions)


def decide_operator(snapshot: Snapshot, me: Address, batches: Sequence[AnchoredBatch]) -> tuple[Action, ...]:
    """Decides the actions of an operator for its batches: answers to demands for lists, and release of collateral."""
    if snapshot.paused:
        return ()
    disputed = {dispute.batch_id for dispute in snapshot.disputes if dispute.phase is not Phase.FINAL}
    actions: list[Action] = []
    for batch in batches:
        if batch.operator != me or batch.released:
            continue
        if batch.list_demanded and snapshot.clock <= batch.list_deadline:
            actions.append(AnswerList(batch.batch_id, batch.list_deadline))
        elif not batch.list_demanded and snapshot.clock > batch.window_end and batch.batch_id not in disputed:
            actions.append(ReleaseBatch(batch.batch_id))
    return tuple(actions)


def decide_expiries(snapshot: Snapshot, batches: Sequence[AnchoredBatch], policy: MovePolicy) -> tuple[Action, ...]:
    """Decides which unanswered demands for lists to end. Any account may end them, so verifiers take turns."""
    if snapshot.paused:
        return ()
    over = [(batch, snapshot.clock - batch.list_deadline) for batch in batches if batch.list_demanded]
    mine = is_my_turn(snapshot, policy)
    return tuple(ExpireList(batch.batch_id) for batch, late in over if late > 0 and (mine or late > policy.overdue))


def _open_moves(snapshot: Snapshot, dispute: Dispute, policy: MovePolicy) -> Iterator[tuple[Action, int]]:
    """Yields the moves that a dispute waits for, each with its delay. The delay is in blocks for seeds, and in seconds of the
    protocol clock for all other moves."""
    if dispute.phase in (Phase.SEED, Phase.DRAWING):
        yield from _seed_moves(snapshot, dispute, policy)
    elif snapshot.paused:
        return
    elif dispute.phase is Phase.REVEAL and dispute.settleable:
        yield Settle(dispute.id, dispute.round), snapshot.clock - dispute.reveal_end
    elif dispute.phase is Phase.AIRGAP and snapshot.clock > dispute.airgap_end:
        if not (dispute.held and dispute.verdict in CONVICTIONS):
            yield Finalize(dispute.id), snapshot.clock - dispute.airgap_end
    elif dispute.phase is Phase.FINAL:
        late = snapshot.clock - dispute.airgap_end
        if dispute.ended and not dispute.paid:
            yield PayOut(dispute.id), late
        for number, each in enumerate(dispute.rounds, start=1):
            if each.settled < each.seats:
                count = min(policy.seats_per_settlement, each.seats - each.settled)
                yield SettleSeats(dispute.id, number, each.settled, count), late


def _seed_moves(snapshot: Snapshot, dispute: Dispute, policy: MovePolicy) -> Iterator[tuple[Action, int]]:
    seed = dispute.seed
    late = snapshot.number - seed.block
    if seed.lost:
        if not snapshot.paused:
            yield Rearm(dispute.id, dispute.round), late
    elif seed.drawable:
        count = min(policy.seats_per_draw, dispute.seats - dispute.drawn)
        yield DrawPart(dispute.id, dispute.round, dispute.drawn, count), late


def _collections(snapshot: Snapshot, policy: MovePolicy) -> Iterator[Action]:
    if snapshot.paused or policy.collect_above_wei == 0:
        return
    if snapshot.me.credit_due_wei >= policy.collect_above_wei:
        yield Withdraw(snapshot.me.credit_due_wei)
    if snapshot.me.unbond_due_wei >= policy.collect_above_wei:
        yield FinishUnbond(snapshot.me.unbond_due_wei)


def _seat_action(
    snapshot: Snapshot, domain: Domain, dispute: Dispute, seat: Seat, vote: Vote | None, policy: VotePolicy
) -> CastCommit | CastReveal | RunVoteJob | None:
    if dispute.phase is Phase.REVEAL:
        return CastReveal(vote) if vote is not None and any(seat.commitment) else None
    if seat.committed:
        return None
    if vote is not None:
        return CastCommit(vote, typed_digest(domain, vote))
    if snapshot.clock + policy.job_margin_s >= dispute.commit_end:
        return None
    return RunVoteJob(
        dispute.id, dispute.round, dispute.receipt_id, seat.seat_mask, dispute.round_seed,
        fetch_deadline=dispute.commit_end - dispute.commit_s // 2, commit_end=dispute.commit_end,
    )  # fmt: skip


def _verify_protected(domain: Domain, dispute: Dispute, seat: Seat, vote: Vote | None) -> None:
    """Checks that the protection table has this member's vote if the chain shows one: a commitment, a revealed vote or a
    certified vote. Raises `ProtectionMissing` otherwise."""
    committed = not any(seat.commitment) or (vote is not None and _stored_commitment(domain, vote) == seat.commitment)
    revealed = not any(seat.group) or (vote is not None and vote_content(vote).group == seat.group)
    if not committed or not revealed:
        raise ProtectionMissing(dispute.id.hex(), dispute.round)


def _stored_commitment(domain: Domain, vote: Vote) -> Digest:
    return sealed(typed_digest(domain, vote), vote.voter, vote.seat_mask)


def is_my_turn(snapshot: Snapshot, policy: MovePolicy) -> bool:
    """Returns whether the group of this verifier makes moves first now. Returns False for an account that is not a verifier."""
    in_line = snapshot.number // policy.turn_blocks % policy.turns
    return any(snapshot.me.pool) and snapshot.me.place % policy.turns == in_line


def verify_bounds(policy: Any, *positive: str) -> None:
    """Checks the integers of a policy, which is a dataclass. The fields named in `positive` must be at least 1, all others at
    least 0.

    A policy is a section of a node's settings file, so a wrong value must stop the start. Raises `ConfigurationError` for a
    wrong value.
    """
    for field in dataclasses.fields(policy):
        value, least = getattr(policy, field.name), int(field.name in positive)
        if value < least:
            raise ConfigurationError(field.name, f"{value}: must be at least {least}")
