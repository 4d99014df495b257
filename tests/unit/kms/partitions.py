"""Ceremonies in which chosen shards are cut off in a chosen phase: what is asked of them is lost, or what they answer."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.keys.ceremony import Plan
from bytewise.protocol.keys.ceremony_log import Exchange, ExchangeAnswer
from bytewise.protocol.units import Address
from kms.ceremony.coordinator import Scribe, ShardLink
from kms.ceremony.state import Ceremony, Phase
from tests.unit.kms.offices import Office, Turns, scribe_over
from tests.unit.kms.test_ceremony_desks import PHASE_S, numbered, shares_make_the_key


class Cut(NamedTuple):
    """A partition."""

    phase: Phase
    shards: frozenset[int]
    """By number, from 1."""
    loses: str
    """`request` or `answer`."""


PHASES = (Phase.JOINING, Phase.DEALING, Phase.JUDGING, Phase.CONFIRMING)
"""Of all ceremonies but repairs."""


def cuts(phases: tuple[Phase, ...], count: int) -> Iterator[Cut]:
    """Every phase, with every set of shards, losing either."""
    numbers = range(1, count + 1)
    return losses(phases, [frozenset(each) for size in numbers for each in itertools.combinations(numbers, size)])


def losses(phases: tuple[Phase, ...], sets: Iterable[frozenset[int]]) -> Iterator[Cut]:
    """Every phase, with each of these sets of shards, losing either."""
    for phase, shards, loses in itertools.product(phases, sets, ("request", "answer")):
        yield Cut(phase, shards, loses)


class CutLink:
    """A way to a shard that is cut while somebody says so."""

    def __init__(self, link: ShardLink, loses: str, is_cut: Callable[[], bool]) -> None:
        self._link, self._loses, self._is_cut = link, loses, is_cut

    def exchange(self, asked: Exchange, timeout_s: float) -> ExchangeAnswer:
        """As the scribe asks."""
        cut = self._is_cut()
        if cut and self._loses == "request":
            raise TryAgain("shard", "the request is lost")
        answer = self._link.exchange(asked, timeout_s)
        if cut:
            raise TryAgain("shard", "the answer is lost")
        return answer


def run_cut(folder: Path, agreed: Plan, ways: Mapping[Address, ShardLink], cut: Cut) -> Ceremony:
    """A whole ceremony of shards 1 to n in the order of `ways`; a phase ends after vain turns, in which all are asked."""
    scribes: list[Scribe] = []

    def is_cut() -> bool:
        return scribes[0].state.phase is cut.phase

    links = {
        address: CutLink(way, cut.loses, is_cut) if number in cut.shards else way
        for number, (address, way) in enumerate(ways.items(), start=1)
    }
    scribes.append(scribe_over(folder, agreed, links))
    turns = Turns()
    return scribes[0].run(PHASE_S, 1.0, turns.clock, turns.wait)


def all_or_nothing(cut: Cut, state: Ceremony, shards: list[Office], before: Ceremony | None) -> None:
    """Asserts that any two who proved a share open, or nothing was made; with one of three cut off, or in judging, the former."""
    assert not state.lies
    if len(cut.shards) == 1 or cut.phase is Phase.JUDGING:
        assert state.phase is Phase.DONE, cut
        shares_make_the_key(state, {index: numbered(shards)[index] for index in state.partials})
        silent = cut.shards if cut.phase in (Phase.JOINING, Phase.CONFIRMING) else frozenset()
        assert set(state.partials) == set(numbered(shards)) - silent
    else:
        assert state.phase is Phase.FAILED and state.result is None, cut
    if before is not None:
        shares_make_the_key(before, numbered(shards))
