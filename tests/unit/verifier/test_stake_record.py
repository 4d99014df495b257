"""Where EigenLayer holds the stake, our record is renewed in time, an old record of another loses its weight, and refused slashes
are retried, once for each refusal."""

import pytest

from bytewise.protocol.decisions.actions import Action, RefreshWeight, RetrySlash, SyncStake
from bytewise.protocol.decisions.disputes import MovePolicy
from bytewise.protocol.errors.actors import TryAgain
from tests.fixtures.builders import signer, word
from tests.fixtures.verifier.recording_sender import RecordingSender
from tests.fixtures.verifier.verifier_fixture import VerifierFixture
from tests.fixtures.verifier.withholding import MOVES, TOWER
from verifier.executor import journal_entry, make_move
from verifier.node import NodePart
from verifier.refusals import QUESTIONS_PER_STEP, REMEMBERED_S
from verifier.stake import RefusedSlashes, StakeRecorder, StaleWeights
from verifier.watch.chain_events import SETTLED_BLOCKS

OURS = MovePolicy(turns=1)
LIFE, LIAR = 1000, signer("liar").address


def look(setup: VerifierFixture, part: NodePart, blocks: int = SETTLED_BLOCKS, seconds: int = REMEMBERED_S) -> set[Action]:
    """What is decided so many blocks later."""
    setup.chain.number += blocks
    return set(part.step(setup.chain.pass_time(seconds)))


def test_network_with_its_own_vault_reads_nothing(setup: VerifierFixture) -> None:
    setup.chain.staked[TOWER], setup.chain.unslashed = 5, [(LIAR, word("ref"), 1)]
    setup.chain.stale = [(LIAR, 40)]
    for part in (
        StakeRecorder(setup.chain, 1, TOWER), StaleWeights(setup.chain, TOWER, OURS), RefusedSlashes(setup.chain, 1, OURS)
    ):  # fmt: skip
        assert look(setup, part) == set() and setup.chain.reads == setup.chain.trials == []


def test_stake_record_is_made_renewed_and_follows_the_stake(setup: VerifierFixture) -> None:
    sent = RecordingSender()
    setup.chain.life, part = LIFE, StakeRecorder(setup.chain, 1, TOWER)
    assert look(setup, part) == set(), "no stake"
    setup.chain.staked = {TOWER: 100, LIAR: 7}
    for _ in range(2):
        assert look(setup, part) == {SyncStake(TOWER, 0)}, "until the chain shows it"
    made = setup.chain.number
    setup.chain.records = [(TOWER, made, 100), (LIAR, made + 1, 7)]
    assert look(setup, part) == set()
    assert look(setup, part, blocks=LIFE // 2) == {SyncStake(TOWER, made)}
    setup.chain.records.append((TOWER, setup.chain.number, 100))
    setup.chain.staked[TOWER] = 120
    (due,) = look(setup, part)
    assert due == SyncStake(TOWER, setup.chain.number - SETTLED_BLOCKS - 1)
    for action in (due, SyncStake(TOWER, made), due):
        assert isinstance(action, SyncStake)
        make_move(sent, action)
        assert journal_entry(action) == (bytes.fromhex(TOWER[2:]), {"block": str(action.block)})
    assert set(sent.sent) == {("sync", TOWER, made), ("sync", TOWER, due.block)}


def test_weight_of_an_old_record_is_refreshed_one_at_a_time(setup: VerifierFixture) -> None:
    sent = RecordingSender()
    setup.chain.life, others = LIFE, StaleWeights(setup.chain, TOWER, MOVES)
    setup.chain.stale = [(TOWER, 40), (LIAR, 40), (signer("other").address, 40)]
    assert look(setup, others) == set() and setup.chain.reads == [], "another's turn"
    first = StaleWeights(setup.chain, TOWER, OURS)
    (due,) = look(setup, first)
    assert due == RefreshWeight(LIAR, 40), "the own record is renewed"
    assert look(setup, first, blocks=1) == set(), "one at a look"
    make_move(sent, due)
    assert journal_entry(due) == (bytes.fromhex(LIAR[2:]), {"block": "40"})
    setup.chain.stale.remove((LIAR, 40))
    assert look(setup, first) == {RefreshWeight(signer("other").address, 40)}
    setup.chain.stale = [(TOWER, 40)]
    assert look(setup, first) == set()
    assert list(sent.sent) == [("refresh", LIAR, 40)]


def test_action_refused_by_eigenlayer_is_retried_once_it_would_succeed(setup: VerifierFixture) -> None:
    ref, sent = word("ref"), RecordingSender()
    setup.chain.life, part, others = LIFE, RefusedSlashes(setup.chain, 1, OURS), RefusedSlashes(setup.chain, 1, MOVES)
    setup.chain.unslashed = [(LIAR, ref, 2)]
    assert look(setup, others) == set() and setup.chain.trials == [], "another's turn"
    assert look(setup, part) == set() and setup.chain.trials == [ref], "EigenLayer is paused"
    setup.chain.yielding.add(ref)
    assert look(setup, part) == {RetrySlash(LIAR, ref, 1)}
    setup.chain.unslashed.append((LIAR, ref, setup.chain.number))
    assert look(setup, part) == {RetrySlash(LIAR, ref, 2)}, "it was refused once more"
    for times in (1, 2, 2):
        make_move(sent, RetrySlash(LIAR, ref, times))
    assert list(sent.sent) == [("retry", LIAR, ref, 1), ("retry", LIAR, ref, 2)]
    assert journal_entry(RetrySlash(LIAR, ref, 2)) == (ref, {"account": LIAR, "times": 2})


def test_many_refused_actions_are_retried_a_few_at_a_time(setup: VerifierFixture) -> None:
    setup.chain.life, part = LIFE, RefusedSlashes(setup.chain, 1, OURS)
    refs = [word("ref", number) for number in range(3 * QUESTIONS_PER_STEP)]
    setup.chain.unslashed = [(LIAR, ref, 2) for ref in refs]
    for step in range(1, 4):
        look(setup, part, seconds=0)
        assert len(setup.chain.trials) == step * QUESTIONS_PER_STEP
    assert sorted(setup.chain.trials) == sorted(refs)


def test_stake_is_read_seldom_and_oftener_for_a_short_life_or_after_errors(setup: VerifierFixture) -> None:
    setup.chain.life, part = 40, StakeRecorder(setup.chain, 1, TOWER)
    look(setup, part)
    reads = len(setup.chain.reads)
    assert look(setup, part, blocks=1) == set() and len(setup.chain.reads) == reads
    setup.chain.staked[TOWER], setup.chain.readable = 9, False
    with pytest.raises(TryAgain):
        look(setup, part, blocks=40 // 8)
    setup.chain.readable = True
    assert look(setup, part, blocks=1) == {SyncStake(TOWER, 0)}
