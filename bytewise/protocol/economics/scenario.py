"""All figures of one set of parameters under one set of assumptions. The economics console shows and exports them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from bytewise.protocol.court.param_law import MAX_SEATS, TimeBudget, Violation, time_budget, violations
from bytewise.protocol.court.params import BPS, ParamSet
from bytewise.protocol.court.sortition import seats_in_audit_draw
from bytewise.protocol.economics.chances import (
    Aim,
    CountDistribution,
    DisputeChances,
    Level,
    Population,
    auditor_count,
    audits_convince,
    chances_by_paper_rule,
    chances_by_quorum,
    drawn_chance,
    least_share,
    levels_of,
    stake_added,
    stake_owned,
)
from bytewise.protocol.economics.incentives import (
    Attack,
    Deterrence,
    MoneyFlows,
    Prices,
    WatchtowerTerms,
    attacks,
    deterrence,
    effective_slash,
    money_flows,
    watchtower_profit,
)
from bytewise.protocol.errors.records import MalformedValue

MONTH_S = 30 * 86_400
MISMATCHES = 2
"""Number of mismatches that a watchtower requires (`decisions.strategies.WatchPolicy`)."""
MAX_VERIFIERS = 10_000
RATES = (0, 100, 250, 500, *range(1_000, BPS + 1, 1_000))
"""Audit rates at which curves are computed, in 1/10,000."""
SHARES = tuple(Fraction(percent, 100) for percent in range(0, 51, 5))
"""Hostile shares at which curves are computed."""
SLASH_FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
GRID_RATES = (250, 500, 1_000, 2_500, 5_000, 9_000)
BOUNTY_FACTORS = (Fraction(0), Fraction(1), Fraction(10), Fraction(100))
FRAUD_RATES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3)
RISK = 1e-6
"""Chance per dispute from which on a capture counts as reached, if the reader names no other chance."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Assumptions of the reader about everything that no parameter sets.

    Raises `MalformedValue` for a value outside its bounds.
    """

    people: Population
    """Distribution of the stake."""
    stakes: tuple[int, ...]
    """Stake of each verifier in wei. Hostile verifiers have their share of the sum, in accounts of one audit seat each. The other
    verifiers have the remaining stake, in these proportions."""
    gain: float
    """G: gain by one fraud, wei."""
    receipts: float
    """Number of receipts per month."""
    client: float
    """q: chance that the client disputes a fraud of its own receipt."""
    fraud: float
    """Share of receipts that are false."""
    own_challenger: float
    """Chance that the operator's own challenger wins the reward α."""
    risk: float
    """Chance per dispute from which on a capture counts as reached."""
    prices: Prices
    """Prices of gas, work and capital."""
    lost_disputes: float
    """Number of disputes of true receipts per month. Their bonds are lost."""
    tower_seats: int
    """Audit seats of the watchtower."""
    tower_share: float
    """Share of the frauds for which the watchtower knows the right answer and is the first to dispute."""
    tower_fixed: float
    """Fixed cost of the watchtower per month, wei."""

    def __post_init__(self) -> None:
        chances = (self.client, self.fraud, self.own_challenger, self.tower_share)
        prices = self.prices
        amounts = (
            self.gain,
            self.receipts,
            self.lost_disputes,
            prices.gas,
            prices.work,
            prices.interest,
            self.tower_seats,
            self.tower_fixed,
        )
        bounded = all(0 <= each <= 1 for each in chances) and all(0 <= each < math.inf for each in amounts)
        if not bounded or not 0 < self.risk < 1:
            raise MalformedValue("assumptions", "a chance is outside 0 to 1, or an amount is negative or infinite")
        if len(self.stakes) > MAX_VERIFIERS or any(each < 0 for each in self.stakes):
            raise MalformedValue("assumptions", f"stakes of more than {MAX_VERIFIERS} verifiers, or a negative one")

    @property
    def total_stake(self) -> int:
        """Sum of all stakes, wei."""
        return sum(self.stakes)


@dataclass(frozen=True, slots=True)
class RatePoint:
    """Deterrence at one audit rate."""

    rate_bps: int
    """Audit rate, in 1/10,000 per seat."""
    auditors: float
    """Expected number of honest auditors of a receipt."""
    deterrence: Deterrence
    """Figures of deterrence at this rate."""


