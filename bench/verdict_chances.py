"""Chances of a dispute under two verdict rules with the deployed quorum and a second round (`docs/evidence/verdict-rules.md`)."""

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
    """One committee and who may sit in it."""

    seats: int
    """Of the first round; a second one has `second(seats)`."""
    hostile: Fraction
    """Share of all stake that acts as one against the truth."""
    absent: Fraction
    """Share of the other stake that never votes, and is known for it."""
    tries: int = 1
    """Seeds that the hostile choose among, in each round anew."""

    @property
    def people(self) -> Population:
        """Who holds the stake."""
        return Population(self.hostile, self.absent, self.tries)


def second(seats: int) -> int:
    """Seats of the larger round."""
    return 2 * seats + 1


def quorum(seats: int) -> int:
    """Seats that make a verdict, as the tally says."""
    return tally(seats, *TAU, (), ZERO_DIGEST, ZERO_DIGEST).quorum


def level(seats: int) -> Level:
    """A committee of this size."""
    return Level(seats, quorum(seats))


def tail(seats: int, share: Fraction) -> Fraction:
    """Chance that at least a quorum of `seats` seats falls to `share` of the stake."""
    return quorum_chance(level(seats), share)


def best_of_tries(seats: int, setting: Setting) -> RoundChances:
    """One round of `seats` seats."""
    return round_chances(level(seats), setting.people)


def paper(setting: Setting) -> DisputeChances:
    """The paper's rule: one round, and silence convicts."""
    return chances_by_paper_rule(level(setting.seats), setting.people)


def symmetric(setting: Setting) -> DisputeChances:
    """Ours: two rounds at most, and only a quorum convicts."""
    return chances_by_quorum((level(setting.seats), level(second(setting.seats))), setting.people)


def row(setting: Setting) -> dict[str, Any]:
    """One setting as it is published."""
    shares = {"hostile": float(setting.hostile), "absent": float(setting.absent)}
    return {"seats": setting.seats, **shares, "tries": setting.tries} | {
        rule.__name__: {name: float(f"{value:.6g}") for name, value in asdict(rule(setting)).items()}
        for rule in (paper, symmetric)
    }
