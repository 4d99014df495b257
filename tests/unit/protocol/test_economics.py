"""Formulas of the economics console: vectors computed by hand, limits, directions, and a wrong sign in each line is found."""

import ast
import importlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.economics import chances, incentives, scenario
from bytewise.protocol.errors.records import MalformedValue
from chain.deployment.params import DEVNET, ETHER

HALF, FIFTH = Fraction(1, 2), Fraction(1, 5)


def changed(part: str, **values: Any) -> ParamSet:
    """The devnet's parameters with some values of a part replaced."""
    return replace(DEVNET, **{part: replace(getattr(DEVNET, part), **values)})


def close(found: float, wanted: float) -> None:
    """Equal up to rounding of floats."""
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-15)


# --- vectors by hand ---


def check_deterrence(m: Any) -> None:
    """S = 10, α = 30 %, β = 40 %; a = 1 and h = 1/2 leave 1 - 0.3 - 0.2 of the slash."""
    close(m.effective_slash(10, 3000, 4000, 1, 0.5), 5)
    close(m.effective_slash(10, 3000, 5000, 1, 1), 2)
    close(m.punished_chance(0.5, 0.2, 0.9), (1 - 0.5 * 0.8) * 0.9)
    close(m.break_even_chance(2, 8), 0.2)
    assert m.break_even_chance(0, 8) == 0
    close(m.margin(0.25, 2, 8), 0.5)
    close(m.largest_gain(0.2, 8), 2)
    found = m.deterrence(0.5, 0.2, 0.9, 8, 2)
    close(found.margin, 0.54 * 8 - 0.46 * 2)
    close(found.largest_gain, 8 * 0.54 / 0.46)
    assert (found.break_even, m.largest_gain(1, 8), m.largest_gain(1, 0)) == (0.2, math.inf, 0)


def check_chances(m: Any) -> None:
    """Three seats with quorum 2: P(quorum) = 3h²(1 - h) + h³."""
    level = m.Level(3, 2)
    assert m.quorum_chance(level, FIFTH) == Fraction(13, 125)
    one = m.round_chances(level, m.Population(FIFTH, Fraction(1, 4)))
    # Hostile 1/5, absent 1/5, honest 3/5: taken 13/125, kept 3 · 9/25 · 2/5 + 27/125 = 81/125.
    close(one.taken, 13 / 125)
    close(one.kept, 81 / 125)
    close(one.stalled, 31 / 125)
    # The better of two seeds: taken 1 - (112/125)², kept (81/125)².
    two = m.round_chances(level, m.Population(FIFTH, Fraction(1, 4), 2))
    close(two.taken, 1 - (112 / 125) ** 2)
    close(two.kept, (81 / 125) ** 2)
    close(two.taken + two.kept + two.stalled, 1)
    both = m.chances_by_quorum((level, level), m.Population(FIFTH, Fraction(1, 4)))
    close(both.honest_slashed, 13 / 125 + 31 / 125 * 13 / 125)
    close(both.fraud_passes, both.honest_slashed)
    close(both.void, (31 / 125) ** 2)
    close(both.rounds, 1 + 31 / 125)
    close(both.convicted, 1 - both.fraud_passes - both.void)
    paper = m.chances_by_paper_rule(level, m.Population(FIFTH, Fraction(1, 4)))
    close(paper.honest_slashed, 44 / 125)
    assert (paper.fraud_passes, paper.void, paper.rounds) == (pytest.approx(13 / 125), 0, 1)
    all_absent = m.round_chances(level, m.Population(Fraction(0), Fraction(1)))
    assert (all_absent.taken, all_absent.stalled, all_absent.kept) == (0, 1, 0)
    assert m.round_chances(level, m.Population(Fraction(1))).taken == 1
    assert m.levels_of(DEVNET) == (m.Level(15, 10), m.Level(31, 21))
    check_audits(m)
    check_capture(m)


