"""Computes the costs of attention tests for a fund, and the time until a lazy member fails a test.

A lazy member executes only some of its audits. Amounts are wei, chances are in [0, 1].
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bytewise.protocol.attention.schedule import RATE_UNIT, AttentionTerms
from bytewise.protocol.court.params import BPS, ParamSet
from bytewise.protocol.court.settlement import Pot, split
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Verdict

UNLIKELY = 1e-3
"""Limit of chance. A reveal is marked if a random key would draw its number of false receipts with a smaller chance."""


def tail_chance(terms: AttentionTerms, drawn: int) -> float:
    """Returns the chance that a random key draws this number of false receipts or a more extreme one (binomial).

    If the number is below the mean, lower numbers are more extreme; otherwise higher numbers are. A fund could try keys until
    one draws many or few false receipts. The commitment would still be valid, and only a small chance here would show it.
    """
    count, rate = terms.count, terms.rate_ppm / RATE_UNIT
    if rate == 1:
        return float(drawn == count)
    odds, step = rate / (1 - rate), 1 if drawn >= terms.expected else -1
    ways = math.lgamma(count + 1) - math.lgamma(drawn + 1) - math.lgamma(count - drawn + 1)
    term = math.exp(ways + drawn * math.log(rate) + (count - drawn) * math.log1p(-rate))
    total, n = 0.0, drawn
    # From `drawn` outwards the terms fall; those below the precision of the sum are left out.
    while 0 <= n <= count and term > total * 1e-17:
        total += term
        term *= (count - n) / (n + 1) * odds if step > 0 else n / (count - n + 1) / odds
        n += step
    return min(total, 1.0)


LEAST_PER_DAY, MOST_PER_DAY = 1e-6, 1e12
"""Fewest and most receipts per day of a plan. With others, its times and amounts would not be finite numbers."""
STAKE_END = 2**128
"""Stakes in wei are below this number."""


@dataclass(frozen=True, slots=True)
class FundTerms:
    """The tests that a fund wants to run, and its assumptions about a lazy member. Raises `MalformedValue` with the name of the
    field for a value outside its bounds."""

    rate_ppm: int
    """Chance that a receipt is false, in parts per million."""
    per_day: float
    """Number of receipts of the fund's operator per day."""
    stake: int
    """Stake of the operator, in wei."""
    checked: float
    """Share of its audits that a lazy member really executes. It reports a match for all others."""
    sure: float
    """Chance with which such a member must have failed a test, above 0 and below 1."""

    def __post_init__(self) -> None:
        for name, holds, bounds in (
            ("rate_ppm", 1 <= self.rate_ppm <= RATE_UNIT, f"must be above 0, in steps of 1/{RATE_UNIT}, and at most 1"),
            ("per_day", LEAST_PER_DAY <= self.per_day <= MOST_PER_DAY, f"must be from {LEAST_PER_DAY:g} to {MOST_PER_DAY:g}"),
            ("stake", 0 <= self.stake < STAKE_END, "must not be negative, and must be below 2^128 wei"),
            ("checked", 0 <= self.checked < 1, "must be from 0 to below 1"),
            ("sure", 0 < self.sure < 1, "must be above 0 and below 1"),
        ):
            if not holds:
                raise MalformedValue(name, bounds)


@dataclass(frozen=True, slots=True)
class MemberOdds:
    """Chances of one lazy member in the tests of a fund."""

    seats: int
    """Seats of the member in the audit draw."""
    drawn: float
    """Chance that the member is drawn to audit one receipt."""
    tests: float
    """Number of tests per day that the member is drawn to audit."""
    passes_day: float
    """Chance that the member fails no test in a day."""
    days: float
    """Days until the member has failed a test with the chance `sure`; infinite if it is never drawn."""


@dataclass(frozen=True, slots=True)
class FundPlan:
    """The costs of a fund's tests, and the chances of each member if it is lazy."""

    tests: float
    """Number of false receipts per day."""
    slash: int
    """Stake in wei that one conviction takes."""
    cost: float
    """Cost per day in wei if every test is convicted, which is the right verdict."""
    burned: float
    """Part of this cost in wei that is burned if all seats of each first round convict and each challenger knew the answer. The
    rest pays challenger and seats, with the fees of the seats. A first round with fewer such seats burns more."""
    affordable: int
    """Number of convictions that leave at least the least stake of an operator."""
    lasts: float
    """Number of days until so many convictions are expected."""
    most_rate_ppm: int
    """Largest rate, in parts per million, at which the stake lasts a day; 0 if there is none."""
    members: tuple[MemberOdds, ...]
    """Chances of the members of the pool, in the order of the input."""


def fund_plan(p: ParamSet, seats: Sequence[int], terms: FundTerms) -> FundPlan:
    """Returns the plan of a fund in a pool whose members have these seats in the audit draw."""
    tests, slash = terms.per_day * terms.rate_ppm / RATE_UNIT, p.money.slash_amount
    affordable = max(0, terms.stake - p.money.min_operator_stake) // slash
    return FundPlan(
        tests=tests, slash=slash, cost=tests * slash, burned=tests * _burned(p), affordable=affordable,
        lasts=affordable / tests, most_rate_ppm=min(RATE_UNIT, int(affordable / terms.per_day * RATE_UNIT)),
        members=tuple(_odds(p, each, tests, terms) for each in seats),
    )  # fmt: skip


def _burned(p: ParamSet) -> int:
    """Returns the wei that a conviction by all seats of the first round burns if the challenger knew the answer."""
    seats = p.seats(1)
    pot = Pot(p.required_bond, 0, 0, p.money.slash_amount, seats, appellant_won=False, knew=True)
    parts = split(Verdict.OVERTURNED, pot, p)
    return pot.total - parts.bond_back - parts.alpha - parts.per_seat * seats


def _odds(p: ParamSet, seats: int, tests: float, terms: FundTerms) -> MemberOdds:
    drawn = min(1.0, p.shares.audit_rate_bps * seats / BPS)
    fails = drawn * (1 - terms.checked)
    return MemberOdds(
        seats, drawn, tests * drawn, pass_chance(tests, fails), count_until(terms.sure, fails) / tests
    )  # fmt: skip


def pass_chance(tests: float, fails: float) -> float:
    """Returns (1 - f)^n: the chance to fail none of n tests if each is failed with the chance f."""
    if fails >= 1:
        return 0.0 if tests > 0 else 1.0
    return math.exp(tests * math.log1p(-fails))


def count_until(sure: float, fails: float) -> float:
    """Returns log(1 - s) / log(1 - f): the number of tests until one was failed with the chance s.

    Returns 1 if every test is failed, and infinity if none is.
    """
    if fails <= 0:
        return math.inf
    return 1.0 if fails >= 1 else max(1.0, math.log(1 - sure) / math.log1p(-fails))
