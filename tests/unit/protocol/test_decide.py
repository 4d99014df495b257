"""Decisions: nothing too early, nothing twice, nothing that a pause forbids, and always a next move."""

import dataclasses
from collections.abc import Set
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.court.commitments import sealed
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.tally import vote_content
from bytewise.protocol.decisions.actions import (
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
from bytewise.protocol.decisions.disputes import (
    Alternative,
    MovePolicy,
    VotePolicy,
    decide_challenger,
    decide_expiries,
    decide_member,
    decide_moves,
    decide_operator,
)
from bytewise.protocol.decisions.snapshot import AnchoredBatch, Challenger, Dispute, RoundSeats, Seat, Seed
from bytewise.protocol.errors.actors import ProtectionMissing
from bytewise.protocol.records.statements import Outcome, Verdict, Vote
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.units import U8, U16, U256, ZERO_DIGEST, Digest, address
from tests.fixtures.snapshot_builders import BLOCK, NOW, OTHER, case, holdings, snapshot, word

ME = address("0x" + "11" * 20)
DOMAIN = Domain(31337, address("0x" + "33" * 20))
EAGER = MovePolicy(turns=1, overdue=0)
"""Whose turn it always is."""


def vote(mask: int = 0b101, outcome: Outcome = Outcome.EXECUTED) -> Vote:
    executed = outcome is Outcome.EXECUTED
    words = [word(name) if executed else ZERO_DIGEST for name in ("tokens", "trace", "round digest")]
    return Vote(
        dispute=word("dispute"), round=U16(1), voter=ME, seat_mask=U256(mask), outcome=U8(outcome), code=U8(0),
        tokens_hash=words[0], trace_root=words[1], round_digest=words[2], quote_hash=word("quote"), salt=word("salt"),
    )  # fmt: skip


def seat(commitment: Digest = ZERO_DIGEST, group: Digest = ZERO_DIGEST, mask: int = 0b101) -> Seat:
    return Seat(ME, mask, commitment, group)


def committed(cast: Vote) -> Digest:
    return sealed(typed_digest(DOMAIN, cast), ME, cast.seat_mask)


def member(
    one: Dispute,
    votes: dict[tuple[Digest, int], Vote],
    declined: Set[Digest] = frozenset(),
    running: Set[tuple[Digest, int]] = frozenset(),
    paused: bool = False,
) -> tuple[Any, ...]:
    return decide_member(snapshot(one, paused=paused), DOMAIN, ME, votes, declined, running, VotePolicy())


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (Seed(BLOCK + 1, False, False), []),
        (Seed(BLOCK, False, False), []),
        (Seed(BLOCK - 1, False, True), [DrawPart(word("dispute"), 1, 0, 15)]),
        # Over, but its stake epoch is still to come.
        (Seed(BLOCK - 1, False, False), []),
        (Seed(BLOCK - 9, True, False), [Rearm(word("dispute"), 1)]),
    ],
)
def test_seed_is_drawn_or_replaced(seed: Seed, expected: list[object]) -> None:
    assert list(decide_moves(snapshot(case(seed=seed)), EAGER)) == expected


@given(drawn=st.integers(0, 14), portion=st.integers(1, 20))
def test_interrupted_draw_continues(drawn: int, portion: int) -> None:
    one = case(phase=Phase.DRAWING, drawn=drawn, seed=Seed(BLOCK - 1, False, True))
    (move,) = decide_moves(snapshot(one), dataclasses.replace(EAGER, seats_per_draw=portion))
    assert isinstance(move, DrawPart) and move.first == drawn and 1 <= move.count == min(portion, 15 - drawn)


@given(settled=st.lists(st.integers(0, 15), min_size=1, max_size=4), paid=st.booleans(), portion=st.integers(1, 20))
def test_every_party_is_paid_after_the_end_exactly_once(settled: list[int], paid: bool, portion: int) -> None:
    rounds = tuple(RoundSeats(15, each) for each in settled)
    one = case(phase=Phase.FINAL, airgap_end=NOW - 1, ended=True, paid=paid, rounds=rounds)
    moves = decide_moves(snapshot(one), dataclasses.replace(EAGER, seats_per_settlement=portion))
    assert (PayOut(one.id) in moves) is not paid
    due = [SettleSeats(one.id, n, s, min(portion, 15 - s)) for n, s in enumerate(settled, start=1) if s < 15]
    assert [each for each in moves if isinstance(each, SettleSeats)] == due


