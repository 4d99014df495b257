"""Withheld bytes are demanded once and in time, what nobody answers is ended or disputed, and no outage of ours costs a bond."""

import json
from dataclasses import replace

import pytest

from bytewise.protocol.decisions.actions import DemandList, Expire, ExpireList
from bytewise.protocol.decisions.demands import DemandKind, DemandState
from bytewise.protocol.merkle import batch_leaf, batch_root, verify_batch_proof
from bytewise.protocol.records.receipt import EmptyLeaf, SignedLeaf, list_subject, receipt_id
from bytewise.protocol.units import U32, U64, U256, Blob
from tests.fixtures.builders import ANCHOR, CHAIN_ID, DEMANDS, word
from tests.fixtures.verifier.demand_chain import CURE_S
from tests.fixtures.verifier.verifier_fixture import WINDOW_S, WORLD, VerifierFixture
from tests.fixtures.verifier.withholding import (
    BOND,
    MOVES,
    PAST_DEADLINE_S,
    POLICY,
    STRANGER,
    TOWER,
    TRY_S,
    demander,
    step,
    steps,
    withheld,
)
from verifier.watch.absence_check import HAND_IN_S, PAUSE_S
from verifier.watch.list_reader import CHECKED, FAULTY, NEW


def test_withheld_list_is_demanded_once_after_several_attempts(setup: VerifierFixture) -> None:
    withheld(setup)
    part = demander(setup)
    assert step(setup, part) == (), "two tries are not several"
    found = steps(setup, part)
    assert set(found) == {DemandList(0, BOND)}, "and the outbox makes one of them"
    setup.chain.demand(list_subject(DEMANDS, 0), DemandKind.LIST, TOWER, BOND)
    assert steps(setup, part, 3) == []
    assert steps(setup, demander(setup), 3) == [], "nor after a restart"


def test_our_own_outage_costs_no_budget(setup: VerifierFixture) -> None:
    header = setup.anchor(setup.signed(1))
    setup.shelf.away = True
    part = demander(setup)
    setup.chain.pass_time(PAST_DEADLINE_S)
    for _ in range(20):
        assert step(setup, part, TRY_S) == ()
    setup.shelf.away = False
    assert steps(setup, part, 9) == [] and setup.archive.batch(0).state == CHECKED  # type: ignore[union-attr]
    assert header.locator in setup.shelf.blobs


