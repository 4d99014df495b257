"""Chances of a dispute and of light audits, for a given distribution of stake.

All hostile verifiers act as one party. They know each other's votes and take the seed that suits them best. Seats are drawn with
replacement in proportion to stake (`bytewise.protocol.court.sortition`), so the number of a party's seats is binomial. The
chances of a round are exact fractions until the last step.
"""

import bisect
import enum
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from bytewise.protocol.court.params import BPS, ParamSet
from bytewise.protocol.errors.records import MalformedValue

MOST_MEAN = 1_000.0
"""Largest mean that a search tries. With it, the chances are practically 1."""
LEAST_MASS = 1e-18
"""Chances below this value are left out at the ends of a distribution."""
STEPS = 10_000
"""Shares of stake are searched in steps of one part of this number."""


@dataclass(frozen=True, slots=True)
class Population:
    """Distribution of the stake of a pool. Raises `MalformedValue` for a share outside [0, 1], or for less than one seed."""

    hostile: Fraction
    """Share of all stake that hostile verifiers have. They act as one party against the truth."""
    absent: Fraction = Fraction(0)
    """Share of the remaining stake that never votes."""
    tries: int = 1
    """Number of seeds among which the hostile verifiers can choose, in each round again."""

    def __post_init__(self) -> None:
        if not (0 <= self.hostile <= 1 and 0 <= self.absent <= 1 and self.tries >= 1):
            raise MalformedValue("population", f"hostile {self.hostile}, absent {self.absent}, {self.tries} seeds")


@dataclass(frozen=True, slots=True)
class Level:
    """Number of seats and quorum of one committee level."""

    seats: int
    """Number of seats."""
    quorum: int
    """Number of seats that a verdict needs, more than half."""


@dataclass(frozen=True, slots=True)
class RoundChances:
    """Chances of the three possible ends of one round. They sum to 1."""

    taken: float
    """Chance that the hostile verifiers have a quorum."""
    stalled: float
    """Chance that neither side has a quorum."""
    kept: float
    """Chance that the honest verifiers have a quorum."""


@dataclass(frozen=True, slots=True)
class DisputeChances:
    """Chances of the ends of a dispute."""

    honest_slashed: float
    """Chance that the operator is slashed although the claim is true."""
    fraud_passes: float
    """Chance that the claim is upheld although it is false."""
    void: float
    """Chance that there is no verdict. Then a true claim loses its receipt, and a false claim costs no slash."""
    rounds: float
    """Expected number of rounds."""

    @property
    def convicted(self) -> float:
        """Chance that the operator is slashed if the claim is false."""
        return max(0.0, 1 - self.fraud_passes - self.void)


def levels_of(params: ParamSet) -> tuple[Level, ...]:
    """Returns the committee levels of a dispute under these parameters."""
    seats = params.committee.seats[: params.committee.rounds]
    return tuple(Level(count, params.quorum(count)) for count in seats)


@lru_cache(8192)
def quorum_chance(level: Level, share: Fraction) -> Fraction:
    """Returns the chance that a party with `share` of the stake gets a quorum of the level's seats, drawn with replacement."""
    hit, miss, whole = share.numerator, share.denominator - share.numerator, share.denominator
    ways = (
        math.comb(level.seats, n) * hit**n * miss ** (level.seats - n) for n in range(level.quorum, level.seats + 1)
    )  # fmt: skip
    return Fraction(sum(ways), whole**level.seats)


def round_chances(level: Level, people: Population) -> RoundChances:
    """Returns the chances of one round.

    The hostile verifiers take the seed that suits them best: they prefer a quorum to a stall.
    """
    taken = quorum_chance(level, people.hostile)
    kept = quorum_chance(level, (1 - people.hostile) * (1 - people.absent))
    if taken == 1:
        return RoundChances(1.0, 0.0, 0.0)
    # Computed with logarithms, because most of these chances are too small for 1 - p in a float.
    never = people.tries * _log_of(1 - taken)
    always_kept = people.tries * _log_of(kept)
    stalled = math.exp(never) * -math.expm1(people.tries * _log_of(1 - (1 - taken - kept) / (1 - taken)))
    return RoundChances(-math.expm1(never), stalled, math.exp(always_kept))


def _log_of(chance: Fraction) -> float:
    missing = float(1 - chance)
    return math.log1p(-missing) if missing < 1 else -math.inf


def chances_by_quorum(levels: Sequence[Level], people: Population) -> DisputeChances:
    """Returns the chances by the network's rule: every verdict needs a quorum, and without one the next level decides.

    Under this rule a true and a false claim have the same risk of a wrong verdict.
    """
    wrong, rounds, reached = 0.0, 0.0, 1.0
    for level in levels:
        one = round_chances(level, people)
        rounds += reached
        wrong += reached * one.taken
        reached *= one.stalled
    return DisputeChances(honest_slashed=wrong, fraud_passes=wrong, void=reached, rounds=rounds)


def chances_by_paper_rule(level: Level, people: Population) -> DisputeChances:
    """Returns the chances by the paper's rule: there is one round, and a claim without a quorum is convicted."""
    only = round_chances(level, people)
    return DisputeChances(honest_slashed=only.taken + only.stalled, fraud_passes=only.taken, void=0.0, rounds=1.0)