@given(late=st.integers(-20, 20), verdict=st.sampled_from(Verdict), held=st.booleans())
def test_dispute_ends_after_its_airgap_and_convictions_only_if_not_frozen(late: int, verdict: Verdict, held: bool) -> None:
    one = case(phase=Phase.AIRGAP, airgap_end=NOW - late, verdict=verdict, held=held)
    waits = late <= 0 or (held and verdict in (Verdict.OVERTURNED, Verdict.INVALID, Verdict.UNAVAILABLE))
    assert decide_moves(snapshot(one), EAGER) == (() if waits else (Finalize(one.id),))


@given(settleable=st.booleans(), phase=st.sampled_from([Phase.COMMIT, Phase.REVEAL]))
def test_round_is_counted_when_the_court_allows_it(settleable: bool, phase: Phase) -> None:
    one = case(phase=phase, commit_end=NOW - 50, reveal_end=NOW - 20, settleable=settleable and phase is Phase.REVEAL)
    assert decide_moves(snapshot(one), EAGER) == ((Settle(one.id, 1),) if one.settleable else ())


@given(
    phase=st.sampled_from(Phase),
    seed=st.builds(Seed, st.integers(BLOCK - 20, BLOCK + 20), st.booleans(), st.booleans()),
    settleable=st.booleans(),
    airgap_end=st.integers(NOW - 20, NOW + 20),
)
def test_seats_are_drawn_while_the_protocol_clock_is_paused(phase: Phase, seed: Seed, settleable: bool, airgap_end: int) -> None:
    one = case(phase=phase, seed=seed, settleable=settleable, airgap_end=airgap_end, ended=True)
    me = holdings(credit_due_wei=5, unbond_due_wei=5)
    policy = dataclasses.replace(EAGER, collect_above_wei=1)
    moves = decide_moves(snapshot(one, paused=True, me=me), policy)
    assert all(isinstance(move, DrawPart) for move in moves)
    going = decide_moves(snapshot(one), policy)
    assert moves == tuple(move for move in going if isinstance(move, DrawPart)), "as if it went on"


@given(place=st.integers(0, 99), number=st.integers(0, 10**6), turns=st.integers(1, 8), blocks=st.integers(1, 5))
def test_each_verifier_has_its_turn_and_outsiders_have_none(place: int, number: int, turns: int, blocks: int) -> None:
    policy = MovePolicy(turns=turns, turn_blocks=blocks, overdue=10**9)
    over = case(phase=Phase.AIRGAP, airgap_end=NOW - 1)
    seen = [
        bool(decide_moves(snapshot(over, number=number + step, me=holdings(place=place)), policy))
        for step in range(turns * blocks)
    ]
    assert sum(seen) == blocks
    assert decide_moves(snapshot(over, me=holdings(pool=ZERO_DIGEST)), policy) == ()
    assert decide_moves(snapshot(over, me=holdings(pool=ZERO_DIGEST)), dataclasses.replace(policy, overdue=0)) != ()


@given(credit=st.integers(0, 10), stake=st.integers(0, 10), above=st.integers(0, 10))
def test_money_is_collected_above_a_minimum(credit: int, stake: int, above: int) -> None:
    policy = dataclasses.replace(EAGER, collect_above_wei=above)
    moves = decide_moves(snapshot(me=holdings(credit_due_wei=credit, unbond_due_wei=stake)), policy)
    assert (Withdraw(credit) in moves) == (0 < above <= credit)
    assert (FinishUnbond(stake) in moves) == (0 < above <= stake)