def check_audits(m: Any) -> None:
    """Auditors: 50, 90 and 99 % need 1.68, 3.89 and 6.64 of them on average if two must agree, else 0.69, 2.30 and 4.61."""
    close(m.auditors_at_least(1.0, 2), 1 - 2 / math.e)
    close(m.auditors_at_least(1.0, 1), 1 - 1 / math.e)
    needed = [round(m.mean_auditors_for(chance, count), 2) for count in (2, 1) for chance in (0.5, 0.9, 0.99)]
    assert needed == [1.68, 3.89, 6.64, 0.69, 2.30, 4.61]
    assert (m.drawn_chance(2500, 2), m.drawn_chance(9000, 2)) == (0.5, 1)
    # Two verifiers at 1/2 and one at 1/4: none 3/16, one 7/16, two 5/16, three 1/16.
    count = m.auditor_count(2500, [2, 1, 2])
    assert (count.start, count.masses) == (0, pytest.approx([3 / 16, 7 / 16, 5 / 16, 1 / 16], rel=1e-12))
    close(count.mean(), 1.25)
    close(count.at_least(2), 6 / 16)
    sure = m.auditor_count(9000, [2, 2, 2])
    assert (sure.start, sure.masses, sure.at_least(2), sure.at_least(4), sure.mean()) == (3, (1.0,), 1, 0, 3)
    mixed = m.auditor_count(5000, [2, 3, 2])
    assert (mixed.start, mixed.masses) == (3, (1.0,))
    # Of ten at 0.9999, four or fewer come with less than 10⁻²¹, which is left out.
    many = m.auditor_count(9999, [1] * 10)
    assert (many.start, len(many.masses)) == (5, 6)
    close(many.at_least(10), 0.9999**10)
    # Against one hostile auditor at 1/2: two honest ones do if there is none or one, three always.
    hostile = m.auditor_count(5000, [1])
    close(m.audits_convince(count, hostile, 2), 6 / 16)
    # Against two that always come, three are needed.
    close(m.audits_convince(count, m.auditor_count(5000, [2, 2]), 2), 1 / 16)
    close(m.audits_convince(count, m.auditor_count(5000, [2, 2, 1]), 2), 1 / 32)
    assert m.auditor_count(2500, []).at_least(1) == 0


def check_capture(m: Any) -> None:
    """A quorum of two of three: 3h² - 2h³ ≥ 1/2 from h = 1/2 on."""
    level = (m.Level(3, 2),)
    people = m.Population(FIFTH, Fraction(1, 4))
    close(m.success(m.Aim.CONTROL, level, people), 13 / 125)
    close(m.success(m.Aim.STALL, level, people), 44 / 125)
    assert m.least_share(m.Aim.CONTROL, level, Fraction(0), 1, 0.5) == HALF
    # With two seeds 1 - (1 - p)² ≥ 1/2 needs p ≥ 0.29289; 0.3581 gives 0.29287 and 0.3582 gives 0.29300.
    assert m.least_share(m.Aim.CONTROL, level, Fraction(0), 2, 0.5) == Fraction(3582, 10_000)
    assert m.stake_owned(Fraction(1, 3), 10) == 4
    close(m.stake_added(Fraction(1, 3), 100), 50)
    assert m.stake_added(Fraction(1), 100) == math.inf


SMALL = replace(
    DEVNET,
    committee=replace(DEVNET.committee, seats=(3, 5, 0)),
    money=replace(
        DEVNET.money, fee_per_seat=10, privacy_price=70, slash_amount=1000, bounty=50, demand_bond=2, withheld_penalty=30,
        unanchored_penalty=1500, receipt_collateral=4,
    ),
    shares=replace(DEVNET.shares, max_batch=40),
)  # fmt: skip
"""Amounts that a person can add: α 30 %, β 40 %, half of what a lost bond leaves to the operator."""
FREE = incentives.Prices(gas=0, work=25, interest=0)
YEARLY = incentives.Prices(gas=0.001, work=0, interest=incentives.YEAR_S)
"""Capital costs itself each second, and 1000 gas one wei."""


