"""Withheld bytes are demanded once and in time, what nobody answers is ended or disputed, and no outage of ours costs a bond."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.decisions.actions import DemandList, Expire, ExpireList
from bytewise.protocol.decisions.demands import DemandKind, DemandState
from bytewise.protocol.merkle import batch_leaf, batch_root, verify_batch_proof
from bytewise.protocol.records.receipt import EmptyLeaf, SignedLeaf, list_subject, receipt_id
from bytewise.protocol.units import U32, U64, U256, Blob
from tests.fixtures.builders import ANCHOR, CHAIN_ID, DEMANDS, word
from tests.fixtures.verifier.demand_chain import CURE_S
from tests.fixtures.verifier.verifier_fixture import WINDOW_S, WORLD, Town
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


def test_withheld_list_is_demanded_once_after_several_attempts(tmp_path: Path) -> None:
    town = Town(tmp_path)
    withheld(town)
    part = demander(town)
    assert step(town, part) == (), "two tries are not several"
    found = steps(town, part)
    assert set(found) == {DemandList(0, BOND)}, "and the outbox makes one of them"
    town.chain.demand(list_subject(DEMANDS, 0), DemandKind.LIST, TOWER, BOND)
    assert steps(town, part, 3) == []
    assert steps(town, demander(town), 3) == [], "nor after a restart"


def test_our_own_outage_costs_no_budget(tmp_path: Path) -> None:
    town = Town(tmp_path)
    header = town.anchor(town.signed(1))
    town.shelf.away = True
    part = demander(town)
    town.chain.pass_time(PAST_DEADLINE_S)
    for _ in range(20):
        assert step(town, part, TRY_S) == ()
    town.shelf.away = False
    assert steps(town, part, 9) == [] and town.archive.batch(0).state == CHECKED  # type: ignore[union-attr]
    assert header.locator in town.shelf.blobs


def test_store_that_recovers_without_a_list_is_believed(tmp_path: Path) -> None:
    """What failed while we were away is asked for again before anything is demanded, and again between two proofs."""
    town = Town(tmp_path)
    withheld(town)
    town.shelf.away = True
    part = demander(town)
    assert steps(town, part, 6) == []
    town.shelf.away = False
    assert DemandList(0, BOND) in steps(town, part, 2 + PAUSE_S // TRY_S)


def test_interrupted_connection_proves_nothing(tmp_path: Path) -> None:
    town = Town(tmp_path)
    withheld(town)
    part = demander(town)
    plain = town.store.works
    words: list[bool] = []

    def works() -> bool:
        words.append(plain() if len(words) % 2 == 0 else False)
        return words[-1]

    town.store.works = works  # type: ignore[method-assign]
    assert steps(town, part, 6) == [] and words[:2] == [True, False]


def test_missing_list_is_fetched_again_after_a_chain_outage(tmp_path: Path) -> None:
    """A list that was gone may be there now; and what was decided then waits in the outbox no longer than a minute."""
    town = Town(tmp_path)
    header, data = withheld(town)
    part = demander(town)
    assert DemandList(0, BOND) in steps(town, part)
    town.shelf.blobs[header.locator] = data
    assert part.step(town.chain.pass_time(WINDOW_S // 2)) == ()
    part.ask(DemandList(0, BOND), town.sender)
    assert town.sender.within == {"demand list": HAND_IN_S}


def test_list_that_arrives_at_the_last_attempt_is_not_demanded(tmp_path: Path) -> None:
    town = Town(tmp_path)
    header, data = withheld(town)
    part = demander(town, replace(POLICY, tries=1))
    town.records.step(town.chain.now())
    town.shelf.blobs[header.locator] = data
    assert part.step(town.chain.now()) == ()
    assert town.archive.batch(0).state == CHECKED  # type: ignore[union-attr]


@pytest.mark.parametrize(("left_s", "demanded"), [(POLICY.margin_s - 1, False), (POLICY.margin_s, True)])
def test_no_demand_is_made_in_the_last_seconds(tmp_path: Path, left_s: int, demanded: bool) -> None:
    town = Town(tmp_path)
    withheld(town)
    part = demander(town)
    until = town.chain.headers[0].anchored_at + WINDOW_S - left_s
    town.chain.pass_time(until - town.chain.timestamp - 3 * TRY_S)
    town.records.step(town.chain.now())
    for _ in range(3):
        found = step(town, part, TRY_S)
    assert bool(found) is demanded and town.chain.timestamp == until


def test_list_that_does_not_fit_its_root_is_demanded_and_answer_is_used(tmp_path: Path) -> None:
    """The hidden receipt is under the root; the list is of another one. DA need not be asked for that."""
    town = Town(tmp_path)
    shown, hidden = town.signed(1), town.signed(1, cheat=True)
    empty = EmptyLeaf(WORLD.operator.address, U64(2), U256(CHAIN_ID))
    leaves = (SignedLeaf(hidden.receipt, hidden.signature), SignedLeaf(empty, WORLD.operator.sign(receipt_id(ANCHOR, empty))))
    nodes = [batch_leaf(receipt_id(ANCHOR, each.record), each.record.seq) for each in leaves]
    town.anchor(shown, root=batch_root(nodes), count=U32(2))
    part = demander(town)
    assert step(town, part) == (DemandList(0, 2 * BOND),) and town.archive.batch(0).state == FAULTY  # type: ignore[union-attr]
    subject = list_subject(DEMANDS, 0)
    town.chain.demand(subject, DemandKind.LIST, TOWER, BOND)
    town.reopen()
    part = demander(town)
    assert step(town, part) == ()
    town.chain.leaves[subject] = leaves
    town.chain.end(subject, DemandState.ANSWERED)
    step(town, part)
    (live,) = town.records.live
    assert live.seen.receipt_id == receipt_id(ANCHOR, hidden.receipt) and town.archive.batch(0).state == CHECKED  # type: ignore[union-attr]
    assert verify_batch_proof(live.header.root, nodes[0], live.seen.proof)
    assert live.seen.signed.locator == "", "only its operator knows where its envelope is"


def test_answered_list_is_checked_like_any_other(tmp_path: Path) -> None:
    town = Town(tmp_path)
    _, data = withheld(town)
    part = demander(town)
    steps(town, part)
    subject = list_subject(DEMANDS, 0)
    town.chain.demand(subject, DemandKind.LIST, TOWER, BOND)
    town.chain.answers[subject] = Blob(data)
    town.chain.end(subject, DemandState.ANSWERED)
    step(town, part)
    assert [live.seen.finding for live in town.records.live] == ["Good"], "at once, however often it had failed"


def test_expired_demand_is_ended_by_its_demander_first_and_later_by_anyone(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.anchor(town.signed(1))
    ours, theirs, listed = word("ours"), word("theirs"), list_subject(DEMANDS, 0)
    town.chain.demand(ours, DemandKind.ENVELOPE, TOWER, BOND)
    town.chain.demand(theirs, DemandKind.ANCHOR, STRANGER, BOND)
    town.chain.demand(listed, DemandKind.LIST, STRANGER, BOND)
    part = demander(town, replace(POLICY, budget_wei=0))
    assert step(town, part, CURE_S) == ()
    assert step(town, part) == (Expire(ours),)
    assert step(town, part, MOVES.overdue) == (Expire(ours), Expire(theirs)), "lists of others are in every snapshot"
    town.chain.end(ours, DemandState.EXPIRED)
    town.chain.end(theirs, DemandState.ANSWERED)
    assert step(town, part) == ()
    assert not isinstance(listed, ExpireList)


def test_reorganised_demand_is_forgotten(tmp_path: Path) -> None:
    town = Town(tmp_path)
    withheld(town)
    part = demander(town)
    town.chain.demand(list_subject(DEMANDS, 0), DemandKind.LIST, STRANGER, BOND)
    assert steps(town, part) == []
    town.chain.claims.clear()
    town.chain.branch = "another"
    assert DemandList(0, BOND) in steps(town, part)


def test_demand_budget_is_read_from_the_chain(tmp_path: Path) -> None:
    """An operator that withholds only to be paid for its answers gets the budget and no more, restarts or not."""
    town = Town(tmp_path)
    for seq in (1, 2, 3):
        header = town.anchor(town.signed(seq), first_seq=U64(seq))
        del town.shelf.blobs[header.locator]
    town.records.step(town.chain.now())
    town.chain.pass_time(PAST_DEADLINE_S)
    assert set(steps(town, demander(town), 5)) == {DemandList(0, BOND), DemandList(1, BOND)}
    for batch_id in (0, 1):
        town.chain.demand(list_subject(DEMANDS, batch_id), DemandKind.LIST, TOWER, BOND)
    town.chain.end(list_subject(DEMANDS, 0), DemandState.ANSWERED)
    part = demander(town)
    assert steps(town, part) == []
    town.chain.end(list_subject(DEMANDS, 1), DemandState.EXPIRED)
    assert set(steps(town, demander(town))) == {DemandList(2, BOND)}, "that bond came back"


def test_batch_before_its_deadline_is_not_demanded(tmp_path: Path) -> None:
    town = Town(tmp_path)
    header = town.anchor(town.signed(1))
    del town.shelf.blobs[header.locator]
    part = demander(town)
    assert steps(town, part, 4) == [] and town.archive.batch(0).state == NEW  # type: ignore[union-attr]


@pytest.mark.parametrize(("leaves", "short"), [(64, 1), (1_001, 0)], ids=["budget", "balance"])
def test_unaffordable_list_demand_is_logged_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], leaves: int, short: int
) -> None:
    """A list costs a bond for each of its leaves."""
    town = Town(tmp_path)
    # So many leaves are named; nothing of the list is to be had.
    town.anchor(town.signed(1), count=U32(leaves))
    town.shelf.blobs.clear()
    town.records.step(town.chain.now())
    town.chain.pass_time(PAST_DEADLINE_S)
    poor = demander(town, replace(POLICY, budget_wei=leaves * BOND - short))
    capsys.readouterr()
    assert steps(town, poor, 6) == []
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines() if "demand.foregone" in line]
    assert [(each["kind"], int(each["bond_wei"])) for each in told] == [("DemandList", leaves * BOND)]
    if short:
        rich = demander(town, replace(POLICY, budget_wei=leaves * BOND))
        assert set(steps(town, rich)) == {DemandList(0, leaves * BOND)}
