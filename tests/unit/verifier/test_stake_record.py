"""Where EigenLayer holds the stake, our record is renewed in time, and refused slashes are retried, once for each refusal."""

from pathlib import Path

import pytest

from bytewise.protocol.decisions.actions import Action, RetrySlash, SyncStake
from bytewise.protocol.decisions.disputes import MovePolicy
from bytewise.protocol.errors.actors import TryAgain
from tests.fixtures.builders import signer, word
from tests.fixtures.verifier.recording_sender import Outgoing
from tests.fixtures.verifier.verifier_fixture import Town
from tests.fixtures.verifier.withholding import MOVES, TOWER
from verifier.executor import make_move, told
from verifier.node import Part
from verifier.stake.deferred_slashes import RefusedSlashes
from verifier.stake.refusals import QUESTIONS_PER_STEP, REMEMBERED_S
from verifier.stake.stake_record import OwnRecord
from verifier.watch.event_counter import SETTLED_BLOCKS

OURS = MovePolicy(turns=1)
LIFE, LIAR = 1000, signer("liar").address


def look(town: Town, part: Part, blocks: int = SETTLED_BLOCKS, seconds: int = REMEMBERED_S) -> set[Action]:
    """What is decided so many blocks later."""
    town.chain.number += blocks
    return set(part.step(town.chain.pass_time(seconds)))


def test_network_with_its_own_vault_reads_nothing(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.chain.staked[TOWER], town.chain.unslashed = 5, [(LIAR, word("ref"), 1)]
    for part in (OwnRecord(town.chain, 1, TOWER), RefusedSlashes(town.chain, 1, OURS)):
        assert look(town, part) == set() and town.chain.reads == town.chain.trials == []


def test_stake_record_is_made_renewed_and_follows_the_stake(tmp_path: Path) -> None:
    town, sent = Town(tmp_path), Outgoing()
    town.chain.life, part = LIFE, OwnRecord(town.chain, 1, TOWER)
    assert look(town, part) == set(), "no stake"
    town.chain.staked = {TOWER: 100, LIAR: 7}
    for _ in range(2):
        assert look(town, part) == {SyncStake(TOWER, 0)}, "until the chain shows it"
    made = town.chain.number
    town.chain.records = [(TOWER, made, 100), (LIAR, made + 1, 7)]
    assert look(town, part) == set()
    assert look(town, part, blocks=LIFE // 2) == {SyncStake(TOWER, made)}
    town.chain.records.append((TOWER, town.chain.number, 100))
    town.chain.staked[TOWER] = 120
    (due,) = look(town, part)
    assert due == SyncStake(TOWER, town.chain.number - SETTLED_BLOCKS - 1)
    for action in (due, SyncStake(TOWER, made), due):
        assert isinstance(action, SyncStake)
        make_move(sent, action)
        assert told(action) == (bytes.fromhex(TOWER[2:]), {"block": str(action.block)})
    assert set(sent.sent) == {("sync", TOWER, made), ("sync", TOWER, due.block)}


def test_action_refused_by_eigenlayer_is_retried_once_it_would_succeed(tmp_path: Path) -> None:
    town, ref, sent = Town(tmp_path), word("ref"), Outgoing()
    town.chain.life, part, others = LIFE, RefusedSlashes(town.chain, 1, OURS), RefusedSlashes(town.chain, 1, MOVES)
    town.chain.unslashed = [(LIAR, ref, 2)]
    assert look(town, others) == set() and town.chain.trials == [], "another's turn"
    assert look(town, part) == set() and town.chain.trials == [ref], "EigenLayer is paused"
    town.chain.yielding.add(ref)
    assert look(town, part) == {RetrySlash(LIAR, ref, 1)}
    town.chain.unslashed.append((LIAR, ref, town.chain.number))
    assert look(town, part) == {RetrySlash(LIAR, ref, 2)}, "it was refused once more"
    for times in (1, 2, 2):
        make_move(sent, RetrySlash(LIAR, ref, times))
    assert list(sent.sent) == [("retry", LIAR, ref, 1), ("retry", LIAR, ref, 2)]
    assert told(RetrySlash(LIAR, ref, 2)) == (ref, {"account": LIAR, "times": 2})


def test_many_refused_actions_are_retried_a_few_at_a_time(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.chain.life, part = LIFE, RefusedSlashes(town.chain, 1, OURS)
    refs = [word("ref", number) for number in range(3 * QUESTIONS_PER_STEP)]
    town.chain.unslashed = [(LIAR, ref, 2) for ref in refs]
    for step in range(1, 4):
        look(town, part, seconds=0)
        assert len(town.chain.trials) == step * QUESTIONS_PER_STEP
    assert sorted(town.chain.trials) == sorted(refs)


def test_stake_is_read_seldom_and_oftener_for_a_short_life_or_after_errors(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.chain.life, part = 40, OwnRecord(town.chain, 1, TOWER)
    look(town, part)
    reads = len(town.chain.reads)
    assert look(town, part, blocks=1) == set() and len(town.chain.reads) == reads
    town.chain.staked[TOWER], town.chain.readable = 9, False
    with pytest.raises(TryAgain):
        look(town, part, blocks=40 // 8)
    town.chain.readable = True
    assert look(town, part, blocks=1) == {SyncStake(TOWER, 0)}