@dataclass(frozen=True, slots=True)
class SharePoint:
    """Chances of how a dispute ends, at one hostile share of the stake."""

    hostile: Fraction
    """Hostile share of the stake."""
    network: DisputeChances
    """Chances by the rule of the network."""
    paper: DisputeChances
    """Chances by the paper's rule."""


@dataclass(frozen=True, slots=True)
class Capture:
    """Stake with which hostile verifiers reach one aim with the chance `Assumptions.risk`."""

    aim: Aim
    """Aim of the hostile verifiers: control or stall."""
    share: Fraction
    """Least share of the stake."""
    owned: int
    """Stake in wei of a party that owns this share of the present stake."""
    added: float
    """Stake in wei that a newcomer must add to the present stake of others."""
    at_risk: float
    """Gain in wei of all receipts whose challenge window is open at one time."""


@dataclass(frozen=True, slots=True)
class TowerPoint:
    """Profit of the watchtower per month, for one amount of the bounty."""

    bounty: int
    """Bounty of a light audit, in wei."""
    profits: tuple[float, ...]
    """Profits at each of `FRAUD_RATES`, in wei."""


@dataclass(frozen=True, slots=True)
class Weighing:
    """Everything that follows from one set of parameters and one set of assumptions."""

    violations: tuple[Violation, ...]
    """Rules for parameters that the set violates."""
    now: RatePoint
    """Deterrence at the audit rate of the set."""
    rates: tuple[RatePoint, ...]
    """Deterrence at each of `RATES`."""
    gains: tuple[tuple[float, ...], ...]
    """G_max in wei: one row for each of `GRID_RATES`, with one value for each of `SLASH_FACTORS`."""
    here: SharePoint
    """Ends of a dispute at the assumed hostile share."""
    shares: tuple[SharePoint, ...]
    """Ends of a dispute at each of `SHARES`."""
    captures: tuple[Capture, ...]
    """Stake that captures need, for control and for stall."""
    attacks: tuple[Attack, ...]
    """Losses of both sides in each attack."""
    tower: WatchtowerTerms
    """Chances and costs of the watchtower."""
    tower_profit: float
    """Profit of the watchtower at the assumed fraud rate, in wei per month."""
    idle_profit: float
    """Profit of the watchtower without any fraud, in wei per month."""
    towers: tuple[TowerPoint, ...]
    """Profit of the watchtower by bounty and fraud rate."""
    times: TimeBudget
    """Parts of the longest dispute, and the times that must be longer."""
    flows: MoneyFlows
    """Money flows of a month."""


def audit_counts(p: ParamSet, a: Assumptions, rate_bps: int) -> tuple[CountDistribution, CountDistribution]:
    """Returns the distributions of the numbers of honest and of hostile auditors of one receipt."""
    honest, hostile = audit_seats(p, a)
    return auditor_count(rate_bps, honest), auditor_count(rate_bps, hostile)


