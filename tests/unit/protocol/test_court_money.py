"""Money of a dispute's end for any pot whatever: conserved, bounded, and as the table of design section 9 says."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.court.params import BPS, Money, ParamSet, RewardShares
from bytewise.protocol.court.settlement import CONVICTIONS, Pot, Split, split, wanted_advance
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Verdict
from tests.fixtures.court.builders import params

WEI = st.integers(0, 10**24)
SMALL = st.integers(0, 400)
ENDS = [Verdict.UPHELD, *sorted(CONVICTIONS), Verdict.DRAW, Verdict.REFUNDED]


@st.composite
def parameters(draw: st.DrawFn) -> ParamSet:
    alpha = draw(st.integers(0, 8000))
    shares = RewardShares(alpha, draw(st.integers(0, 8000 - alpha)), draw(st.integers(0, 5000)), 0, 0, 1)
    return replace(params(), shares=shares, money=replace(params().money, fee_per_seat=draw(st.integers(0, 10**18))))


@st.composite
def pots(draw: st.DrawFn) -> Pot:
    return Pot(draw(WEI), draw(WEI), draw(WEI), draw(WEI), draw(SMALL), draw(st.booleans()), draw(st.booleans()))


def ended(verdict: Verdict, pot: Pot, p: ParamSet) -> tuple[Pot, Split]:
    """As `payment.end` asks: a slash of whom the verdict convicts, seats that it pays, a further advance, the split."""
    slashed = min(pot.slashed, p.money.slash_amount) if verdict in CONVICTIONS else 0
    pot = replace(pot, slashed=slashed, seats=0 if verdict is Verdict.DRAW else pot.seats)
    pot = replace(pot, advanced=pot.advanced + wanted_advance(verdict, pot, p) // 2)
    return pot, split(verdict, pot, p)


def outlets(pot: Pot, s: Split) -> int:
    return s.bond_back + s.alpha + s.to_appellant + s.to_operator + s.per_seat * pot.seats + s.repaid


@given(st.sampled_from(ENDS), pots(), parameters())
def test_court_pays_no_more_than_it_has(verdict: Verdict, pot: Pot, p: ParamSet) -> None:
    pot, s = ended(verdict, pot, p)
    assert min(s.bond_back, s.alpha, s.to_appellant, s.to_operator, s.per_seat, s.repaid) >= 0
    assert outlets(pot, s) <= pot.total and s.repaid <= pot.advanced


@given(st.sampled_from(sorted(CONVICTIONS)), pots(), parameters())
def test_a_fifth_of_every_slash_is_burned(verdict: Verdict, pot: Pot, p: ParamSet) -> None:
    pot, s = ended(verdict, pot, p)
    assert (pot.total - outlets(pot, s)) * 5 >= pot.slashed
    assert s.bond_back == pot.bond
    if verdict is Verdict.UNAVAILABLE or not pot.knew:
        assert s.alpha == 0
    else:
        assert s.alpha == pot.slashed * p.shares.alpha_bps // BPS


@given(st.sampled_from(ENDS), pots(), parameters())
def test_appeal_bond_is_returned_unless_the_appeal_was_lost(verdict: Verdict, pot: Pot, p: ParamSet) -> None:
    _, s = ended(verdict, pot, p)
    free = verdict in (Verdict.DRAW, Verdict.REFUNDED)
    assert s.to_appellant == (pot.appeal_bond if pot.appellant_won or free else 0)


@given(pots(), parameters())
def test_losing_party_pays_the_committee_before_others_earn(pot: Pot, p: ParamSet) -> None:
    pot, s = ended(Verdict.UPHELD, pot, p)
    if pot.seats and s.per_seat < p.money.fee_per_seat:
        assert s.repaid + s.to_operator < pot.seats, "dust"
    assert s.to_operator == 0 or s.repaid == pot.advanced
    assert 2 * s.to_operator <= pot.bond + pot.lost_appeal


@given(pots(), parameters())
def test_draw_pays_nothing_and_burns_the_fee_of_a_seat(pot: Pot, p: ParamSet) -> None:
    pot, s = ended(Verdict.DRAW, pot, p)
    assert (s.per_seat, s.to_operator, s.alpha, s.repaid) == (0, 0, 0, pot.advanced)
    assert pot.bond - s.bond_back == pot.total - outlets(pot, s) == min(p.money.fee_per_seat, pot.bond)


@given(pots(), parameters())
def test_refund_returns_every_party_its_own(pot: Pot, p: ParamSet) -> None:
    pot, s = ended(Verdict.REFUNDED, pot, p)
    assert (s.bond_back, s.to_appellant, pot.slashed, s.to_operator) == (pot.bond, pot.appeal_bond, 0, 0)
    assert pot.total == outlets(pot, s), "nothing is burned"
    assert s.per_seat <= p.money.fee_per_seat


@pytest.mark.parametrize(
    ("verdict", "pot", "want"),
    [
        (Verdict.UPHELD, Pot(100, 0, 20, 0, 5, False, False), Split(0, 0, 0, 22, 11, 20)),
        (Verdict.OVERTURNED, Pot(100, 40, 20, 1000, 5, True, True), Split(100, 300, 40, 0, 91, 20)),
        (Verdict.UNAVAILABLE, Pot(100, 0, 0, 1000, 5, False, True), Split(100, 0, 0, 0, 91, 0)),
        (Verdict.DRAW, Pot(100, 40, 20, 0, 0, False, True), Split(89, 0, 40, 0, 0, 20)),
        (Verdict.REFUNDED, Pot(100, 40, 60, 0, 5, True, True), Split(100, 0, 40, 0, 11, 5)),
    ],
)
def test_examples_computed_manually_agree(verdict: Verdict, pot: Pot, want: Split) -> None:
    """Five seats of 11 wei; α 30 %, β 40 %, the operator half of the rest."""
    money: Money = params().money
    assert (money.fee_per_seat, params().shares.operator_share_bps) == (11, 5000)
    assert split(verdict, pot, params()) == want


def test_a_dispute_does_not_end_without_a_verdict() -> None:
    with pytest.raises(MalformedValue):
        split(Verdict.NONE, Pot(1, 0, 0, 0, 0, False, False), params())
