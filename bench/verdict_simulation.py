"""Simulates disputes with the network's own draw and tally, to compare them with the exact figures of
`bench/verdict_chances.py`."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from fractions import Fraction
from functools import cached_property
from typing import Any

from bench.verdict_chances import TAU, Setting, row, second
from bytewise.protocol.court.sortition import draw_seats
from bytewise.protocol.digests import out_hash
from bytewise.protocol.economics.chances import DisputeChances
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.units import Address, Digest
from tests.reference.verdict_rules import RevealedVote, tally

GROUP = 3
"""Number of accounts in each group: hostile, absent and honest. The stakes in a group are as 1 : 2 : 3."""
STAKE = 10**22
"""Stake of all accounts together, in wei."""
TRUTH, LIE, TRACE = (Digest(bytes([value]) * 32) for value in (1, 2, 3))
TAKEN, STALLED, KEPT = range(3)
"""Ends of a round, in the order in which the hostile party prefers them."""
SETTINGS = (
    *(Setting(seats, Fraction(n, 100), Fraction(0)) for seats in (7, 31) for n in (5, 10, 15, 20, 25, 30, 33, 35, 40)),
    *(Setting(15, Fraction(n, 100), Fraction(1, 10)) for n in (15, 30, 40)),
    *(Setting(7, Fraction(n, 100), Fraction(0), tries=8) for n in (15, 30, 40)),
)
"""Settings that are simulated. They are only a part of the grid, because each vote is hashed as on the network."""

Votes = list[RevealedVote]


class Population:
    """Accounts with their stakes, and their votes."""

    def __init__(self, setting: Setting) -> None:
        names = (Address(f"0x{i:040x}") for i in itertools.count(1))
        hostile = int(setting.hostile * STAKE)
        absent = int((1 - setting.hostile) * setting.absent * STAKE)
        groups = [list(_holders(names, amount)) for amount in (hostile, absent, STAKE - hostile - absent)]
        self.stakes = [holder for group in groups for holder in group if holder[1]]
        self._hostile = {name for name, _ in groups[0]}
        self._absent = {name for name, _ in groups[1]}

    def votes(self, seats: Counter[Address]) -> Votes:
        """Returns the votes of the accounts that hold these seats. Honest accounts vote TRUTH, hostile ones LIE, and absent ones
        do not vote."""
        return [
            RevealedVote(name, count, Outcome.EXECUTED, 0, LIE if name in self._hostile else TRUTH, TRACE, TRACE)
            for name, count in seats.items()
            if name not in self._absent
        ]


class Trial:
    """Seeds of one simulated dispute. Each rule and each claim is judged on the same committees."""

    def __init__(self, setting: Setting, people: Population, source: random.Random) -> None:
        self._setting, self._people, self._source = setting, people, source

    @cached_property
    def _first(self) -> list[Votes]:
        return self._committees(1, self._setting.seats)

    @cached_property
    def _last(self) -> list[Votes]:
        return self._committees(2, second(self._setting.seats))

    def _committees(self, number: int, seats: int) -> list[Votes]:
        seeds = (Digest(self._source.randbytes(32)) for _ in range(self._setting.tries))
        return [self._people.votes(Counter(draw_seats(seed, TRACE, number, seats, self._people.stakes))) for seed in seeds]

    def ends(self, claim_is_true: bool, paper_rule: bool) -> list[int]:
        """Returns the end of each round that was needed. The hostile party chooses the seed of each round."""
        first = min(end(votes, self._setting.seats, claim_is_true, paper_rule) for votes in self._first)
        if first != STALLED:
            return [first]
        return [first, min(end(votes, second(self._setting.seats), claim_is_true, paper_rule) for votes in self._last)]


def end(votes: Votes, seats: int, claim_is_true: bool, paper_rule: bool) -> int:
    """Returns the end of a round, by the network's own tally."""
    tokens = TRUTH if claim_is_true else LIE
    verdict = tally(seats, *TAU, votes, tokens, out_hash(tokens, TRACE), paper_rule).verdict
    if verdict is Verdict.NONE:
        return STALLED
    return KEPT if (verdict is Verdict.UPHELD) == claim_is_true else TAKEN


def simulate(setting: Setting, trials: int, seed: int) -> dict[str, DisputeChances]:
    """Simulates `trials` disputes and returns the shares of their ends for each rule. Equal seeds give equal results."""
    people, source = Population(setting), random.Random(seed)
    counts = {"paper": Counter[str](), "symmetric": Counter[str]()}
    for _ in range(trials):
        trial = Trial(setting, people, source)
        for name, count in counts.items():
            honest, fraud = (trial.ends(claim_is_true, name == "paper") for claim_is_true in (True, False))
            count["honest_slashed"] += honest[-1] == TAKEN
            count["fraud_passes"] += fraud[-1] == TAKEN
            count["void"] += fraud[-1] == STALLED
            count["rounds"] += len(fraud)
    names = DisputeChances.__dataclass_fields__
    return {rule: DisputeChances(**{name: count[name] / trials for name in names}) for rule, count in counts.items()}


def surprise(trials: int, hits: int, chance: float) -> float:
    """Returns the probability that independent trials of that chance give at least so many hits, or at most so few. A small value
    means disagreement."""
    if not 0 < chance < 1:
        return float(hits == round(trials * chance))
    logs = (_log_mass(trials, n, chance) for n in (range(hits, trials + 1) if hits > trials * chance else range(hits + 1)))
    return min(1.0, math.fsum(map(math.exp, logs)))


def _log_mass(trials: int, hits: int, chance: float) -> float:
    ways = math.lgamma(trials + 1) - math.lgamma(hits + 1) - math.lgamma(trials - hits + 1)
    return ways + hits * math.log(chance) + (trials - hits) * math.log1p(-chance)


def agreement(exact: dict[str, Any], found: dict[str, Any], trials: int) -> float:
    """Returns the smallest `surprise` of all figures of a row. The number of rounds counts as the chance of a second round."""
    pairs = (
        (exact[rule][name] - (name == "rounds"), found[rule][name] - (name == "rounds")) for rule in found for name in found[rule]
    )
    return min(surprise(trials, round(share * trials), chance) for chance, share in pairs)


def simulations(trials: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Returns every simulated setting: its simulated shares, and how well they agree with the exact shares."""
    return [_published(setting, trials, number, progress) for number, setting in enumerate(SETTINGS)]


def _published(setting: Setting, trials: int, number: int, progress: Callable[[str], None]) -> dict[str, Any]:
    progress(f"{number + 1} of {len(SETTINGS)}: {setting.seats} seats, {float(setting.hostile):.0%}, {setting.tries} tries")
    exact = row(setting)
    found = {rule: asdict(chances) for rule, chances in simulate(setting, trials, number).items()}
    worst = agreement(exact, found, trials)
    return {name: exact[name] for name in ("seats", "hostile", "absent", "tries")} | {
        "trials": trials,
        **found,
        "surprise": worst,
    }


def _holders(names: Iterator[Address], amount: int) -> Iterator[tuple[Address, int]]:
    parts = [amount * i // math.comb(GROUP + 1, 2) for i in range(1, GROUP)]
    yield from ((next(names), part) for part in (*parts, amount - sum(parts)))
