"""A penalty that found too little stake is taken when there is some, however late, and keeps nothing else back."""

from dataclasses import replace

import pytest

from bytewise.protocol.decisions.actions import DemandList, Expire
from bytewise.protocol.decisions.demands import DemandKind, DemandState
from bytewise.protocol.decisions.disputes import MovePolicy
from bytewise.protocol.records.receipt import list_subject
from tests.fixtures.builders import DEMANDS, word
from tests.fixtures.verifier.verifier_fixture import VerifierFixture
from tests.fixtures.verifier.withholding import BOND, POLICY, STRANGER, TOWER, demander, step, steps, withheld
from verifier.refusals import MAX_REMEMBERED_S, REMEMBERED_S
from verifier.watch import open_windows
from verifier.watch.chain_events import BLOCKS_PER_READ, SETTLED_BLOCKS


def test_penalty_that_found_too_little_stake_is_collected_when_it_returns(setup: VerifierFixture) -> None:
    listed, envelope = list_subject(DEMANDS, 0), word("envelope")
    setup.anchor(setup.signed(1))
    for subject, kind, by in (
        (listed, DemandKind.LIST, TOWER),
        (envelope, DemandKind.ENVELOPE, TOWER),
        (word("theirs"), DemandKind.ANCHOR, STRANGER),
    ):
        setup.chain.demand(subject, kind, by, BOND)
        setup.chain.end(subject, DemandState.EXPIRED)
    part = demander(setup, replace(POLICY, budget_wei=0))
    assert step(setup, part) == () and setup.chain.trials == [listed], "an envelope costs nothing, and others' are theirs"
    setup.chain.owing |= {listed, word("theirs"), envelope}
    assert step(setup, part) == (), "a refusal is remembered"
    assert step(setup, part, REMEMBERED_S) == (Expire(listed, 1),)
    setup.chain.end_again(listed)
    assert step(setup, part) == (Expire(listed, 2),), "another time is another act"
    assert Expire(word("theirs"), 1) in step(setup, demander(setup, moves=MovePolicy(turns=1)))


def test_penalty_is_collected_however_late_and_then_left_alone(setup: VerifierFixture) -> None:
    late, paid = word("late"), word("paid")
    for subject in (late, paid):
        setup.chain.demand(subject, DemandKind.ANCHOR, TOWER, BOND, ended=DemandState.EXPIRED)
    setup.chain.paid.add(paid)
    for _ in range(2):
        # The second time as after a start.
        part = demander(setup, replace(POLICY, budget_wei=0))
        assert step(setup, part, 3 * POLICY.budget_s) == ()
        for _ in range(3):
            setup.chain.trials.clear()
            assert step(setup, part, MAX_REMEMBERED_S) == ()
        assert setup.chain.trials == [late], "what is paid is asked about no more"
    setup.chain.owing.add(late)
    assert step(setup, part, MAX_REMEMBERED_S) == (Expire(late, 1),)


def test_uncollected_penalties_do_not_fill_the_memory(setup: VerifierFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_windows, "MAX_UNPAID", 5)
    subjects = [word("late", i) for i in range(7)]
    for subject in subjects:
        setup.chain.demand(subject, DemandKind.ANCHOR, TOWER, BOND, ended=DemandState.EXPIRED)
    part = demander(setup, replace(POLICY, budget_wei=0))
    step(setup, part, 3 * POLICY.budget_s)
    assert setup.chain.trials == subjects[2:]


def test_penalty_that_cannot_be_counted_now_stops_no_demand(setup: VerifierFixture) -> None:
    withheld(setup)
    setup.chain.demand(word("old"), DemandKind.ANCHOR, TOWER, BOND, ended=DemandState.EXPIRED)
    setup.chain.owing.add(word("old"))
    setup.chain.readable = False
    part = demander(setup)
    found = steps(setup, part)
    assert DemandList(0, BOND) in found and word("old") in setup.chain.trials, "the chain would take it, and gives no events"
    assert not any(isinstance(each, Expire) for each in found)
    setup.chain.readable = True
    assert step(setup, part)[-1] == Expire(word("old"), 1), "after all that something runs out for"


def test_demand_ends_are_counted_from_events_that_are_read_once(setup: VerifierFixture) -> None:
    late = word("late")
    setup.chain.demand(late, DemandKind.ANCHOR, TOWER, BOND, ended=DemandState.EXPIRED)
    setup.chain.owing |= {late, word("later")}
    part = demander(setup, replace(POLICY, budget_wei=0))
    setup.chain.number += BLOCKS_PER_READ + SETTLED_BLOCKS
    assert step(setup, part) == (Expire(late, 1),)
    settled = setup.chain.number - SETTLED_BLOCKS
    assert setup.chain.reads == [(1, BLOCKS_PER_READ), (BLOCKS_PER_READ + 1, settled), (settled + 1, setup.chain.number)]
    setup.chain.reads.clear()
    setup.chain.end_again(late)
    setup.chain.demand(word("later"), DemandKind.ANCHOR, TOWER, BOND, ended=DemandState.EXPIRED)
    assert set(step(setup, part)) == {Expire(late, 2), Expire(word("later"), 1)}, "another time is another act"
    assert sum(last - first + 1 for first, last in setup.chain.reads) <= SETTLED_BLOCKS + 2, "once for both"
    setup.chain.reads.clear()
    setup.chain.branch, setup.chain.expiries = "other", setup.chain.expiries[1:]
    assert Expire(late, 1) in step(setup, part) and setup.chain.reads[0][0] == 1, (
        "a deep reorganisation: again from the first block"
    )
