"""The whole system as one property: whoever lies where, what is upheld or final is what an honest re-execution gives.

`--plays N` plays N plays instead of 25.
"""

from collections import Counter
from collections.abc import Iterator

import pytest

from bytewise.protocol.messages import Verdict
from bytewise.protocol.units import ZERO_DIGEST
from tests.anvil import running_anvil
from tests.liars import CHALLENGER, OPERATOR, VERIFIERS
from tests.plays import Play, drawn, simpler
from tests.whole_system import Fate, Story, WholeSystem, result_of

CONVICTIONS = (Verdict.OVERTURNED, Verdict.INVALID, Verdict.UNAVAILABLE)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeSystem]:
    """One chain for all plays of this file."""
    with running_anvil("--disable-block-gas-limit") as anvil:
        yield WholeSystem(anvil, tmp_path_factory.mktemp("system"))


def violations(system: WholeSystem, story: Story) -> list[str]:
    """What is not as it must be."""
    wrong = [f"{name}: {have} instead of {want}" for name, (have, want) in story.sums.items() if have != want]
    wrong += [f"{each.what}: lost {each.lost}" for each in story.penalties if each.lost < each.least]
    for fate in story.fates:
        differing = system.oracle.differences(fate.filed, fate.place, fate.served, fate.asked)
        wrong += [f"{sorted(differing)}, {fate.verdict.name}: {each}" for each in said_of(system, fate, differing)]
    return wrong


def said_of(system: WholeSystem, fate: Fate, differing: frozenset[str]) -> Iterator[str]:
    """Of one receipt."""
    questioned = fate.verdict is not Verdict.NONE
    if fate.is_final and differing and questioned:
        yield "final, and somebody honest questioned it"
    if fate.is_final != (fate.is_member and not fate.is_void and fate.verdict in (Verdict.NONE, Verdict.UPHELD)):
        yield f"final: {fate.is_final}"
    if fate.verdict is Verdict.UPHELD and differing:
        yield "upheld"
    if fate.verdict in CONVICTIONS and not differing:
        yield "convicted"
    if questioned:
        yield from wrong_votes(system, fate)
        yield from wrong_money(system, fate)


def wrong_votes(system: WholeSystem, fate: Fate) -> Iterator[str]:
    """Whom the contracts call right must have said what a re-execution finds."""
    found = system.oracle.found(fate.filed, fate.served)
    said = [result_of(vote) for vote in fate.right_votes]
    if not fate.is_mixed and any(each != found for each in said):
        yield f"right were {said}, and {found} is found"
    if fate.verdict in (*CONVICTIONS, Verdict.UPHELD) and found not in said:
        yield f"nobody was right who found {found}"
    if fate.replacement != (found.out_hash if fate.verdict is Verdict.OVERTURNED else ZERO_DIGEST):
        yield "replaced by another answer"


def wrong_money(system: WholeSystem, fate: Fate) -> Iterator[str]:
    """Each account by what it did."""
    money, gains = system.params.money, fate.gains
    convicted, operator = fate.verdict in CONVICTIONS, gains[OPERATOR.address]
    if fate.left:
        yield f"{fate.left} wei are left"
    if operator > -money.slash_amount if convicted else operator < 0:
        yield f"the operator has {operator}"
    least = {Verdict.UPHELD: -fate.paid[CHALLENGER], Verdict.DRAW: -money.fee_per_seat}.get(fate.verdict, 0)
    if gains[CHALLENGER] != least:
        yield f"the challenger has {gains[CHALLENGER]} and not {least}"
    for who in VERIFIERS:
        sat = [one for one in fate.rounds if who in one.seats]
        was_honest = [who in one.faithful for one in sat]
        if any(one.is_outnumbered for one in sat):
            continue
        if all(was_honest) and gains[who] < 0:
            yield f"who was honest has {gains[who]}"
        if not any(was_honest) and gains[who] > 0 and not (fate.verdict is Verdict.REFUNDED or fate.is_mixed):
            yield f"who was not has {gains[who]}"


def smallest(system: WholeSystem, play: Play) -> Play:
    """A play with less in it that something is wrong with too."""
    for less in simpler(play):
        if violations(system, system.play(less)):
            return smallest(system, less)
    return play


def test_upheld_is_true_and_final_is_true_whoever_lies(system: WholeSystem, pytestconfig: pytest.Config) -> None:
    met: Counter[Verdict] = Counter()
    for seed in range(pytestconfig.getoption("--plays")):
        play = drawn(seed)
        story = system.play(play)
        met.update(fate.verdict for fate in story.fates)
        if violations(system, story):
            least = smallest(system, play)
            raise AssertionError(f"play {seed}: {violations(system, system.play(least))} of {least}")
    assert met.keys() == set(Verdict), "each verdict comes up"
