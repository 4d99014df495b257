"""Computes the chances of a dispute's ends under two verdict rules, with the deployed quorum and a second round.

`docs/evidence/verdict-rules.md` explains the figures.
"""

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from bytewise.protocol.economics.chances import (
    DisputeChances,
    Level,
    Population,
    RoundChances,
    chances_by_paper_rule,
    chances_by_quorum,
    quorum_chance,
    round_chances,
)
from bytewise.protocol.units import ZERO_DIGEST
from tests.reference.verdict_rules import tally

TAU = (2, 3)
"""The quorum that `chain/deployment/params.py` deploys."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One committee, and the distribution of the stake from which it is drawn."""

    seats: int
    """Seats of the first round. A second round has `second(seats)` seats."""
    hostile: Fraction
    """Share of all stake that acts as one party against the truth."""
    absent: Fraction
    """Share of the remaining stake that never votes."""
    tries: int = 1
    """Number of seeds among which the hostile party can choose, in each round again."""

    @property
    def people(self) -> Population:
        """The same distribution as the model's `Population`."""
        return Population(self.hostile, self.absent, self.tries)


def second(seats: int) -> int:
    """Returns the seats of the second, larger round."""
    return 2 * seats + 1


def quorum(seats: int) -> int:
    """Returns the seats that make a verdict, as the tally computes them."""
    return tally(seats, *TAU, (), ZERO_DIGEST, ZERO_DIGEST).quorum


def level(seats: int) -> Level:
    """Returns a committee with this number of seats."""
    return Level(seats, quorum(seats))


def tail(seats: int, share: Fraction) -> Fraction:
    """Returns the chance that at least a quorum of `seats` seats falls to `share` of the stake."""
    return quorum_chance(level(seats), share)


def best_of_tries(seats: int, setting: Setting) -> RoundChances:
    """Returns the chances of one round with `seats` seats, in which the hostile party chooses the best of its seeds."""
    return round_chances(level(seats), setting.people)


def paper(setting: Setting) -> DisputeChances:
    """Returns the chances under the paper's rule: one round, and silence convicts."""
    return chances_by_paper_rule(level(setting.seats), setting.people)


def symmetric(setting: Setting) -> DisputeChances:
    """Returns the chances under our rule: at most two rounds, and only a quorum convicts."""
    return chances_by_quorum((level(setting.seats), level(second(setting.seats))), setting.people)


def row(setting: Setting) -> dict[str, Any]:
    """Returns one setting with the chances under both rules, as a row of the results file."""
    shares = {"hostile": float(setting.hostile), "absent": float(setting.absent)}
    return {"seats": setting.seats, **shares, "tries": setting.tries} | {
        rule.__name__: {name: float(f"{value:.6g}") for name, value in asdict(rule(setting)).items()}
        for rule in (paper, symmetric)
    }
