"""Computes the audits, bonds and balance that a watchtower needs so that frauds are disputed.

Amounts are wei, chances are in [0, 1].
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bytewise.protocol.court.params import BPS, ParamSet
from bytewise.protocol.economics.chances import CountDistribution, auditor_count, audits_convince
from bytewise.protocol.economics.incentives import GAS, Prices, capital_cost
from bytewise.protocol.errors.records import MalformedValue

DAY_S = 86_400
MOST_OPEN = 1_000_000
COUNT_END = 2**64
"""Numbers per day are below this number."""
NOBODY = CountDistribution(0, (1.0,))
"""Distribution of the number of hostile auditors if there are none."""


@dataclass(frozen=True, slots=True)
class WatchTerms:
    """Assumptions and wishes of a watchtower. Raises `MalformedValue` with the name of the field for a value outside its
    bounds."""

    receipts: float
    """Number of receipts per day."""
    fraud: float
    """Share of the receipts that are false."""
    mistakes: float
    """Number of disputes per day that the watchtower opens and loses."""
    mismatches: int
    """Number of mismatches by drawn auditors that the watchtower requires before it disputes (`watch.mismatches`)."""
    wanted: float
    """Share of the frauds that must be disputed, above 0 and below 1."""
    ready: float
    """Chance with which the money must suffice for all disputes that are open at once."""

    def __post_init__(self) -> None:
        for name, holds, bounds in (
            ("receipts", 0 <= self.receipts < COUNT_END, "must not be negative, and must be below 2^64"),
            ("fraud", 0 <= self.fraud <= 1, "must be from 0 to 1"),
            ("mistakes", 0 <= self.mistakes < COUNT_END, "must not be negative, and must be below 2^64"),
            ("mismatches", self.mismatches >= 1, "must be 1 or more"),
            ("wanted", 0 < self.wanted < 1, "must be above 0 and below 1"),
            ("ready", 0 < self.ready < 1, "must be above 0 and below 1"),
        ):
            if not holds:
                raise MalformedValue(name, bounds)


@dataclass(frozen=True, slots=True)
class WatchPlan:
    """The audits and the money that a watchtower needs."""

    coverage: float
    """Share of the frauds that audits at the rate in force reveal."""
    rate_bps: int
    """Audit rate in force, in 1/10,000 for each audit seat."""
    needed_rate_bps: int | None
    """Least audit rate with the wanted coverage. None if no rate reaches it, even if every auditor is always drawn."""
    audits: float
    """Audits per day at the rate in force, by all verifiers together."""
    needed_audits: float | None
    """Audits per day at the needed rate; None if there is no such rate."""
    disputes: float
    """Disputes per day of the watchtower at the rate in force."""
    locked_s: int
    """Longest time in seconds from the opening of a dispute to the return of its bond."""
    open_at_once: int
    """Number of disputes that are open at once. With the chance `ready` there are no more."""
    bond: int
    """Bond of one dispute, in wei."""
    bonds: int
    """Bonds of all disputes that are open at once, in wei."""
    gas: float
    """Price of the gas that opens all these disputes, in wei."""
    capital: float
    """Yield in wei that one bond would earn elsewhere while its dispute lasts."""
    reward: float
    """Reward for one conviction in wei: a share of the slash. The bond comes back in addition."""

    @property
    def balance(self) -> float:
        """Balance in wei that suffices: the bonds and the gas of all disputes that are open at once."""
        return self.bonds + self.gas


def watch_plan(p: ParamSet, seats: Sequence[int], prices: Prices, terms: WatchTerms) -> WatchPlan:
    """Returns the plan of one watchtower in a network whose verifiers have these audit seats.

    Assumes that every drawn auditor is honest and posts its result in time. A watchtower does not run requests again, so it
    cannot see a fraud that no audit reveals.
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
    """Returns the chance that audits at this rate reveal a fraud. `seats` are the audit seats of each verifier."""
    return audits_convince(auditor_count(rate_bps, seats), NOBODY, mismatches)


def auditors_at(rate_bps: int, seats: Sequence[int]) -> float:
    """Returns the expected number of auditors of one receipt."""
    return math.fsum(min(1.0, rate_bps * each / BPS) for each in seats)


def needed_rate(seats: Sequence[int], mismatches: int, wanted: float) -> int | None:
    """Returns the least audit rate, in 1/10,000, at which audits reveal a fraud with the chance `wanted`.

    Returns None if no rate suffices.
    """
    if coverage_at(BPS, seats, mismatches) < wanted:
        return None
    low, high = 0, BPS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if coverage_at(middle, seats, mismatches) >= wanted else (middle + 1, high)
    return low


def locked_seconds(p: ParamSet) -> int:
    """Returns the longest time in seconds from the opening of a dispute to the payment of its returned bond, without a pause
    (design section 9)."""
    t = p.times
    one = t.seed_time + t.draw_time + t.commit_time + t.reveal_time + t.appeal_time
    return p.committee.rounds * one + t.rerun_time + t.airgap + t.withdraw_delay


def open_at_once(mean: float, ready: float) -> int:
    """Returns the number of disputes that a watchtower must be able to afford at once: the smallest number such that, with a
    chance of at least `ready`, no more than this number are open at one time.

    The number of open disputes is assumed to have a Poisson distribution. Its mean is `mean`, which the caller computes by
    Little's law (rate times duration). Raises `MalformedValue` for a mean above a million: no account opens so many.
    """
    if mean > MOST_OPEN:
        raise MalformedValue("disputes", f"{mean:.0f} disputes would be open at once: at most {MOST_OPEN}")
    count, reached = 0, 0.0
    while True:
        reached += math.exp(count * math.log(mean) - mean - math.lgamma(count + 1)) if mean > 0 else 1.0
        if reached >= ready or count > mean + 100 * math.sqrt(mean) + 100:
            return count
        count += 1