def check_costs(m: Any) -> None:
    """Bond 100 of which three seats get 30 and the operator 35."""
    assert m.capital_cost(100, 0.05, 365 * 86_400) == 5
    assert (m.unpaid(5, 3), m.unpaid(3, 5)) == (2, 0)
    gas_of_seat = 100_862 + 127_409 + (423_053 + 773_782) / 31
    close(m.GAS_OF_SEAT, gas_of_seat)
    assert m.GAS_OF_AUDIT == 213_090 + 127_908 + 231_111
    one = m.frivolous_dispute(SMALL, FREE)
    assert (one.attacker, one.others) == (100, 3 * 25 - 30)
    close(one.ratio, 100 / 45)
    # 160 + 30 + 60 + 30 + 20 + 10 = 310 seconds for the slash of 1000, less the operator's 35; gas beyond 30 of fees.
    other = m.frivolous_dispute(SMALL, YEARLY)
    close(other.attacker, 100 + 290.779)
    close(other.others, 3 * gas_of_seat / 1000 - 30 + 310_000 - 35)
    # A draw burns one fee. Quorums are 2 of 3 and 4 of 5: one and three honest seats work unpaid.
    stall = m.stall_to_draw(SMALL, FREE)
    assert (stall.attacker, stall.others) == (10, 4 * 25)
    # Two rounds of 280 seconds and the airgap lock the slash and the advance of five fees.
    stall = m.stall_to_draw(SMALL, YEARLY)
    close(stall.attacker, 10 + 290.779)
    close(stall.others, 4 * gas_of_seat / 1000 + 570 * 1050)
    demand = m.needless_demand(SMALL, YEARLY)
    assert demand.attacker == 80
    close(demand.others, 4948.001 + 160 * 60 - 80)
    assert (m.needless_demand(SMALL, FREE).others, m.needless_demand(SMALL, FREE).ratio) == (0, math.inf)
    withheld = m.withheld_list(SMALL, YEARLY)
    assert (withheld.attacker, withheld.others) == (1200, 80 * 60 - 360)
    assert m.withheld_list(replace(SMALL, money=replace(SMALL.money, withheld_penalty=1)), FREE).attacker == 1000
    late = m.unanchored_receipt(replace(SMALL, money=replace(SMALL.money, demand_bond=10)), YEARLY)
    assert (late.attacker, late.others) == (1500, 10 * 60 - 450)
    assert m.Attack("nothing", 0, 0).ratio == 0
    assert [each.name for each in m.attacks(SMALL, FREE)] == [
        "a frivolous dispute", "stalling to a draw", "a needless demand", "a withheld list", "a receipt that is never anchored"
    ]  # fmt: skip
    check_incomes(m)


def check_incomes(m: Any) -> None:
    """A watchtower that audits half of 100 receipts, half of those confirmed; and a month's money."""
    tower = m.WatchtowerTerms(drawn=0.5, agreed=0.5, receipts=100, share=0.2, fixed=30)
    # Per receipt 0.5 · (50 · 0.5 - 20) = 2.5.
    prices = incentives.Prices(gas=0, work=20, interest=0)
    close(m.watchtower_profit(SMALL, prices, tower, 0.0, 1.0), 100 * 2.5 - 30)
    # One in ten is a fraud: 0.1 · 0.2 · 0.3 · 1000 · 0.5 = 3 more.
    close(m.watchtower_profit(SMALL, prices, tower, 0.1, 0.5), 100 * 5.5 - 30)
    # Gas of an audit is 572.109, of opening 290.779; the bond of 100 is locked for the longest dispute.
    locked = 100 * SMALL.longest_dispute
    wanted = 100 * (0.5 * (25 - 572.109) + 0.02 * (150 - locked - 290.779)) - 30
    close(m.watchtower_profit(SMALL, YEARLY, tower, 0.1, 0.5), wanted)
    flows = m.money_flows(SMALL, convictions=2, upheld=3, audits=7)
    # Of a slash of 1000: α 300, β and fees 430 (143 for each of three seats), the rest of 271 is burned.
    # Of a bond of 100: three fees, 35 for the operator, 35 burned.
    assert (flows.slashed, flows.challengers, flows.seats) == (2000, 600, 3 * (2 * 143 + 3 * 10))
    assert (flows.operators, flows.bounties, flows.burned) == (3 * 35, 350, 2 * 271 + 3 * 35)


