"""What attention tests cost, and how long a member that checks nothing passes them."""

import math
import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.attention.schedule import RATE_UNIT, AttentionTerms
from bytewise.protocol.court.params import BPS
from bytewise.protocol.court.settlement import CONVICTIONS, Pot, split
from bytewise.protocol.economics.attention import UNLIKELY, FundTerms, count_until, fund_plan, pass_chance, tail_chance
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import U64, U256, ZERO_ADDRESS
from chain.deployment.params import DEVNET, ETHER

TERMS = FundTerms(5_000, 1_000.0, 208 * ETHER, 0.0, 0.99)


def changed(**fields: Any) -> FundTerms:
    """The terms with these changes."""
    return FundTerms(*(fields.get(name, getattr(TERMS, name)) for name in TERMS.__slots__))


@given(st.integers(1, 60), st.integers(1, RATE_UNIT), st.data())
def test_tail_is_the_binomial_one(count: int, rate: int, data: st.DataObject) -> None:
    drawn, p = data.draw(st.integers(0, count)), Fraction(rate, RATE_UNIT)
    terms = AttentionTerms(U256(1), ZERO_ADDRESS, U64(2), U64(count + 1), rate)
    outwards = range(drawn, count + 1) if drawn >= count * p else range(drawn + 1)
    exact = sum(math.comb(count, n) * p**n * (1 - p) ** (count - n) for n in outwards)
    assert tail_chance(terms, drawn) == pytest.approx(float(exact), rel=1e-6, abs=1e-300)


def test_ground_key_is_unlikely_and_an_honest_one_is_not() -> None:
    """Announced 1 % of 32 receipts: among some hundred thousand keys is one that draws 7."""
    small = AttentionTerms(U256(1), ZERO_ADDRESS, U64(9), U64(40), 10_000)
    large = AttentionTerms(U256(1), ZERO_ADDRESS, U64(1), U64(1_000_000), 100)
    assert [tail_chance(small, n) < UNLIKELY for n in (0, 1, 2, 4, 7)] == [False, False, False, True, True]
    assert [tail_chance(large, n) < UNLIKELY for n in (0, 60, 90, 100, 115, 140)] == [True, True, False, False, False, True]


def test_plan_of_a_fund_by_hand() -> None:
    plan = fund_plan(DEVNET, [1, 0], TERMS)
    assert (plan.tests, plan.slash, plan.cost) == (5.0, 8 * ETHER, 40.0 * ETHER)
    assert plan.burned == pytest.approx(5 * 2.385 * ETHER), "of 8 ETH: 30 % to the challenger, 40 % and 15 fees to the seats"
    assert (plan.affordable, plan.lasts, plan.most_rate_ppm) == (25, 5.0, 25_000)
    drawn, never = plan.members
    assert (drawn.drawn, drawn.tests, drawn.passes_day) == (0.9, 4.5, pytest.approx(0.1**5))
    assert drawn.days == pytest.approx(2 / 5), "two tests, each passed with 0.1, leave 1 %"
    assert (never.drawn, never.passes_day, never.days) == (0.0, 1.0, math.inf)


@given(st.integers(DEVNET.quorum(DEVNET.seats(1)), DEVNET.seats(1)), st.booleans(), st.sampled_from(sorted(CONVICTIONS)))
def test_first_round_conviction_burns_what_the_plan_says_or_more(right: int, knew: bool, verdict: Verdict) -> None:
    plan = fund_plan(DEVNET, [1], TERMS)
    pot = Pot(DEVNET.required_bond, 0, 0, plan.slash, right, appellant_won=False, knew=knew)
    parts = split(verdict, pot, DEVNET)
    paid = parts.bond_back + parts.alpha + parts.to_appellant + parts.to_operator + parts.per_seat * right + parts.repaid
    assert paid + plan.burned / plan.tests <= pot.total + 10
    if right == DEVNET.seats(1) and knew and verdict is not Verdict.UNAVAILABLE:
        assert plan.burned == pytest.approx(plan.tests * (pot.total - paid))


def test_largest_rate_uses_the_stake_in_a_day() -> None:
    plan = fund_plan(DEVNET, [1], TERMS)
    at_most = fund_plan(DEVNET, [1], changed(rate_ppm=plan.most_rate_ppm))
    assert at_most.lasts >= 1 > fund_plan(DEVNET, [1], changed(rate_ppm=plan.most_rate_ppm + 100)).lasts


@given(st.integers(0, 40), st.floats(0, 0.99), st.integers(1, 1_000_000))
def test_member_that_checks_more_passes_longer(seats: int, checked: float, rate: int) -> None:
    lazy, better = (
        fund_plan(DEVNET, [seats], changed(checked=share, rate_ppm=rate)).members[0] for share in (0.0, checked)
    )  # fmt: skip
    assert better.passes_day >= lazy.passes_day and better.days >= lazy.days and better.tests == lazy.tests


def test_pass_chance_agrees_with_a_simulation() -> None:
    dice, tests, fails, runs = random.Random(7), 12, 0.1, 20_000
    passed = sum(all(dice.random() >= fails for _ in range(tests)) for _ in range(runs)) / runs
    expected = pass_chance(tests, fails)
    assert abs(passed - expected) < 5 * math.sqrt(expected * (1 - expected) / runs)


@given(st.floats(0.01, 0.999), st.floats(0.001, 0.999))
def test_after_so_many_tests_the_chance_is_reached(sure: float, fails: float) -> None:
    tests = count_until(sure, fails)
    assert pass_chance(tests, fails) <= 1 - sure + 1e-9


def test_chance_to_be_drawn_is_at_most_one() -> None:
    seats = 2 * BPS // DEVNET.shares.audit_rate_bps
    assert fund_plan(DEVNET, [seats], TERMS).members[0].drawn == 1.0 and pass_chance(3, 1.0) == 0.0 and count_until(0.9, 1) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"rate_ppm": 0}, {"rate_ppm": 1_000_001}, {"per_day": 0.0}, {"per_day": math.inf}, {"per_day": math.nan}, {"stake": -1},
        {"per_day": 1e-310}, {"per_day": 1e308}, {"stake": 2**128},
        {"checked": 1.0}, {"checked": -0.1}, {"checked": math.nan}, {"sure": 0.0}, {"sure": 1.0},
    ],
)  # fmt: skip
def test_terms_outside_their_bounds_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(MalformedValue, match=f"malformed {next(iter(fields))}: must"):
        changed(**fields)
