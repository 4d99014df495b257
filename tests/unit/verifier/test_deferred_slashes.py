"""Slashed stake that arrives late is fetched and shared, once each time, by whoever's turn it is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.decisions.actions import Action, CollectReport, CollectSlash
from bytewise.protocol.decisions.disputes import MovePolicy
from bytewise.protocol.errors.actors import TryAgain
from chain.client.artifacts import interface
from tests.fixtures.builders import word
from tests.fixtures.verifier.recording_sender import Outgoing
from tests.fixtures.verifier.verifier_fixture import Town
from tests.fixtures.verifier.withholding import MOVES, TOWER
from verifier.executor import make_move, told
from verifier.stake.deferred_slashes import LatePay
from verifier.stake.refusals import REMEMBERED_S
from verifier.watch.event_counter import SETTLED_BLOCKS

OURS = MovePolicy(turns=1)


def look(town: Town, part: LatePay, blocks: int = SETTLED_BLOCKS, seconds: int = REMEMBERED_S) -> set[Action]:
    """What is decided so many blocks later."""
    town.chain.number += blocks
    return set(part.step(town.chain.pass_time(seconds)))


def test_deferred_payment_is_fetched_and_shared_and_later_ones_again(tmp_path: Path) -> None:
    town, pot, sent = Town(tmp_path), word("pot"), Outgoing()
    part = LatePay(town.chain, 1, TOWER, OURS)
    assert look(town, part) == set() and town.chain.trials == [], "a native vault pays at once"
    town.chain.deferred.append((7, pot, town.chain.number + 1))
    assert look(town, part) == set() and len(town.chain.trials) == 2, "EigenLayer does not pay yet"
    town.chain.arrived.add(7)
    assert look(town, part) == {CollectSlash(7)}
    town.chain.arrived = {pot}
    assert look(town, part, seconds=3 * REMEMBERED_S) == {CollectReport(pot, 1)}
    town.chain.arrived = set()
    town.chain.deferred.append((9, pot, town.chain.number + 1))
    town.chain.arrived = {9, pot}
    actions = look(town, part, seconds=8 * REMEMBERED_S)
    assert actions == {CollectSlash(9), CollectReport(pot, 2)}
    for action in (CollectSlash(9), CollectReport(pot, 1), CollectReport(pot, 2)):
        make_move(sent, action)
        assert told(action)[1]
    assert set(sent.sent) == {("fetch", 9), ("share", pot, 1), ("share", pot, 2)}


def test_deferred_payments_are_checked_seldom_and_in_turn(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.chain.deferred.append((7, word("pot"), 1))
    town.chain.arrived |= {7, word("pot")}
    part, others = LatePay(town.chain, 1, TOWER, OURS), LatePay(town.chain, 1, TOWER, MOVES)
    assert look(town, others) == set() and town.chain.reads == [], "another's turn"
    assert look(town, part) == {CollectSlash(7), CollectReport(word("pot"), 1)}
    reads = len(town.chain.reads)
    assert look(town, part, blocks=1) == set() and len(town.chain.reads) == reads


def test_events_that_are_unreadable_now_are_read_later(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.chain.deferred.append((7, word("pot"), 1))
    town.chain.arrived.add(7)
    part, town.chain.readable = LatePay(town.chain, 1, TOWER, OURS), False
    with pytest.raises(TryAgain):
        look(town, part)
    town.chain.readable = True
    assert look(town, part, blocks=1) == {CollectSlash(7)}


@given(slash=st.integers(0, 2**256 - 1), ref=st.binary(min_size=32, max_size=32), amount=st.integers(0, 2**256 - 1))
def test_contract_event_gives_slash_and_pot(slash: int, ref: bytes, amount: int) -> None:
    code = interface("EigenLayerStake")
    topics = [code.topic("PaymentDeferred"), bytes(12) + bytes.fromhex(TOWER[2:]), ref]
    found = code.event(topics, slash.to_bytes(32, "big") + amount.to_bytes(32, "big"))
    assert found is not None
    assert (found[1]["slashId"], found[1]["ref"], found[1]["account"]) == (slash, ref, TOWER)