def audit_seats(p: ParamSet, a: Assumptions) -> tuple[list[int], list[int]]:
    """Returns the audit seats of each honest verifier that votes, and of each hostile account."""
    unit, part = p.money.audit_unit, (1 - a.people.hostile) * (1 - a.people.absent)
    seats = [seats_in_audit_draw(stake * part.numerator // part.denominator, unit, is_member=True) for stake in a.stakes]
    hostile = min(MAX_VERIFIERS, math.floor(a.people.hostile * a.total_stake) // unit)
    return [each for each in seats if each], [1] * hostile


def deterrence_at(p: ParamSet, a: Assumptions, rate_bps: int, convicted: float) -> RatePoint:
    """Returns the deterrence under these parameters with another audit rate. `convicted` is the chance of conviction."""
    honest, hostile = audit_counts(p, a, rate_bps)
    loss = effective_slash(p.money.slash_amount, p.shares.alpha_bps, p.shares.beta_bps, a.own_challenger, float(a.people.hostile))
    if loss < 0:
        raise MalformedValue("parameters", "alpha_bps and beta_bps would give an operator more back than its slash")
    audits = audits_convince(honest, hostile, MISMATCHES)
    return RatePoint(rate_bps, honest.mean(), deterrence(a.client, audits, convicted, loss, a.gain))


def share_point(levels: Sequence[Level], people: Population) -> SharePoint:
    """Returns the chances of how a dispute ends for a population."""
    return SharePoint(people.hostile, chances_by_quorum(levels, people), chances_by_paper_rule(levels[0], people))


def weigh(p: ParamSet, a: Assumptions, is_test_chain: bool) -> Weighing:
    """Computes all figures of one set of parameters and one set of assumptions.

    Raises `MalformedValue` for parameters without a committee, a quorum or an audit unit with which chances can be computed.
    """
    levels = _levels(p)
    here = share_point(levels, a.people)
    convicted = here.network.convicted
    now = deterrence_at(p, a, p.shares.audit_rate_bps, convicted)
    tower = _tower(p, a)
    convictions = a.receipts * a.fraud * now.deterrence.punished
    honest, _ = audit_counts(p, a, p.shares.audit_rate_bps)
    confirmed = honest.mean() - (honest.at_least(1) - honest.at_least(MISMATCHES))
    return Weighing(
        violations=violations(p, is_test_chain), now=now,
        rates=tuple(deterrence_at(p, a, rate, convicted) for rate in RATES),
        gains=_gains(p, a, convicted), here=here,
        shares=tuple(share_point(levels, replace(a.people, hostile=share)) for share in SHARES),
        captures=tuple(_capture(aim, p, a, levels) for aim in Aim), attacks=attacks(p, a.prices), tower=tower,
        tower_profit=watchtower_profit(p, a.prices, tower, a.fraud, convicted),
        idle_profit=watchtower_profit(p, a.prices, tower, 0.0, convicted), towers=_towers(p, a, tower, convicted),
        times=time_budget(p),
        flows=money_flows(p, convictions, a.lost_disputes, a.receipts * confirmed),
    )  # fmt: skip


def _levels(p: ParamSet) -> tuple[Level, ...]:
    """Returns the committee levels. Raises `MalformedValue` if their chances cannot be computed.

    `param_law` has more rules for parameters.
    """
    c = p.committee
    if not (1 <= c.rounds <= len(c.seats) and all(1 <= seats <= MAX_SEATS for seats in c.seats[: c.rounds])):
        told = f"{c.rounds} levels of {list(c.seats)} seats: each level needs 1 to {MAX_SEATS}"
        raise MalformedValue("parameters", told)
    if not (c.tau_den and c.tau_den < 2 * c.tau_num <= 2 * c.tau_den):
        raise MalformedValue("parameters", f"the quorum {c.tau_num}/{c.tau_den} is not above one half and at most 1")
    if p.money.audit_unit < 1:
        raise MalformedValue("parameters", "audit_unit is 0: nobody has an audit seat")
    return levels_of(p)


def _gains(p: ParamSet, a: Assumptions, convicted: float) -> tuple[tuple[float, ...], ...]:
    rows = []
    for rate in GRID_RATES:
        found = deterrence_at(p, a, rate, convicted).deterrence.largest_gain
        rows.append(tuple(found * float(factor) for factor in SLASH_FACTORS))
    return tuple(rows)


def _capture(aim: Aim, p: ParamSet, a: Assumptions, levels: Sequence[Level]) -> Capture:
    share = least_share(aim, levels, a.people.absent, a.people.tries, a.risk)
    total, others = a.total_stake, math.floor((1 - a.people.hostile) * a.total_stake)
    at_risk = a.gain * a.receipts * p.times.window / MONTH_S
    return Capture(aim, share, stake_owned(share, total), stake_added(share, others), at_risk)


def _tower(p: ParamSet, a: Assumptions) -> WatchtowerTerms:
    others, _ = audit_seats(p, a)
    if a.tower_seats in others:
        others.remove(a.tower_seats)
    rate = p.shares.audit_rate_bps
    agreed = auditor_count(rate, others).at_least(1)
    return WatchtowerTerms(drawn_chance(rate, a.tower_seats), agreed, a.receipts, a.tower_share, a.tower_fixed)


def _towers(p: ParamSet, a: Assumptions, tower: WatchtowerTerms, convicted: float) -> tuple[TowerPoint, ...]:
    points = []
    for factor in BOUNTY_FACTORS:
        bounty = math.floor(p.money.bounty * factor)
        other = replace(p, money=replace(p.money, bounty=bounty))
        points.append(
            TowerPoint(bounty, tuple(watchtower_profit(other, a.prices, tower, f, convicted) for f in FRAUD_RATES))
        )  # fmt: skip
    return tuple(points)
