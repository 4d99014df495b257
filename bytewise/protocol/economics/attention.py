"""What attention tests cost a fund, and how long a member that checks nothing passes them. Amounts are wei, chances in [0, 1]."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bytewise.protocol.attention.schedule import RATE_UNIT, AttentionTerms
from bytewise.protocol.court.params import BPS, ParamSet
from bytewise.protocol.errors.records import MalformedValue

UNLIKELY = 1e-3
"""A reveal whose number of false receipts has a smaller chance than this at its rate is marked."""


def tail_chance(terms: AttentionTerms, drawn: int) -> float:
    """Chance that a random key draws at most so many false receipts, or at least so many: the smaller of both, binomial.

    A fund that tries keys until one draws many or few commits to that key honestly. Only this chance shows it.
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


@dataclass(frozen=True, slots=True)
class FundTerms:
    """What a fund wants. `MalformedValue` outside the bounds."""

    rate_ppm: int
    """Chance that a receipt is false, in parts per million."""
    per_day: float
    """Receipts of the fund's operator per day."""
    stake: int
    """Stake of the operator."""
    checked: float
    """Share of its audits that a member really executes; the others it calls equal."""
    sure: float
    """Chance with which such a member must have failed a test, above 0 and below 1."""

    def __post_init__(self) -> None:
        if not 1 <= self.rate_ppm <= RATE_UNIT or not 0 < self.per_day < math.inf or self.stake < 0:
            raise MalformedValue("plan", "the rate is outside 0 to 1, or an amount is not positive")
        if not 0 <= self.checked < 1 or not 0 < self.sure < 1:
            raise MalformedValue("plan", "the checked share must be from 0 to below 1, and the certainty between 0 and 1")


@dataclass(frozen=True, slots=True)
class MemberOdds:
    """One member under these tests."""

    seats: int
    """Seats in the audit draw."""
    drawn: float
    """Chance that it is drawn to audit one receipt."""
    tests: float
    """Tests per day that it is drawn to audit."""
    passes_day: float
    """Chance that it fails no test of a day."""
    days: float
    """Days until it has failed a test with the chance `sure`; infinite if it is never drawn."""


@dataclass(frozen=True, slots=True)
class FundPlan:
    """What the tests cost and show."""

    tests: float
    """False receipts per day."""
    slash: int
    """Stake that one conviction takes."""
    cost: float
    """Cost per day if every test is convicted, as it should be."""
    burned: float
    """Part of that cost that is burned at least; the rest goes to challengers and seats."""
    affordable: int
    """Convictions that the stake bears before it is below the least stake of an operator."""
    lasts: float
    """Days after which the stake is used up."""
    most_rate_ppm: int
    """Largest rate at which the stake lasts a day; 0 for none."""
    members: tuple[MemberOdds, ...]
    """Members of the pool in the order in which they were named."""


def fund_plan(p: ParamSet, seats: Sequence[int], terms: FundTerms) -> FundPlan:
    """The plan of a fund in a pool whose members have these seats in the audit draw."""
    tests, slash = terms.per_day * terms.rate_ppm / RATE_UNIT, p.money.slash_amount
    affordable = max(0, terms.stake - p.money.min_operator_stake) // slash
    kept = (p.shares.alpha_bps + p.shares.beta_bps) / BPS
    return FundPlan(
        tests=tests, slash=slash, cost=tests * slash, burned=tests * slash * (1 - kept), affordable=affordable,
        lasts=affordable / tests, most_rate_ppm=min(RATE_UNIT, int(affordable / terms.per_day * RATE_UNIT)),
        members=tuple(_odds(p, each, tests, terms) for each in seats),
    )  # fmt: skip


def _odds(p: ParamSet, seats: int, tests: float, terms: FundTerms) -> MemberOdds:
    drawn = min(1.0, p.shares.audit_rate_bps * seats / BPS)
    fails = drawn * (1 - terms.checked)
    return MemberOdds(
        seats, drawn, tests * drawn, pass_chance(tests, fails), count_until(terms.sure, fails) / tests
    )  # fmt: skip


def pass_chance(tests: float, fails: float) -> float:
    """(1 - f)^n: chance to fail none of n tests, each failed with the chance f."""
    if fails >= 1:
        return 0.0 if tests > 0 else 1.0
    return math.exp(tests * math.log1p(-fails))


def count_until(sure: float, fails: float) -> float:
    """log(1 - s) / log(1 - f): tests until one was failed with the chance s; 1 if each is failed, infinite if none is."""
    if fails <= 0:
        return math.inf
    return 1.0 if fails >= 1 else max(1.0, math.log(1 - sure) / math.log1p(-fails))