# --- capture ---


class Aim(enum.StrEnum):
    """Aim of the hostile verifiers in a dispute."""

    CONTROL = "control"
    """The hostile verifiers decide the verdict."""
    STALL = "stall"
    """The right verdict does not come: the hostile verifiers decide the verdict, or there is none."""


def success(aim: Aim, levels: Sequence[Level], people: Population) -> float:
    """Returns the chance that the hostile verifiers reach their aim in one dispute."""
    found = chances_by_quorum(levels, people)
    return found.honest_slashed if aim is Aim.CONTROL else min(1.0, found.honest_slashed + found.void)


def least_share(aim: Aim, levels: Sequence[Level], absent: Fraction, tries: int, chance: float) -> Fraction:
    """Returns the least share of the stake with which hostile verifiers reach their aim in a dispute with at least this chance.

    The share is a multiple of 1/10,000. Returns 1 if no smaller share suffices.
    """

    def suffices(steps: int) -> bool:
        return success(aim, levels, Population(Fraction(steps, STEPS), absent, tries)) >= chance

    return Fraction(bisect.bisect_left(range(STEPS), True, key=suffices), STEPS)


def stake_owned(share: Fraction, total_wei: int) -> int:
    """Returns the stake of a party that owns this share of all present stake, rounded up."""
    return math.ceil(share * total_wei)


def stake_added(share: Fraction, others_wei: int) -> float:
    """Returns the stake that a newcomer must add to own this share beside the others: others · h / (1 - h).

    Returns infinity if the share is 1.
    """
    return float(others_wei * share / (1 - share)) if share < 1 else math.inf


# --- light audits ---


def drawn_chance(rate_bps: int, seats: int) -> float:
    """Returns the chance that a verifier with `seats` audit seats is drawn for one receipt (`sortition.audit_is_drawn`)."""
    return min(1.0, rate_bps * seats / BPS)


def auditors_at_least(mean: float, count: int) -> float:
    """Returns the chance that a receipt has at least `count` (1 or 2) auditors.

    Assumes many small verifiers, so that the number of auditors has a Poisson distribution with this mean.
    """
    one = -math.expm1(-mean)
    return one if count == 1 else one - mean * math.exp(-mean)


def mean_auditors_for(chance: float, count: int) -> float:
    """Returns the mean number of auditors per receipt at which at least `count` (1 or 2) auditors come with the chance
    `chance`."""
    low, high = 0.0, MOST_MEAN
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if auditors_at_least(middle, count) < chance else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class CountDistribution:
    """Distribution of a number of auditors."""

    start: int
    """Smallest number with a chance."""
    masses: tuple[float, ...]
    """Chances of `start` and of the numbers after it."""

    def mean(self) -> float:
        """Returns the expected number of auditors."""
        return math.fsum(number * mass for number, mass in enumerate(self.masses, self.start))

    def at_least(self, count: int) -> float:
        """Returns the chance that there are `count` or more auditors."""
        return min(1.0, math.fsum(self.masses[max(0, count - self.start) :]))


def auditor_count(rate_bps: int, seats: Sequence[int]) -> CountDistribution:
    """Returns the distribution of the number of drawn auditors of one receipt.

    `seats` are the audit seats of each verifier. The result is exact, because each verifier is drawn independently.
    """
    total = CountDistribution(0, (1.0,))
    for own, verifiers in Counter(seats).items():
        total = _sum_of(total, _binomial(verifiers, drawn_chance(rate_bps, own)))
    return total


def _binomial(trials: int, chance: float) -> CountDistribution:
    if chance in (0.0, 1.0):
        return CountDistribution(trials if chance else 0, (1.0,))
    hit, miss = math.log(chance), math.log1p(-chance)
    whole = math.lgamma(trials + 1)
    logs = (
        whole - math.lgamma(n + 1) - math.lgamma(trials - n + 1) + n * hit + (trials - n) * miss for n in range(trials + 1)
    )  # fmt: skip
    return _trimmed(0, [math.exp(each) for each in logs])


def _sum_of(one: CountDistribution, other: CountDistribution) -> CountDistribution:
    masses = [0.0] * (len(one.masses) + len(other.masses))
    for place, mass in enumerate(one.masses):
        for step, factor in enumerate(other.masses, place):
            masses[step] += mass * factor
    return _trimmed(one.start + other.start, masses)


def _trimmed(start: int, masses: list[float]) -> CountDistribution:
    kept = [place for place, mass in enumerate(masses) if mass > LEAST_MASS]
    return CountDistribution(start + kept[0], tuple(masses[kept[0] : kept[-1] + 1]))


def audits_convince(honest: CountDistribution, hostile: CountDistribution, mismatches: int) -> float:
    """Returns the chance that the audit results of a false receipt make a watchtower dispute it (`strategies.Defend`).

    Every drawn honest auditor reports a mismatch, and every drawn hostile auditor a match. A watchtower wants at least
    `mismatches` mismatches, and more mismatches than matches.
    """
    pairs = enumerate(hostile.masses, hostile.start)
    return min(1.0, math.fsum(mass * honest.at_least(max(mismatches, number + 1)) for number, mass in pairs))