def check_incentives(m: Any) -> None:
    """Fraud, attacks, watching."""
    check_deterrence(m)
    check_costs(m)


CHECKS: dict[ModuleType, Callable[[Any], None]] = {chances: check_chances, incentives: check_incentives}


@pytest.mark.parametrize("module", CHECKS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_formulas_have_the_values_computed_by_hand(module: ModuleType) -> None:
    CHECKS[module](module)


# --- a wrong sign is found ---


class _FlipSign(ast.NodeTransformer):
    """Turns the n-th + of a module into -, or the other way round."""

    def __init__(self, number: int) -> None:
        self.number = number

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Add | ast.Sub):
            self.number -= 1
            if self.number == -1:
                node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        return node


def signs(module: ModuleType) -> list[int]:
    """Numbers of all + and - between two terms."""
    nodes = ast.walk(ast.parse(Path(str(module.__file__)).read_text()))
    return list(range(sum(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add | ast.Sub) for each in nodes)))


def flipped(module: ModuleType, number: int) -> dict[str, Any]:
    """The module's names after the flip."""
    tree = _FlipSign(number).visit(ast.parse(Path(str(module.__file__)).read_text()))
    names: dict[str, Any] = {"__name__": f"flipped_{number}"}
    exec(compile(ast.fix_missing_locations(tree), str(module.__file__), "exec"), names)
    return names


class _Names:
    def __init__(self, names: dict[str, Any]) -> None:
        self.__dict__.update(names)


def planted() -> list[tuple[ModuleType, int]]:
    """Every sign of every module."""
    return [(module, number) for module in CHECKS for number in signs(module)]


@pytest.mark.parametrize(("module", "number"), planted(), ids=lambda each: getattr(each, "__name__", each))
def test_wrong_sign_in_a_formula_is_found(module: ModuleType, number: int) -> None:
    with pytest.raises((AssertionError, ArithmeticError, ValueError, MalformedValue, IndexError, TypeError)):
        CHECKS[module](_Names(flipped(module, number)))


def test_there_are_signs_to_flip() -> None:
    assert all(len(signs(module)) >= least for module, least in ((chances, 17), (incentives, 28)))


# --- limits ---


def test_no_hostile_stake_does_no_harm() -> None:
    found = chances.chances_by_quorum(chances.levels_of(DEVNET), chances.Population(Fraction(0)))
    assert (found.honest_slashed, found.void, found.convicted, found.rounds) == (0, 0, 1, 1)


def test_all_stake_hostile_takes_every_dispute() -> None:
    found = chances.chances_by_quorum(chances.levels_of(DEVNET), chances.Population(Fraction(1), tries=1024))
    assert (found.honest_slashed, found.void, found.convicted) == (1, 0, 0)


def test_audit_rate_zero_leaves_the_client_and_one_finds_all() -> None:
    none, every = (chances.audits_convince(chances.auditor_count(rate, [1, 1]), chances.auditor_count(rate, []), 2)
                   for rate in (0, 10_000))  # fmt: skip
    assert (none, every) == (0, 1)
    assert incentives.punished_chance(0.3, none, 1) == pytest.approx(0.3)


def test_many_small_verifiers_are_nearly_poisson() -> None:
    found = chances.auditor_count(10, [1] * 4_000)
    assert found.mean() == pytest.approx(4)
    assert found.at_least(2) == pytest.approx(chances.auditors_at_least(4, 2), rel=1e-3)
    assert math.fsum(found.masses) == pytest.approx(1)


@pytest.mark.parametrize(
    ("hostile", "absent", "tries"), [(Fraction(-1, 9), HALF, 1), (Fraction(2), HALF, 1), (HALF, Fraction(2), 1), (HALF, HALF, 0)]
)
def test_population_outside_its_bounds_is_refused(hostile: Fraction, absent: Fraction, tries: int) -> None:
    with pytest.raises(MalformedValue):
        chances.Population(hostile, absent, tries)


