"""What to do now: pure functions of a snapshot and what we know, recomputed at each tick.

Nothing is remembered between ticks, so a restart needs no recovery, and an action that the chain already shows is not decided
again. Deadlines are on the protocol clock, which a pause stops; the court takes nothing meanwhile. Seeds are on blocks, which
run on.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

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
from bytewise.protocol.errors.actors import ProtectionMissing
from bytewise.protocol.records.statements import Verdict, Vote
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.units import Address, Digest

Round = tuple[Digest, int]
"""A dispute and one of its rounds."""


@dataclass(frozen=True, slots=True)
class MovePolicy:
    """How eagerly we make moves that anybody may make, and in what portions."""

    turns: int = 4
    """Verifiers are in as many groups, by their place; one group is first in line at a time."""
    turn_blocks: int = 2
    """Blocks for which one group is first in line."""
    overdue: int = 15
    """A move later than this is anybody's; blocks for seeds, seconds of the clock for all others."""
    seats_per_draw: int = 64
    """Seats of one draw transaction: some 14,000 gas each."""
    seats_per_settlement: int = 64
    """Seats of one settlement transaction."""
    collect_above_wei: int = 0
    """Collect credit and unbonded stake from this amount on; 0: never by itself."""


@dataclass(frozen=True, slots=True)
class VotePolicy:
    """When a vote job still makes sense."""

    job_margin_s: int = 3
    """No job starts later than this before the end of the commit phase; seconds of chain time."""
    seed_depth: int = 6
    """Blocks on top of the seed's before a result becomes the vote, unless half of the commit phase is over."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """The answer that a challenger expects to win."""

    key: Digest
    """What the verdict must say (`court.count.key_of`)."""
    salt: Digest
    """Opens its commitment."""


def decide_moves(snapshot: Snapshot, policy: MovePolicy) -> tuple[Action, ...]:
    """Moves that anybody may make: draws, rearming, counting, ending, paying; and collecting what is our own.

    Verifiers take turns by their place in the pool's tree, so that not all pay for one move; who is no verifier helps when it
    is late.
    """
    moves = [(move, late) for case in snapshot.disputes for move, late in _open_moves(snapshot, case, policy)]
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
) -> tuple[Action, ...]:
    """What a seat holder does about its seats. `domain` is `Disputes`; `votes` is the protection table.

    `ProtectionMissing` (a bug: stop) if the chain shows a commitment or vote of ours that is not the table's.
    """
    actions: list[Action] = []
    for case in snapshot.disputes:
        seat = case.seat_of(me)
        if seat is None or case.phase not in (Phase.COMMIT, Phase.REVEAL):
            continue
        vote = votes.get((case.id, case.round))
        _verify_protected(domain, case, seat, vote)
        action = _seat_action(snapshot, domain, case, seat, vote, policy)
        stays_away = case.id in declined and not seat.committed
        busy = isinstance(action, RunVoteJob) and (case.id, case.round) in running
        if action is not None and not stays_away and not busy and not snapshot.paused:
            actions.append(action)
    return tuple(actions)


def decide_challenger(snapshot: Snapshot, me: Address, known: Mapping[Digest, Alternative]) -> tuple[Action, ...]:
    """What a challenger does to get its share: open its commitment once the verdict can no longer be appealed."""
    actions: list[Action] = []
    for case in snapshot.disputes:
        mine = known.get(case.id)
        waiting = case.challenger.account == me and not case.challenger.knew
        won = case.verdict in (Verdict.OVERTURNED, Verdict.INVALID) and mine is not None and mine.key == case.key
        if waiting and won and mine is not None and case.phase is Phase.AIRGAP and snapshot.clock <= case.airgap_end:
            actions.append(OpenAlt(case.id, mine.salt))
    return tuple(actions)


def decide_operator(snapshot: Snapshot, me: Address, batches: Sequence[AnchoredBatch]) -> tuple[Action, ...]:
    """What an operator does about its own batches: answer for lists that were demanded, free collateral that nothing holds."""
    if snapshot.paused:
        return ()
    disputed = {case.batch_id for case in snapshot.disputes if case.phase is not Phase.FINAL}
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
    """Demands for lists that nobody answered in time: anybody may end them, in turns."""
    if snapshot.paused:
        return ()
    over = [(batch, snapshot.clock - batch.list_deadline) for batch in batches if batch.list_demanded]
    mine = is_my_turn(snapshot, policy)
    return tuple(ExpireList(batch.batch_id) for batch, late in over if late > 0 and (mine or late > policy.overdue))


def _open_moves(snapshot: Snapshot, case: Dispute, policy: MovePolicy) -> Iterator[tuple[Action, int]]:
    """The moves that a dispute waits for, and for how long each has been possible at least."""
    if case.phase in (Phase.SEED, Phase.DRAWING):
        yield from _seed_moves(snapshot, case, policy)
    elif snapshot.paused:
        return
    elif case.phase is Phase.REVEAL and case.settleable:
        yield Settle(case.id, case.round), snapshot.clock - case.reveal_end
    elif case.phase is Phase.AIRGAP and snapshot.clock > case.airgap_end:
        if not (case.held and case.verdict in CONVICTIONS):
            yield Finalize(case.id), snapshot.clock - case.airgap_end
    elif case.phase is Phase.FINAL:
        late = snapshot.clock - case.airgap_end
        if case.ended and not case.paid:
            yield PayOut(case.id), late
        for number, each in enumerate(case.rounds, start=1):
            if each.settled < each.seats:
                count = min(policy.seats_per_settlement, each.seats - each.settled)
                yield SettleSeats(case.id, number, each.settled, count), late


def _seed_moves(snapshot: Snapshot, case: Dispute, policy: MovePolicy) -> Iterator[tuple[Action, int]]:
    seed = case.seed
    late = snapshot.number - seed.block
    if seed.lost:
        if not snapshot.paused:
            yield Rearm(case.id, case.round), late
    elif seed.drawable:
        count = min(policy.seats_per_draw, case.seats - case.drawn)
        yield DrawPart(case.id, case.round, case.drawn, count), late


def _collections(snapshot: Snapshot, policy: MovePolicy) -> Iterator[Action]:
    if snapshot.paused or policy.collect_above_wei == 0:
        return
    if snapshot.me.credit_due_wei >= policy.collect_above_wei:
        yield Withdraw(snapshot.me.credit_due_wei)
    if snapshot.me.unbond_due_wei >= policy.collect_above_wei:
        yield FinishUnbond(snapshot.me.unbond_due_wei)


def _seat_action(
    snapshot: Snapshot, domain: Domain, case: Dispute, seat: Seat, vote: Vote | None, policy: VotePolicy
) -> CastCommit | CastReveal | RunVoteJob | None:
    if case.phase is Phase.REVEAL:
        return CastReveal(vote) if vote is not None and any(seat.commitment) else None
    if seat.committed:
        return None
    if vote is not None:
        return CastCommit(vote, typed_digest(domain, vote))
    if snapshot.clock + policy.job_margin_s >= case.commit_end:
        return None
    return RunVoteJob(
        case.id, case.round, case.receipt_id, seat.seat_mask, case.round_seed,
        fetch_deadline=case.commit_end - case.commit_s // 2, commit_end=case.commit_end,
    )  # fmt: skip


def _verify_protected(domain: Domain, case: Dispute, seat: Seat, vote: Vote | None) -> None:
    """Of a commitment the table must have the vote; of a revealed or certified one what it said."""
    committed = not any(seat.commitment) or (vote is not None and _stored_commitment(domain, vote) == seat.commitment)
    revealed = not any(seat.group) or (vote is not None and vote_content(vote).group == seat.group)
    if not committed or not revealed:
        raise ProtectionMissing(case.id.hex(), case.round)


def _stored_commitment(domain: Domain, vote: Vote) -> Digest:
    return sealed(typed_digest(domain, vote), vote.voter, vote.seat_mask)


def is_my_turn(snapshot: Snapshot, policy: MovePolicy) -> bool:
    """Whether our group of verifiers is first in line; never, for who is no verifier."""
    in_line = snapshot.number // policy.turn_blocks % policy.turns
    return any(snapshot.me.pool) and snapshot.me.place % policy.turns == in_line
