"""Replay of disputes: unchanged parameters give the chain's result, and a bounded result contains the true one."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.court.settlement import CONVICTIONS, PAID, Pot, SeatOutcome, split
from bytewise.protocol.court.tally import MISSING, Count, VoteContent, judge, key_of
from bytewise.protocol.economics.past_disputes import FLOWS, DisputeMoney, PastDispute, PastRound, Range, SeatCharge, VoteGroup
from bytewise.protocol.economics.replay import ReplayKind, possible_verdicts, replay, within_reach
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Outcome, Verdict
from tests.fixtures.court.builders import params, word

CLAIM, OTHER, DEFECT = (word("replay", name) for name in ("claim", "other", "defect"))
KEYS = {
    "claim": key_of(Outcome.EXECUTED, 0, CLAIM), "other": key_of(Outcome.EXECUTED, 0, OTHER),
    "defect": key_of(Outcome.INVALID, 4, DEFECT), "missing": MISSING,
}  # fmt: skip
VOTES = ("claim", "other", "defect", "missing", "no key", "cannot", "hidden", "absent")


def counted(votes: Sequence[str]) -> PastRound:
    """A round of level 1 with these votes."""
    of = {each: votes.count(each) for each in VOTES}
    name = "other" if of["other"] >= of["defect"] else "defect"
    verdict = {"other": Verdict.OVERTURNED, "defect": Verdict.INVALID}[name] if of[name] else Verdict.NONE
    kinds = {"claim": Outcome.EXECUTED, "other": Outcome.EXECUTED, "defect": Outcome.INVALID, "missing": Outcome.UNAVAILABLE}
    groups = tuple(VoteGroup(kind, KEYS[each], of[each]) for each, kind in kinds.items() if of[each])
    return PastRound(
        1, len(votes), True, Verdict.NONE, of["claim"], of[name], KEYS[name], verdict, of["missing"], of["no key"], of["cannot"],
        of["hidden"], of["absent"], 0, groups,
    )  # fmt: skip


def judged(r: PastRound, quorum: int) -> Verdict:
    """What the tally says."""
    outcome = Outcome.INVALID if r.lead_verdict is Verdict.INVALID else Outcome.EXECUTED
    lead = VoteContent(outcome, 0, CLAIM, OTHER, r.lead_key) if r.lead else None
    return judge(Count(r.equal, r.lead, r.unavailable, r.no_key, r.cannot_execute, lead), CLAIM, quorum).verdict


def ended(votes: Sequence[str], p: ParamSet, stake: int, knew: bool) -> PastDispute:
    """A dispute of one level, as the court ends it; its operator has `stake`."""
    r = counted(votes)
    quorum = p.quorum(len(votes))
    found = judged(r, quorum)
    verdict = Verdict.DRAW if found is Verdict.NONE else found
    right = {
        Verdict.UPHELD: {"claim"}, Verdict.OVERTURNED: {"other"}, Verdict.INVALID: {"defect"}, Verdict.UNAVAILABLE: {"missing"},
    }  # fmt: skip
    names = right.get(verdict, set())
    if verdict is Verdict.UNAVAILABLE and r.unavailable < quorum:
        names = names | {"other" if r.lead_verdict is Verdict.OVERTURNED else "defect"}
    treated = [_outcome(each, names, verdict) for each in votes]
    seats = sum(each in PAID for each in treated)
    slashed = min(stake, p.money.slash_amount) if verdict in CONVICTIONS else 0
    pot = Pot(p.required_bond, 0, 0, slashed, seats, False, knew)
    s = split(verdict, pot, p)
    m = p.money
    rates = {
        SeatOutcome.ABSENT: m.absent_penalty,
        SeatOutcome.NOT_REVEALED: m.no_reveal_penalty,
        SeatOutcome.WRONG: m.wrong_penalty,
    }
    charges = tuple(SeatCharge(rates.get(each, 0), (each,)) for each in treated)
    out = s.bond_back + s.alpha + s.to_operator + s.per_seat * seats
    money = DisputeMoney(
        pot.bond, 0, 0, slashed, s.bond_back + s.alpha, 0, s.to_operator, s.per_seat * seats, 0, pot.total - out,
        sum(each.taken for each in charges),
    )  # fmt: skip
    locked = min(stake, p.money.slash_amount)
    return PastDispute(p, verdict, (replace(r, verdict=found),), Verdict.NONE, knew, seats, locked, False, charges, money)


def _outcome(vote: str, right: set[str], verdict: Verdict) -> SeatOutcome:
    if verdict is Verdict.DRAW:
        return SeatOutcome.NEUTRAL
    fixed = {
        "no key": SeatOutcome.NEUTRAL,
        "cannot": SeatOutcome.ABSENT,
        "hidden": SeatOutcome.NOT_REVEALED,
        "absent": SeatOutcome.ABSENT,
    }
    return fixed.get(vote) or (SeatOutcome.RIGHT if vote in right else SeatOutcome.WRONG)


def one_level(seats: int, tau: tuple[int, int] = (2, 3), slash: int = 1000, fee: int = 11) -> ParamSet:
    """Parameters with one round, which is never run again."""
    p = params((seats, 0, 0), 1)
    committee = replace(p.committee, max_reruns=0, tau_num=tau[0], tau_den=tau[1])
    return replace(p, committee=committee, money=replace(p.money, slash_amount=slash, fee_per_seat=fee))


def holds(found: Range, amount: int) -> bool:
    """Whether a range has an amount."""
    return found.low <= amount <= found.high


votes_of = st.integers(1, 12).flatmap(lambda half: st.lists(st.sampled_from(VOTES), min_size=2 * half + 1, max_size=2 * half + 1))
biased = st.tuples(st.sampled_from(VOTES[:4]), st.integers(0, 20), votes_of).map(lambda of: [*of[2], *[of[0]] * (of[1] * 2)])


@given(biased, st.integers(0, 2000), st.booleans())
def test_unchanged_parameters_replay_to_the_wei(votes: list[str], stake: int, knew: bool) -> None:
    past = ended(votes, one_level(len(votes)), stake, knew)
    found = replay(past, past.params)
    assert (found.kind, found.verdicts) == (ReplayKind.RECOMPUTED, (past.verdict,))
    assert {name: (each.low, each.high) for name, each in found.money.items()} == {
        name: (getattr(past.money, name),) * 2 for name in FLOWS
    }


@given(
    biased, st.integers(0, 2000), st.booleans(), st.integers(0, 3000), st.integers(0, 100),
    st.sampled_from([(3, 4), (4, 5), (1, 1)]),
)  # fmt: skip
def test_other_slash_fee_and_quorum_contain_the_true_result(
    votes: list[str], stake: int, knew: bool, slash: int, fee: int, tau: tuple[int, int]
) -> None:
    past = ended(votes, one_level(len(votes)), stake, knew)
    p = one_level(len(votes), tau, slash, fee)
    truth, found = ended(votes, p, stake, knew), replay(past, p)
    assert found.verdicts == (truth.verdict,) and found.kind is ReplayKind.RECOMPUTED
    for name in FLOWS:
        assert holds(found.money[name], getattr(truth.money, name)), name


@given(biased, st.integers(-10, 10), st.integers(0, 2000), st.booleans(), st.data())
def test_other_committee_contains_the_true_result(
    votes: list[str], more: int, stake: int, knew: bool, data: st.DataObject
) -> None:
    size = max(3, len(votes) + 2 * more)
    extra = max(0, size - len(votes))
    added = data.draw(st.lists(st.sampled_from(VOTES), min_size=extra, max_size=extra))
    past, p = ended(votes, one_level(len(votes)), stake, knew), one_level(size)
    truth, found = ended([*votes, *added][:size], p, stake, knew), replay(past, p)
    assert truth.verdict in found.verdicts
    for name in FLOWS:
        assert holds(found.money[name], getattr(truth.money, name)), name


def test_pay_of_a_seat_count_between_the_ends_is_within_the_range() -> None:
    """Of five wei no seat gets one if none or seven are paid; with five paid seats, which is the truth, each gets one."""
    votes = ["no key", "defect", "missing", "defect", "other", *["defect"] * 4]
    past, p = ended(votes, one_level(9), 7, knew=False), one_level(7)
    truth, found = ended(votes[:7], p, 7, knew=False), replay(past, p)
    assert (truth.verdict, truth.money.to_verifiers) == (Verdict.UNAVAILABLE, 5)
    assert truth.verdict in found.verdicts and holds(found.money["to_verifiers"], 5)


@given(biased, st.integers(1, 60))
def test_same_committee_has_one_possible_verdict(votes: list[str], quorum: int) -> None:
    r, quorum = counted(votes), max(len(votes) // 2 + 1, min(quorum, len(votes)))
    assert possible_verdicts(r, len(votes), quorum) == {judged(r, quorum)}


def test_larger_slash_is_bounded_unless_the_stake_was_exhausted() -> None:
    votes = ["other"] * 15
    rich, poor = (ended(votes, one_level(15), stake, knew=True) for stake in (1000, 400))
    assert replay(rich, one_level(15, slash=3000)).money["slashed"] == Range(1000, 3000)
    assert replay(poor, one_level(15, slash=3000)).money["slashed"] == Range(400, 400)
    assert replay(replace(poor, locked=1000), one_level(15, slash=3000)).money["slashed"] == Range(400, 3000)


def test_quorum_by_hand_turns_a_draw_into_a_conviction() -> None:
    past = ended(["other"] * 9 + ["claim"] * 6, one_level(15), 1000, knew=False)
    assert past.verdict is Verdict.DRAW
    found = replay(past, one_level(15, tau=(3, 5)))
    assert found.verdicts == (Verdict.OVERTURNED,) and found.money["slashed"] == Range(1000, 1000)
    # Beta is 400, the fees of nine seats 99: 55 for each of nine.
    assert found.money["to_verifiers"].high >= 495 >= found.money["to_verifiers"].low


@pytest.mark.parametrize(
    ("recorded", "old", "new", "found"),
    [(5, 5, 5, Range(5, 5)), (5, 5, 3, Range(3, 3)), (5, 5, 9, Range(5, 9)), (4, 5, 9, Range(4, 4)), (0, 0, 2, Range(0, 2))],
)
def test_amount_is_within_reach(recorded: int, old: int, new: int, found: Range) -> None:
    assert within_reach(recorded, old, new) == found


def test_parameters_without_a_quorum_are_refused() -> None:
    past = ended(["claim"] * 3, one_level(3), 1000, knew=False)
    for tau in ((1, 2), (4, 3), (1, 0)):
        with pytest.raises(MalformedValue):
            replay(past, one_level(3, tau))
