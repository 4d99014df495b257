"""Withheld bytes are demanded once and in time, what nobody answers is ended or disputed, and no outage of ours costs a bond."""

from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.actions import DemandList, Expire, ExpireList
from bytewise.protocol.decide import MovePolicy
from bytewise.protocol.demands import DemandKind, DemandState
from bytewise.protocol.merkle import batch_leaf, batch_root, verify_batch_proof
from bytewise.protocol.receipt import (
    EmptyLeaf,
    SignedLeaf,
    list_subject,
    receipt_id,
)
from bytewise.protocol.units import U32, U64, U256, Blob
from tests.unit.verifier.claims import CURE_S
from tests.unit.verifier.demands import (
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
from tests.unit.verifier.town import WINDOW_S, WORLD, Town
from tests.world import ANCHOR, CHAIN_ID, word
from verifier import demand_book
from verifier.certainty import HAND_IN_S, PAUSE_S
from verifier.lists import CHECKED, FAULTY, NEW
from verifier.refusals import MAX_REMEMBERED_S, REMEMBERED_S
from verifier.tally import BLOCKS_PER_READ, SETTLED_BLOCKS


def test_a_withheld_list_is_demanded_after_several_tries_and_not_again(tmp_path: Path) -> None:
    town = Town(tmp_path)
    withheld(town)
    part = demander(town)
    assert step(town, part) == (), "two tries are not several"
    found = steps(town, part)
    assert set(found) == {DemandList(0, BOND)}, "and the outbox makes one of them"
    town.chain.demand(list_subject(ANCHOR, 0), DemandKind.LIST, TOWER, BOND)
    assert steps(town, part, 3) == []
    assert steps(town, demander(town), 3) == [], "nor after a restart"


def test_an_outage_of_our_own_spends_nothing_however_long(tmp_path: Path) -> None:
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


def test_a_store_that_comes_back_without_a_list_is_believed(tmp_path: Path) -> None:
    """What failed while we were away is asked for again before anything is demanded, and again between two proofs."""
    town = Town(tmp_path)
    withheld(town)
    town.shelf.away = True
    part = demander(town)
    assert steps(town, part, 6) == []
    town.shelf.away = False
    assert DemandList(0, BOND) in steps(town, part, 2 + PAUSE_S // TRY_S)


def test_a_line_that_breaks_while_we_ask_proves_nothing(tmp_path: Path) -> None:
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


def test_what_was_missing_before_we_were_cut_off_from_the_chain_is_asked_for_again(tmp_path: Path) -> None:
    """A list that was gone may be there now; and what was decided then waits in the outbox no longer than a minute."""
    town = Town(tmp_path)
    header, data = withheld(town)
    part = demander(town)
    assert DemandList(0, BOND) in steps(town, part)
    town.shelf.blobs[header.locator] = data
    assert part.step(town.chain.pass_time(WINDOW_S // 2)) == ()
    part.ask(DemandList(0, BOND), town.sender)
    assert town.sender.within == {"demand list": HAND_IN_S}


def test_a_list_that_comes_when_it_is_asked_for_once_more_is_not_demanded(tmp_path: Path) -> None:
    town = Town(tmp_path)
    header, data = withheld(town)
    part = demander(town, replace(POLICY, tries=1))
    town.records.step(town.chain.now())
    town.shelf.blobs[header.locator] = data
    assert part.step(town.chain.now()) == ()
    assert town.archive.batch(0).state == CHECKED  # type: ignore[union-attr]


@pytest.mark.parametrize(("left_s", "demanded"), [(POLICY.margin_s - 1, False), (POLICY.margin_s, True)])
def test_nothing_is_demanded_in_the_last_seconds(tmp_path: Path, left_s: int, demanded: bool) -> None:
    town = Town(tmp_path)
    withheld(town)
    part = demander(town)
    until = town.chain.headers[0].anchored_at + WINDOW_S - left_s
    town.chain.pass_time(until - town.chain.timestamp - 3 * TRY_S)
    town.records.step(town.chain.now())
    for _ in range(3):
        found = step(town, part, TRY_S)
    assert bool(found) is demanded and town.chain.timestamp == until


def test_a_list_that_does_not_fit_its_root_is_demanded_and_its_answer_shows_the_receipts(tmp_path: Path) -> None:
    """The hidden receipt is under the root; the list is of another one. DA need not be asked for that."""
    town = Town(tmp_path)
    shown, hidden = town.signed(1), town.signed(1, cheat=True)
    empty = EmptyLeaf(WORLD.operator.address, U64(2), U256(CHAIN_ID))
    leaves = (SignedLeaf(hidden.receipt, hidden.signature), SignedLeaf(empty, WORLD.operator.sign(receipt_id(ANCHOR, empty))))
    nodes = [batch_leaf(receipt_id(ANCHOR, each.record), each.record.seq) for each in leaves]
    town.anchor(shown, root=batch_root(nodes), count=U32(2))
    part = demander(town)
    assert step(town, part) == (DemandList(0, BOND),) and town.archive.batch(0).state == FAULTY  # type: ignore[union-attr]
    subject = list_subject(ANCHOR, 0)
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


def test_a_list_that_was_answered_is_checked_like_any_other(tmp_path: Path) -> None:
    town = Town(tmp_path)
    _, data = withheld(town)
    part = demander(town)
    steps(town, part)
    subject = list_subject(ANCHOR, 0)
    town.chain.demand(subject, DemandKind.LIST, TOWER, BOND)
    town.chain.answers[subject] = Blob(data)
    town.chain.end(subject, DemandState.ANSWERED)
    step(town, part)
    assert [live.seen.finding for live in town.records.live] == ["Good"], "at once, however often it had failed"


def test_what_nobody_answered_is_ended_at_once_by_who_asked_and_later_by_anybody(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.anchor(town.signed(1))
    ours, theirs, listed = word("ours"), word("theirs"), list_subject(ANCHOR, 0)
    town.chain.demand(ours, DemandKind.ENVELOPE, TOWER, BOND)
    town.chain.demand(theirs, DemandKind.ANCHOR, STRANGER, BOND)
    town.chain.demand(listed, DemandKind.LIST, STRANGER, BOND)
    part = demander(town, replace(POLICY, budget_wei=0))
    assert step(town, part, CURE_S) == ()
    assert step(town, part) == (Expire(ours),)
    assert step(town, part, MOVES.overdue) == (Expire(ours), Expire(theirs)), "lists of others are in every docket"
    town.chain.end(ours, DemandState.EXPIRED)
    town.chain.end(theirs, DemandState.ANSWERED)
    assert step(town, part) == ()
    assert not isinstance(listed, ExpireList)


def test_a_penalty_that_found_too_little_stake_is_taken_again_when_there_is_some(tmp_path: Path) -> None:
    town, listed, envelope = Town(tmp_path), list_subject(ANCHOR, 0), word("envelope")
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


def test_a_penalty_is_taken_however_late_stake_returns_and_is_then_left_alone(tmp_path: Path) -> None:
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


def test_penalties_that_nobody_pays_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demand_book, "MAX_UNPAID", 5)
    town, subjects = Town(tmp_path), [word("late", i) for i in range(7)]
    for subject in subjects:
        town.chain.demand(subject, DemandKind.ANCHOR, TOWER, BOND)
        town.chain.end(subject, DemandState.EXPIRED)
    part = demander(town, replace(POLICY, budget_wei=0))
    step(town, part, 3 * POLICY.budget_s)
    assert town.chain.trials == subjects[2:]


def test_a_penalty_that_cannot_be_counted_now_stops_no_demand(tmp_path: Path) -> None:
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


def test_ends_are_counted_from_events_that_are_read_once(tmp_path: Path) -> None:
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


def test_a_demand_that_left_the_chain_is_forgotten(tmp_path: Path) -> None:
    town = Town(tmp_path)
    withheld(town)
    part = demander(town)
    town.chain.demand(list_subject(ANCHOR, 0), DemandKind.LIST, STRANGER, BOND)
    assert steps(town, part) == []
    town.chain.claims.clear()
    town.chain.branch = "another"
    assert DemandList(0, BOND) in steps(town, part)


def test_the_budget_is_what_the_chain_remembers(tmp_path: Path) -> None:
    """An operator that withholds only to be paid for its answers gets the budget and no more, restarts or not."""
    town = Town(tmp_path)
    for seq in (1, 2, 3):
        header = town.anchor(town.signed(seq), first_seq=U64(seq))
        del town.shelf.blobs[header.locator]
    town.records.step(town.chain.now())
    town.chain.pass_time(PAST_DEADLINE_S)
    assert set(steps(town, demander(town), 5)) == {DemandList(0, BOND), DemandList(1, BOND)}
    for batch_id in (0, 1):
        town.chain.demand(list_subject(ANCHOR, batch_id), DemandKind.LIST, TOWER, BOND)
    town.chain.end(list_subject(ANCHOR, 0), DemandState.ANSWERED)
    part = demander(town)
    assert steps(town, part) == []
    town.chain.end(list_subject(ANCHOR, 1), DemandState.EXPIRED)
    assert set(steps(town, demander(town))) == {DemandList(2, BOND)}, "that bond came back"


def test_a_batch_that_is_not_late_yet_is_not_demanded(tmp_path: Path) -> None:
    town = Town(tmp_path)
    header = town.anchor(town.signed(1))
    del town.shelf.blobs[header.locator]
    part = demander(town)
    assert steps(town, part, 4) == [] and town.archive.batch(0).state == NEW  # type: ignore[union-attr]
