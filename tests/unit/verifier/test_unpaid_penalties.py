"""A penalty that found too little stake is taken when there is some, however late, and keeps nothing else back."""

from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.decisions.actions import DemandList, Expire
from bytewise.protocol.decisions.demands import DemandKind, DemandState
from bytewise.protocol.decisions.disputes import MovePolicy
from bytewise.protocol.records.receipt import list_subject
from tests.fixtures.builders import DEMANDS, word
from tests.fixtures.verifier.verifier_fixture import Town
from tests.fixtures.verifier.withholding import BOND, POLICY, STRANGER, TOWER, demander, step, steps, withheld
from verifier.demands import demand_index
from verifier.stake.refusals import MAX_REMEMBERED_S, REMEMBERED_S
from verifier.watch.event_counter import BLOCKS_PER_READ, SETTLED_BLOCKS


def test_penalty_that_found_too_little_stake_is_collected_when_it_returns(tmp_path: Path) -> None:
    town, listed, envelope = Town(tmp_path), list_subject(DEMANDS, 0), word("envelope")
    town.anchor(town.signed(1))
    for subject, kind, by in (
        (listed, DemandKind.LIST, TOWER),
        (envelope, DemandKind.ENVELOPE, TOWER),
        (word("theirs"), DemandKind.ANCHOR, STRANGER),
    ):
        town.chain.demand(subject, kind, by, BOND)
        town.chain.end(subject, DemandState.EXPIRED)
    part = demander(town, replace(POLICY, budget_wei=0))
    assert step(town, part) == () and town.chain.trials == [listed], "an envelope costs nothing, and others' are theirs"
    town.chain.owing |= {listed, word("theirs"), envelope}
    assert step(town, part) == (), "a refusal is remembered"
    assert step(town, part, REMEMBERED_S) == (Expire(listed, 1),)
    town.chain.end_again(listed)
    assert step(town, part) == (Expire(listed, 2),), "another time is another act"
    assert Expire(word("theirs"), 1) in step(town, demander(town, moves=MovePolicy(turns=1)))


def test_penalty_is_collected_however_late_and_then_left_alone(tmp_path: Path) -> None:
    town, late, paid = Town(tmp_path), word("late"), word("paid")
    for subject in (late, paid):
        town.chain.demand(subject, DemandKind.ANCHOR, TOWER, BOND)
        town.chain.end(subject, DemandState.EXPIRED)
    town.chain.paid.add(paid)
    for _ in range(2):
        # The second time as after a start.
        part = demander(town, replace(POLICY, budget_wei=0))
        assert step(town, part, 3 * POLICY.budget_s) == ()
        for _ in range(3):
            town.chain.trials.clear()
            assert step(town, part, MAX_REMEMBERED_S) == ()
        assert town.chain.trials == [late], "what is paid is asked about no more"
    town.chain.owing.add(late)
    assert step(town, part, MAX_REMEMBERED_S) == (Expire(late, 1),)


def test_uncollected_penalties_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demand_index, "MAX_UNPAID", 5)
    town, subjects = Town(tmp_path), [word("late", i) for i in range(7)]
    for subject in subjects:
        town.chain.demand(subject, DemandKind.ANCHOR, TOWER, BOND)
        town.chain.end(subject, DemandState.EXPIRED)
    part = demander(town, replace(POLICY, budget_wei=0))
    step(town, part, 3 * POLICY.budget_s)
    assert town.chain.trials == subjects[2:]


def test_penalty_that_cannot_be_counted_now_stops_no_demand(tmp_path: Path) -> None:
    town = Town(tmp_path)
    withheld(town)
    town.chain.demand(word("old"), DemandKind.ANCHOR, TOWER, BOND)
    town.chain.end(word("old"), DemandState.EXPIRED)
    town.chain.owing.add(word("old"))
    town.chain.readable = False
    part = demander(town)
    found = steps(town, part)
    assert DemandList(0, BOND) in found and word("old") in town.chain.trials, "the chain would take it, and gives no events"
    assert not any(isinstance(each, Expire) for each in found)
    town.chain.readable = True
    assert step(town, part)[-1] == Expire(word("old"), 1), "after all that something runs out for"


def test_demand_ends_are_counted_from_events_that_are_read_once(tmp_path: Path) -> None:
    town, late = Town(tmp_path), word("late")
    town.chain.demand(late, DemandKind.ANCHOR, TOWER, BOND)
    town.chain.end(late, DemandState.EXPIRED)
    town.chain.owing |= {late, word("later")}
    part = demander(town, replace(POLICY, budget_wei=0))
    town.chain.number += BLOCKS_PER_READ + SETTLED_BLOCKS
    assert step(town, part) == (Expire(late, 1),)
    settled = town.chain.number - SETTLED_BLOCKS
    assert town.chain.reads == [(1, BLOCKS_PER_READ), (BLOCKS_PER_READ + 1, settled), (settled + 1, town.chain.number)]
    town.chain.reads.clear()
    town.chain.end_again(late)
    town.chain.demand(word("later"), DemandKind.ANCHOR, TOWER, BOND)
    town.chain.end(word("later"), DemandState.EXPIRED)
    assert set(step(town, part)) == {Expire(late, 2), Expire(word("later"), 1)}, "another time is another act"
    assert sum(last - first + 1 for first, last in town.chain.reads) <= SETTLED_BLOCKS + 2, "once for both"
    town.chain.reads.clear()
    town.chain.branch, town.chain.expiries = "other", town.chain.expiries[1:]
    assert Expire(late, 1) in step(town, part) and town.chain.reads[0][0] == 1, (
        "a deep reorganisation: again from the first block"
    )
