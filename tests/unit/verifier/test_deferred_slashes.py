"""Slashed stake that arrives late is fetched and shared, once each time, by whoever's turn it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.decisions.actions import Action, CollectReport, CollectSlash
from bytewise.protocol.decisions.disputes import MovePolicy
from bytewise.protocol.errors.actors import TryAgain
from chain.client.artifacts import interface
from tests.fixtures.builders import word
from tests.fixtures.verifier.recording_sender import RecordingSender
from tests.fixtures.verifier.verifier_fixture import VerifierFixture
from tests.fixtures.verifier.withholding import MOVES, TOWER
from verifier.executor import journal_entry, make_move
from verifier.refusals import REMEMBERED_S
from verifier.stake import DeferredPayments
from verifier.watch.chain_events import SETTLED_BLOCKS

OURS = MovePolicy(turns=1)


def look(
    setup: VerifierFixture, part: DeferredPayments, blocks: int = SETTLED_BLOCKS, seconds: int = REMEMBERED_S
) -> set[Action]:
    """What is decided so many blocks later."""
    setup.chain.number += blocks
    return set(part.step(setup.chain.pass_time(seconds)))


def test_deferred_payment_is_fetched_and_shared_and_later_ones_again(setup: VerifierFixture) -> None:
    pot, sent = word("pot"), RecordingSender()
    part = DeferredPayments(setup.chain, 1, TOWER, OURS)
    assert look(setup, part) == set() and setup.chain.trials == [], "a native vault pays at once"
    setup.chain.deferred.append((7, pot, setup.chain.number + 1))
    assert look(setup, part) == set() and len(setup.chain.trials) == 2, "EigenLayer does not pay yet"
    setup.chain.arrived.add(7)
    assert look(setup, part) == {CollectSlash(7)}
    setup.chain.arrived = {pot}
    assert look(setup, part, seconds=3 * REMEMBERED_S) == {CollectReport(pot, 1)}
    setup.chain.arrived = set()
    setup.chain.deferred.append((9, pot, setup.chain.number + 1))
    setup.chain.arrived = {9, pot}
    actions = look(setup, part, seconds=8 * REMEMBERED_S)
    assert actions == {CollectSlash(9), CollectReport(pot, 2)}
    for action in (CollectSlash(9), CollectReport(pot, 1), CollectReport(pot, 2)):
        make_move(sent, action)
        assert journal_entry(action)[1]
    assert set(sent.sent) == {("fetch", 9), ("share", pot, 1), ("share", pot, 2)}


def test_deferred_payments_are_checked_seldom_and_in_turn(setup: VerifierFixture) -> None:
    setup.chain.deferred.append((7, word("pot"), 1))
    setup.chain.arrived |= {7, word("pot")}
    part, others = DeferredPayments(setup.chain, 1, TOWER, OURS), DeferredPayments(setup.chain, 1, TOWER, MOVES)
    assert look(setup, others) == set() and setup.chain.reads == [], "another's turn"
    assert look(setup, part) == {CollectSlash(7), CollectReport(word("pot"), 1)}
    reads = len(setup.chain.reads)
    assert look(setup, part, blocks=1) == set() and len(setup.chain.reads) == reads


def test_events_that_are_unreadable_now_are_read_later(setup: VerifierFixture) -> None:
    setup.chain.deferred.append((7, word("pot"), 1))
    setup.chain.arrived.add(7)
    part, setup.chain.readable = DeferredPayments(setup.chain, 1, TOWER, OURS), False
    with pytest.raises(TryAgain):
        look(setup, part)
    setup.chain.readable = True
    assert look(setup, part, blocks=1) == {CollectSlash(7)}


@given(slash=st.integers(0, 2**256 - 1), ref=st.binary(min_size=32, max_size=32), amount=st.integers(0, 2**256 - 1))
def test_contract_event_gives_slash_and_pot(slash: int, ref: bytes, amount: int) -> None:
    code = interface("EigenLayerStake")
    topics = [code.topic("PaymentDeferred"), bytes(12) + bytes.fromhex(TOWER[2:]), ref]
    found = code.event(topics, slash.to_bytes(32, "big") + amount.to_bytes(32, "big"))
    assert found is not None
    assert (found[1]["slashId"], found[1]["ref"], found[1]["account"]) == (slash, ref, TOWER)
