"""What a watchtower needs so that frauds are disputed: audits, bonds and balance. Amounts are wei, chances are in [0, 1]."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bytewise.protocol.court.params import BPS, ParamSet
from bytewise.protocol.economics.chances import CountDistribution, auditor_count, audits_convince
from bytewise.protocol.economics.incentives import GAS, Prices, capital_cost
from bytewise.protocol.errors.records import MalformedValue

DAY_S = 86_400
MOST_OPEN = 1_000_000
NOBODY = CountDistribution(0, (1.0,))
"""Hostile auditors: none."""


@dataclass(frozen=True, slots=True)
class WatchTerms:
    """What the watchtower expects. `MalformedValue` outside the bounds."""

    receipts: float
    """Receipts per day."""
    fraud: float
    """Share of them that is false."""
    mistakes: float
    """Disputes per day that the watchtower opens and loses."""
    mismatches: int
    """Mismatches of drawn auditors that it wants before it disputes (`watch.mismatches`)."""
    wanted: float
    """Share of the frauds that must be disputed, above 0 and below 1."""
    ready: float
    """Chance that the money suffices for all disputes that are open at once."""

    def __post_init__(self) -> None:
        amounts = all(0 <= each < math.inf for each in (self.receipts, self.mistakes)) and 0 <= self.fraud <= 1
        if not amounts or self.mismatches < 1 or not 0 < self.wanted < 1 or not 0 < self.ready < 1:
            raise MalformedValue("plan", "a chance is outside 0 to 1, or an amount is negative or infinite")


@dataclass(frozen=True, slots=True)
class WatchPlan:
    """What it needs."""

    coverage: float
    """Share of the frauds that audits of the present rate show."""
    rate_bps: int
    """Audit rate in force, in 1/10,000 for each audit seat."""
    needed_rate_bps: int | None
    """Least rate with the wanted coverage; None: not even if every auditor is always drawn."""
    audits: float
    """Audits per day at the rate in force, by all verifiers together."""
    needed_audits: float | None
    """The same at the needed rate."""
    disputes: float
    """Disputes per day at the rate in force."""
    locked_s: int
    """Seconds from the opening of a dispute to the return of its bond, at the longest."""
    open_at_once: int
    """Disputes that are open at once, at most with the chance `ready`."""
    bond: int
    """Bond of one dispute."""
    bonds: int
    """Bonds of all of them."""
    gas: float
    """Gas of opening all of them."""
    capital: float
    """What the bonds would earn elsewhere while one dispute lasts, for one dispute."""
    reward: float
    """Share of the slash by one conviction; the bond comes back besides."""

    @property
    def balance(self) -> float:
        """Balance that suffices."""
        return self.bonds + self.gas


def watch_plan(p: ParamSet, seats: Sequence[int], prices: Prices, terms: WatchTerms) -> WatchPlan:
    """The plan of one watchtower in a network whose verifiers have these audit seats.

    Every drawn auditor is honest and posts its result in time; a watchtower that re-executes nothing sees no other frauds.
    """
    rate, bond, locked = p.shares.audit_rate_bps, p.required_bond, locked_seconds(p)
    coverage, needed = coverage_at(rate, seats, terms.mismatches), needed_rate(seats, terms.mismatches, terms.wanted)
    disputes = terms.receipts * terms.fraud * coverage + terms.mistakes
    count = open_at_once(disputes * locked / DAY_S, terms.ready)
    return WatchPlan(
        coverage=coverage, rate_bps=rate, needed_rate_bps=needed, audits=terms.receipts * auditors_at(rate, seats),
        needed_audits=None if needed is None else terms.receipts * auditors_at(needed, seats), disputes=disputes,
        locked_s=locked, open_at_once=count, bond=bond, bonds=count * bond, gas=count * GAS["open"] * prices.gas,
        capital=capital_cost(bond, prices.interest, locked), reward=p.shares.alpha_bps / BPS * p.money.slash_amount,
    )  # fmt: skip


def coverage_at(rate_bps: int, seats: Sequence[int], mismatches: int) -> float:
    """Chance that audits of this rate show a fraud."""
    return audits_convince(auditor_count(rate_bps, seats), NOBODY, mismatches)


def auditors_at(rate_bps: int, seats: Sequence[int]) -> float:
    """Expected auditors of one receipt."""
    return math.fsum(min(1.0, rate_bps * each / BPS) for each in seats)


def needed_rate(seats: Sequence[int], mismatches: int, wanted: float) -> int | None:
    """The least audit rate in 1/10,000 whose audits show a fraud with this chance; None if none does."""
    if coverage_at(BPS, seats, mismatches) < wanted:
        return None
    low, high = 0, BPS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if coverage_at(middle, seats, mismatches) >= wanted else (middle + 1, high)
    return low


def locked_seconds(p: ParamSet) -> int:
    """Longest time from the opening of a dispute to the payment of what it gives back, without a pause (design section 9)."""
    t = p.times
    one = t.seed_time + t.draw_time + t.commit_time + t.reveal_time + t.appeal_time
    return p.committee.rounds * one + t.rerun_time + t.airgap + t.withdraw_delay


def open_at_once(mean: float, ready: float) -> int:
    """The least number that a Poisson count of this mean does not exceed with the chance `ready` (Little's law gives the mean).

    `MalformedValue` for a mean above a million: no single account opens so many disputes.
    """
    if mean > MOST_OPEN:
        raise MalformedValue("plan", f"{mean:.0f} disputes would be open at once: at most {MOST_OPEN}")
    count, reached = 0, 0.0
    while True:
        reached += math.exp(count * math.log(mean) - mean - math.lgamma(count + 1)) if mean > 0 else 1.0
        if reached >= ready or count > mean + 100 * math.sqrt(mean) + 100:
            return count
        count += 1
