"""Chances of a dispute under two verdict rules, as tails of binomials in exact fractions (`docs/evidence/verdict-rules.md`)."""

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from bytewise.protocol.units import ZERO_DIGEST
from tests.reference.verdict_rules import tally

TAU = (2, 3)
"""The quorum that `chain/deployment/params.py` deploys."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One committee and who may sit in it."""

    seats: int
    """Of the first round; a second one has `second(seats)`."""
    hostile: Fraction
    """Share of all stake that acts as one against the truth."""
    absent: Fraction
    """Share of the other stake that never votes, and is known for it."""
    tries: int = 1
    """Seeds that the hostile choose among, in each round anew."""


@dataclass(frozen=True, slots=True)
class Round:
    """How one round ends; the three sum to 1."""

    taken: float
    """The hostile hold a quorum."""
    stalled: float
    """Nobody holds one."""
    kept: float
    """The honest hold a quorum."""


@dataclass(frozen=True, slots=True)
class Chances:
    """How a dispute ends."""

    honest_slashed: float
    """The claim is true and its operator is slashed."""
    fraud_passes: float
    """The claim is false and upheld."""
    void: float
    """No verdict: a true claim loses its receipt, a false one goes without a slash."""
    rounds: float
    """Expected number of rounds."""


def second(seats: int) -> int:
    """Seats of the larger round."""
    return 2 * seats + 1


def quorum(seats: int) -> int:
    """Seats that make a verdict, as the tally says."""
    return tally(seats, *TAU, (), ZERO_DIGEST, ZERO_DIGEST).quorum


@cache
def tail(seats: int, share: Fraction) -> Fraction:
    """Chance that at least a quorum of `seats` seats, drawn with replacement, falls to `share` of the stake."""
    hit, miss, whole = share.numerator, share.denominator - share.numerator, share.denominator
    ways = (math.comb(seats, n) * hit**n * miss ** (seats - n) for n in range(quorum(seats), seats + 1))
    return Fraction(sum(ways), whole**seats)


def best_of_tries(seats: int, setting: Setting) -> Round:
    """One round of `seats` seats, in which the hostile take the seed that suits them best: their quorum before a stall."""
    taken = tail(seats, setting.hostile)
    kept = tail(seats, (1 - setting.hostile) * (1 - setting.absent))
    # In logarithms: most of these are far below what 1 - p can show in a float.
    never = setting.tries * math.log1p(-float(taken))
    always_kept = setting.tries * math.log1p(-float(1 - kept))
    stalled = math.exp(never) * -math.expm1(setting.tries * math.log1p(-float((1 - taken - kept) / (1 - taken))))
    return Round(-math.expm1(never), stalled, math.exp(always_kept))


def paper(setting: Setting) -> Chances:
    """The paper's rule: one round, and silence convicts."""
    only = best_of_tries(setting.seats, setting)
    return Chances(honest_slashed=only.taken + only.stalled, fraud_passes=only.taken, void=0.0, rounds=1.0)


def symmetric(setting: Setting) -> Chances:
    """Ours: two rounds at most, and only a quorum convicts. What a true and a false claim risk is the same number."""
    first, last = (best_of_tries(seats, setting) for seats in (setting.seats, second(setting.seats)))
    wrong = first.taken + first.stalled * last.taken
    return Chances(honest_slashed=wrong, fraud_passes=wrong, void=first.stalled * last.stalled, rounds=1 + first.stalled)


def row(setting: Setting) -> dict[str, Any]:
    """One setting as it is published."""
    shares = {"hostile": float(setting.hostile), "absent": float(setting.absent)}
    return {"seats": setting.seats, **shares, "tries": setting.tries} | {
        rule.__name__: {name: float(f"{value:.6g}") for name, value in asdict(rule(setting)).items()}
        for rule in (paper, symmetric)
    }