@pytest.mark.parametrize("hostile", [(math.nan, 0, 0, 1, 1), (0, 1.1, 0, 1, 1), (0, 0, -0.1, 1, 1), (0, 0, 0, math.inf, 1),
                                     (0, 0, 0, 1, math.nan), (0, 0, 0, 1, -1)])  # fmt: skip
def test_deterrence_refuses_what_is_no_chance_or_amount(hostile: tuple[float, ...]) -> None:
    with pytest.raises(MalformedValue):
        incentives.deterrence(*hostile)


# --- directions ---

unit = st.floats(0, 1)
stake = st.fractions(0, 1, max_denominator=200)


@given(unit, unit, unit, unit, unit)
def test_punishment_grows_with_clients_audits_and_convictions(q: float, p: float, c: float, more: float, by: float) -> None:
    base = incentives.punished_chance(q, p, c)
    for grown in ((max(q, more), p, c), (q, max(p, more), c), (q, p, max(c, more))):
        assert incentives.punished_chance(*grown) >= base - 1e-12


@given(unit, st.floats(0, 1e21), st.floats(0, 1e21), st.floats(0, 1e21))
def test_margin_grows_with_the_slash_and_falls_with_the_gain(chance: float, gain: float, loss: float, more: float) -> None:
    base = incentives.margin(chance, gain, loss)
    assert incentives.margin(chance, gain, loss + more) >= base >= incentives.margin(chance, gain + more, loss)
    limit = incentives.largest_gain(chance, loss)
    if math.isfinite(limit):
        assert incentives.margin(chance, limit, loss) == pytest.approx(0, abs=1e-9 * (loss + limit) + 1e-300)


@given(st.lists(st.integers(0, 9), max_size=12), st.lists(st.integers(0, 9), max_size=4), st.integers(0, 10_000),
       st.integers(0, 10_000))  # fmt: skip
def test_more_auditors_convince_more_often(honest: list[int], hostile: list[int], rate: int, more: int) -> None:
    low, high = sorted((rate, more))
    against = chances.auditor_count(5_000, hostile)
    found = [chances.audits_convince(chances.auditor_count(each, honest), against, 2) for each in (low, high)]
    assert found[0] <= found[1] + 1e-12
    assert chances.audits_convince(chances.auditor_count(low, [*honest, 1]), against, 2) >= found[0] - 1e-12


@given(stake, stake, stake, st.sampled_from([1, 2, 32]))
def test_more_hostile_stake_never_helps_the_honest(one: Fraction, other: Fraction, absent: Fraction, tries: int) -> None:
    low, high = sorted((one, other))
    levels = chances.levels_of(DEVNET)
    for aim in chances.Aim:
        less, more = (chances.success(aim, levels, chances.Population(each, absent, tries)) for each in (low, high))
        assert less <= more + 1e-9


@given(st.floats(1e-9, 0.9), st.floats(1e-9, 0.9), st.sampled_from(list(chances.Aim)))
def test_capture_with_a_higher_chance_costs_more(one: float, other: float, aim: chances.Aim) -> None:
    low, high = sorted((one, other))
    levels = (chances.Level(15, 10),)
    less, more = (chances.least_share(aim, levels, Fraction(0), 1, each) for each in (low, high))
    assert less <= more and chances.stake_added(less, 100) <= chances.stake_added(more, 100)
    assert chances.success(aim, levels, chances.Population(more)) >= high
    assert chances.success(aim, levels, chances.Population(more - Fraction(1, 10_000))) < high


@given(st.integers(0, 10**18), st.integers(0, 10**18), st.floats(0, 1), st.floats(0, 1))
def test_watchtower_earns_more_with_bounty_and_with_fraud(one: int, other: int, f: float, g: float) -> None:
    (less, more), (rare, often) = sorted((one, other)), sorted((f, g))
    tower = incentives.WatchtowerTerms(0.5, 0.5, 100, 1.0, 0)
    low, high = (incentives.watchtower_profit(changed("money", bounty=each), FREE, tower, rare, 1) for each in (less, more))
    assert low <= high <= incentives.watchtower_profit(changed("money", bounty=more), FREE, tower, often, 1) + 1