def test_a_member_judges_commits_and_reveals_each_once() -> None:
    cast = vote()
    table = {(cast.dispute, 1): cast}
    commit = {"phase": Phase.COMMIT, "commit_end": NOW + 50, "reveal_end": NOW + 80}
    fresh = case(members=(seat(),), **commit)
    (job,) = member(fresh, {})
    assert isinstance(job, RunVoteJob) and (job.seat_mask, job.fetch_deadline, job.commit_end) == (0b101, NOW + 20, NOW + 50)
    assert member(fresh, {}, running={(fresh.id, 1)}) == () and member(fresh, {}, declined={fresh.id}) == ()
    assert member(fresh, table) == (CastCommit(cast, typed_digest(DOMAIN, cast)),)
    assert member(fresh, table, paused=True) == ()
    done = case(members=(seat(committed(cast)),), **commit)
    assert member(done, table) == ()
    reveal = dataclasses.replace(done, phase=Phase.REVEAL)
    assert member(reveal, table) == (CastReveal(cast),)
    # Who declined after it had committed still reveals.
    assert member(reveal, table, declined={reveal.id}) == (CastReveal(cast),)
    said = case(members=(seat(group=vote_content(cast).group),), phase=Phase.REVEAL)
    assert member(said, table) == ()


def test_job_that_cannot_end_in_time_is_not_started() -> None:
    late = case(members=(seat(),), phase=Phase.COMMIT, commit_end=NOW + 3)
    assert member(late, {}) == ()


@pytest.mark.parametrize("shown", [seat(word("foreign")), seat(group=word("foreign")), seat(committed(vote(0b1)))])
def test_own_vote_missing_in_the_protection_table_stops_the_member(shown: Seat) -> None:
    one = case(members=(shown,), phase=Phase.REVEAL)
    for table in ({}, {(word("dispute"), 1): vote()}):
        with pytest.raises(ProtectionMissing):
            member(one, table)


@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize("phase", Phase)
def test_challenger_reveals_its_knowledge_when_it_pays(verdict: Verdict, phase: Phase) -> None:
    mine = Alternative(word("key"), word("salt"))
    one = case(phase=phase, verdict=verdict, key=mine.key, airgap_end=NOW, challenger=Challenger(ME, False))
    due = phase is Phase.AIRGAP and verdict in (Verdict.OVERTURNED, Verdict.INVALID)
    shown = decide_challenger(snapshot(one), ME, {one.id: mine})
    assert shown == ((OpenAlt(one.id, mine.salt),) if due else ())
    for other in (
        dataclasses.replace(one, key=word("another")),
        dataclasses.replace(one, airgap_end=NOW - 1),
        dataclasses.replace(one, challenger=Challenger(ME, True)),
        dataclasses.replace(one, challenger=Challenger(OTHER, False)),
    ):
        assert decide_challenger(snapshot(other), ME, {one.id: mine}) == ()
    assert decide_challenger(snapshot(one), ME, {}) == ()


BATCH = AnchoredBatch(1, ME, 1, 1, NOW - 1, False, False, False, 0)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (BATCH, [ReleaseBatch(1)]),
        (dataclasses.replace(BATCH, window_end=NOW), []),
        (dataclasses.replace(BATCH, released=True), []),
        (dataclasses.replace(BATCH, operator=OTHER), []),
        (dataclasses.replace(BATCH, list_demanded=True, list_deadline=NOW), [AnswerList(1, NOW)]),
        (dataclasses.replace(BATCH, list_demanded=True, list_deadline=NOW - 1), []),
        (dataclasses.replace(BATCH, operator=OTHER, list_demanded=True, list_deadline=NOW), []),
    ],
)
def test_operator_answers_for_its_lists_and_frees_its_collateral(batch: AnchoredBatch, expected: list[object]) -> None:
    assert list(decide_operator(snapshot(), ME, [batch])) == expected
    assert decide_operator(snapshot(paused=True), ME, [batch]) == ()


def test_a_disputed_batch_stays_bound() -> None:
    open_case = case(batch_id=BATCH.batch_id)
    assert decide_operator(snapshot(open_case), ME, [BATCH]) == ()
    assert decide_operator(snapshot(dataclasses.replace(open_case, phase=Phase.FINAL, ended=True)), ME, [BATCH]) == (
        ReleaseBatch(1),
    )


@given(late=st.integers(-20, 20))
def test_unanswered_demand_expires(late: int) -> None:
    demanded = dataclasses.replace(BATCH, list_demanded=True, list_deadline=NOW - late)
    assert decide_expiries(snapshot(), [demanded, BATCH], EAGER) == ((ExpireList(1),) if late > 0 else ())
    assert decide_expiries(snapshot(paused=True), [demanded], EAGER) == ()