def test_store_that_recovers_without_a_list_is_believed(setup: VerifierFixture) -> None:
    """What failed while we were away is asked for again before anything is demanded, and again between two proofs."""
    withheld(setup)
    setup.shelf.away = True
    part = demander(setup)
    assert steps(setup, part, 6) == []
    setup.shelf.away = False
    assert DemandList(0, BOND) in steps(setup, part, 2 + PAUSE_S // TRY_S)


def test_interrupted_connection_proves_nothing(setup: VerifierFixture) -> None:
    withheld(setup)
    part = demander(setup)
    plain = setup.store.works
    words: list[bool] = []

    def works() -> bool:
        words.append(plain() if len(words) % 2 == 0 else False)
        return words[-1]

    setup.store.works = works  # type: ignore[method-assign]
    assert steps(setup, part, 6) == [] and words[:2] == [True, False]


def test_missing_list_is_fetched_again_after_a_chain_outage(setup: VerifierFixture) -> None:
    """A list that was gone may be there now; and what was decided then waits in the outbox no longer than a minute."""
    header, data = withheld(setup)
    part = demander(setup)
    assert DemandList(0, BOND) in steps(setup, part)
    setup.shelf.blobs[header.locator] = data
    assert part.step(setup.chain.pass_time(WINDOW_S // 2)) == ()
    part.ask(DemandList(0, BOND), setup.sender)
    assert setup.sender.within == {"demand list": HAND_IN_S}


def test_list_that_arrives_at_the_last_attempt_is_not_demanded(setup: VerifierFixture) -> None:
    header, data = withheld(setup)
    part = demander(setup, replace(POLICY, tries=1))
    setup.records.step(setup.chain.now())
    setup.shelf.blobs[header.locator] = data
    assert part.step(setup.chain.now()) == ()
    assert setup.archive.batch(0).state == CHECKED  # type: ignore[union-attr]


@pytest.mark.parametrize(("left_s", "demanded"), [(POLICY.margin_s - 1, False), (POLICY.margin_s, True)])
def test_no_demand_is_made_in_the_last_seconds(setup: VerifierFixture, left_s: int, demanded: bool) -> None:
    withheld(setup)
    part = demander(setup)
    until = setup.chain.headers[0].anchored_at + WINDOW_S - left_s
    setup.chain.pass_time(until - setup.chain.timestamp - 3 * TRY_S)
    setup.records.step(setup.chain.now())
    for _ in range(3):
        found = step(setup, part, TRY_S)
    assert bool(found) is demanded and setup.chain.timestamp == until


def test_list_that_does_not_fit_its_root_is_demanded_and_answer_is_used(setup: VerifierFixture) -> None:
    """The hidden receipt is under the root; the list is of another one. DA need not be asked for that."""
    shown, hidden = setup.signed(1), setup.signed(1, cheat=True)
    empty = EmptyLeaf(WORLD.operator.address, U64(2), U256(CHAIN_ID))
    leaves = (SignedLeaf(hidden.receipt, hidden.signature), SignedLeaf(empty, WORLD.operator.sign(receipt_id(ANCHOR, empty))))
    nodes = [batch_leaf(receipt_id(ANCHOR, each.record), each.record.seq) for each in leaves]
    setup.anchor(shown, root=batch_root(nodes), count=U32(2))
    part = demander(setup)
    assert step(setup, part) == (DemandList(0, 2 * BOND),) and setup.archive.batch(0).state == FAULTY  # type: ignore[union-attr]
    subject = list_subject(DEMANDS, 0)
    setup.chain.demand(subject, DemandKind.LIST, TOWER, BOND)
    setup.reopen()
    part = demander(setup)
    assert step(setup, part) == ()
    setup.chain.leaves[subject] = leaves
    setup.chain.end(subject, DemandState.ANSWERED)
    step(setup, part)
    (live,) = setup.records.live
    assert live.seen.receipt_id == receipt_id(ANCHOR, hidden.receipt) and setup.archive.batch(0).state == CHECKED  # type: ignore[union-attr]
    assert verify_batch_proof(live.header.root, nodes[0], live.seen.proof)
    assert live.seen.signed.locator == "", "only its operator knows where its envelope is"


def test_answered_list_is_checked_like_any_other(setup: VerifierFixture) -> None:
    _, data = withheld(setup)
    part = demander(setup)
    steps(setup, part)
    subject = list_subject(DEMANDS, 0)
    setup.chain.answers[subject] = Blob(data)
    setup.chain.demand(subject, DemandKind.LIST, TOWER, BOND, ended=DemandState.ANSWERED)
    step(setup, part)
    assert [live.seen.finding for live in setup.records.live] == ["Good"], "at once, however often it had failed"


def test_expired_demand_is_ended_by_its_demander_first_and_later_by_anyone(setup: VerifierFixture) -> None:
    setup.anchor(setup.signed(1))
    ours, theirs, listed = word("ours"), word("theirs"), list_subject(DEMANDS, 0)
    setup.chain.demand(ours, DemandKind.ENVELOPE, TOWER, BOND)
    setup.chain.demand(theirs, DemandKind.ANCHOR, STRANGER, BOND)
    setup.chain.demand(listed, DemandKind.LIST, STRANGER, BOND)
    part = demander(setup, replace(POLICY, budget_wei=0))
    assert step(setup, part, CURE_S) == ()
    assert step(setup, part) == (Expire(ours),)
    assert step(setup, part, MOVES.overdue) == (Expire(ours), Expire(theirs)), "lists of others are in every snapshot"
    setup.chain.end(ours, DemandState.EXPIRED)
    setup.chain.end(theirs, DemandState.ANSWERED)
    assert step(setup, part) == ()
    assert not isinstance(listed, ExpireList)


def test_reorganised_demand_is_forgotten(setup: VerifierFixture) -> None:
    withheld(setup)
    part = demander(setup)
    setup.chain.demand(list_subject(DEMANDS, 0), DemandKind.LIST, STRANGER, BOND)
    assert steps(setup, part) == []
    setup.chain.claims.clear()
    setup.chain.branch = "another"
    assert DemandList(0, BOND) in steps(setup, part)


def test_demand_budget_is_read_from_the_chain(setup: VerifierFixture) -> None:
    """An operator that withholds only to be paid for its answers gets the budget and no more, restarts or not."""
    for seq in (1, 2, 3):
        header = setup.anchor(setup.signed(seq), first_seq=U64(seq))
        del setup.shelf.blobs[header.locator]
    setup.records.step(setup.chain.now())
    setup.chain.pass_time(PAST_DEADLINE_S)
    assert set(steps(setup, demander(setup), 5)) == {DemandList(0, BOND), DemandList(1, BOND)}
    for batch_id in (0, 1):
        setup.chain.demand(list_subject(DEMANDS, batch_id), DemandKind.LIST, TOWER, BOND)
    setup.chain.end(list_subject(DEMANDS, 0), DemandState.ANSWERED)
    part = demander(setup)
    assert steps(setup, part) == []
    setup.chain.end(list_subject(DEMANDS, 1), DemandState.EXPIRED)
    assert set(steps(setup, demander(setup))) == {DemandList(2, BOND)}, "that bond came back"


def test_batch_before_its_deadline_is_not_demanded(setup: VerifierFixture) -> None:
    header = setup.anchor(setup.signed(1))
    del setup.shelf.blobs[header.locator]
    part = demander(setup)
    assert steps(setup, part, 4) == [] and setup.archive.batch(0).state == NEW  # type: ignore[union-attr]


@pytest.mark.parametrize(("leaves", "short"), [(64, 1), (1_001, 0)], ids=["budget", "balance"])
def test_unaffordable_list_demand_is_logged_once(
    setup: VerifierFixture, capsys: pytest.CaptureFixture[str], leaves: int, short: int
) -> None:
    """A list costs a bond for each of its leaves."""
    # So many leaves are named; nothing of the list is to be had.
    setup.anchor(setup.signed(1), count=U32(leaves))
    setup.shelf.blobs.clear()
    setup.records.step(setup.chain.now())
    setup.chain.pass_time(PAST_DEADLINE_S)
    poor = demander(setup, replace(POLICY, budget_wei=leaves * BOND - short))
    capsys.readouterr()
    assert steps(setup, poor, 6) == []
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines() if "demand.foregone" in line]
    assert [(each["kind"], int(each["bond_wei"])) for each in told] == [("DemandList", leaves * BOND)]
    if short:
        rich = demander(setup, replace(POLICY, budget_wei=leaves * BOND))
        assert set(steps(setup, rich)) == {DemandList(0, leaves * BOND)}