# --- the whole weighing ---

ASSUMED = scenario.Assumptions(
    people=chances.Population(Fraction(1, 10)), stakes=(64 * ETHER,) * 10, gain=ETHER / 1000, receipts=100_000.0, client=0.01,
    fraud=1e-5, own_challenger=1.0, risk=1e-6, prices=incentives.Prices(1e9, 1e12, 0.05), lost_disputes=1.0, tower_seats=1,
    tower_share=0.1, tower_fixed=0.0,
)  # fmt: skip


def test_weighing_puts_the_formulas_together() -> None:
    found = scenario.weigh(DEVNET, ASSUMED, is_test_chain=True)
    # Ten verifiers of 64 ETH keep 57.6, one unit of 32 each; the hostile have 64 ETH, two accounts of one unit.
    assert scenario.audit_seats(DEVNET, ASSUMED) == ([1] * 10, [1, 1])
    assert found.now.auditors == pytest.approx(9)
    assert found.violations == () and found.times.longest == DEVNET.longest_dispute
    assert found.now.deterrence.loss == pytest.approx(8 * ETHER * (1 - 0.3 - 0.04))
    assert found.now.deterrence.margin > 0 and found.rates[0].deterrence.audits == 0
    assert [len(row) for row in found.gains] == [len(scenario.SLASH_FACTORS)] * len(scenario.GRID_RATES)
    assert found.gains[-1][2] == pytest.approx(found.now.deterrence.largest_gain)
    control, stall = found.captures
    assert control.share > stall.share > 0 and control.owned == math.ceil(control.share * 640 * ETHER)
    assert control.at_risk == pytest.approx(ETHER / 1000 * 100_000 * 120 / (30 * 86_400))
    assert found.here.network == chances.chances_by_quorum(chances.levels_of(DEVNET), ASSUMED.people)
    assert found.flows.slashed == pytest.approx(found.now.deterrence.punished * 8 * ETHER)


def test_weighing_without_any_stake_has_no_auditor() -> None:
    found = scenario.weigh(DEVNET, replace(ASSUMED, stakes=()), is_test_chain=True)
    assert (found.now.auditors, found.now.deterrence.audits, found.tower.agreed) == (0, 0, 0)


@pytest.mark.parametrize(
    "broken",
    [
        changed("committee", rounds=0), changed("committee", rounds=4), changed("committee", seats=(0, 0, 0)),
        changed("committee", tau_den=0), changed("committee", tau_num=1), changed("committee", tau_num=4),
        changed("money", audit_unit=0), changed("committee", seats=(10**9, 31, 0)),
    ],
)  # fmt: skip
def test_parameters_that_compute_nothing_are_refused(broken: ParamSet) -> None:
    with pytest.raises(MalformedValue):
        scenario.weigh(broken, ASSUMED, is_test_chain=True)


@pytest.mark.parametrize("name", ["gain", "receipts", "client", "fraud", "own_challenger", "risk", "tower_share", "tower_fixed"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_assumptions_refuse_what_is_no_number(name: str, value: float) -> None:
    changes: dict[str, Any] = {name: value}
    with pytest.raises(MalformedValue):
        replace(ASSUMED, **changes)


def test_gas_of_steps_is_what_was_measured() -> None:
    measured = json.loads(Path("bench/results/gas.json").read_text())["gas"]
    assert {name: measured[name] for name in incentives.GAS} == incentives.GAS


def test_formulas_need_nothing_but_the_protocol() -> None:
    for module in (*CHECKS, scenario):
        tree = ast.parse(Path(str(module.__file__)).read_text())
        roots = {node.module.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
        assert roots <= {"bytewise", "collections", "dataclasses", "fractions", "functools"}
    assert importlib.import_module("bytewise.protocol.economics").__doc__
