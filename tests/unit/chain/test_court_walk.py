"""Random walks through disputes on a chain, beside the model of the court: equal after every step.

`--court-walks N` walks N ways instead of one.
"""

import random

import pytest

from bytewise.protocol.court.params import MAX_REARMS
from bytewise.protocol.court.phases import Event, Phase
from bytewise.protocol.records.statements import Verdict
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.court.builders import params
from tests.fixtures.court.contract_network import ENVIRONMENT, SHAPE
from tests.fixtures.court.parallel_court import CHALLENGERS, OPERATORS, ParallelCourt
from tests.fixtures.court.play import ANY_TIME, LEANINGS, Choose, alt_keys
from tests.reference.state import Dispute

DISPUTES = 4
"""Of one walk, and one more whose seeds are all lost."""

MOVES = 60
"""Most of one dispute: it ends long before, unless nobody could end it."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One walk for each number."""
    if "number" in metafunc.fixturenames:
        metafunc.parametrize("number", range(metafunc.config.getoption("--court-walks")))


def walk(beside: ParallelCourt, choose: Choose) -> None:
    """One dispute from a question to its last seat; now and then somebody tries what is not its turn, or sleeps."""
    found = opened(beside, choose)
    for _ in range(MOVES):
        if found.phase is Phase.FINAL:
            break
        move(beside, found, choose)
        if beside.court.breaker(ENVIRONMENT).held and choose([True, False]):
            beside.reset_breaker()
        found = beside.now(found)
    ended(beside, found, choose)


def opened(beside: ParallelCourt, choose: Choose) -> Dispute:
    """Somebody questions a fresh receipt."""
    what = beside.claim(choose(OPERATORS))
    assert beside.open(what, choose(CHALLENGERS), choose(alt_keys(what)), choose([*LEANINGS]))
    (found,) = (each for each in beside.court.disputes.values() if each.claim is what)
    return found


def sleepless(beside: ParallelCourt, found: Dispute, choose: Choose) -> None:
    """Everybody tries everything while the clock stands still."""
    beside.pause(25)
    for name in ANY_TIME:
        beside.attempt(name, found, choose)
    assert beside.now(found) == found
    beside.unpause()


def ended(beside: ParallelCourt, found: Dispute, choose: Choose) -> None:
    """Brings it to its end if it is not there, and pays every seat, once."""
    while beside.phase(found.id) is not Phase.FINAL:
        if beside.court.breaker(ENVIRONMENT).held:
            beside.reset_breaker()
        assert beside.phase(found.id) is Phase.AIRGAP, "it ends long before"
        beside.advance(beside.now(found), choose)
    found = beside.now(found)
    for number, one in enumerate(found.rounds, 1):
        # A draw that was given up seated nobody.
        while beside.now(found).settled_seats[number - 1] < one.drawn * one.seats:
            assert beside.do("settle_seats", found.id, None, found.id, number, choose([1, 2, 255]))
    assert not beside.do("settle_seats", found.id, None, found.id, 1, 255), "paid once"


def move(beside: ParallelCourt, found: Dispute, choose: Choose) -> None:
    """What somebody does next."""
    match choose(["advance"] * 14 + ["attempt"] * 3 + ["wait", "sleep", "refund"]):
        case "advance":
            beside.advance(found, choose)
        case "attempt":
            beside.attempt(choose(ANY_TIME), found, choose)
        case "wait":
            beside.wait(choose([3, 10]))
        case "sleep":
            beside.wait(choose([0, 70]))
            beside.rearm(found)
        case "refund" if choose([True, False]):
            beside.do("refund", found.id, Event.REFUND, found.id)


def test_contracts_and_model_agree_at_every_step(anvil: Anvil, number: int) -> None:
    choose = random.Random(number).choice
    beside = ParallelCourt(anvil, params(rounds=3), treasury=choose([20, 150, 1000]))
    beside.register_keys()
    for _ in range(DISPUTES):
        walk(beside, choose)
    found = opened(beside, choose)
    sleepless(beside, found, choose)
    for _ in range(MAX_REARMS + 1):
        over = SHAPE.epoch(beside.now(found).round.seed_block) * SHAPE.epoch_blocks
        beside.wait(over - beside.court.block)
        assert beside.rearm(beside.now(found))
    assert beside.phase(found.id) is Phase.AIRGAP
    ended(beside, beside.now(found), choose)
    assert beside.now(found).verdict is Verdict.DRAW
