"""Envelopes and anchors: demanded where somebody needs them, fetched from where an answer says, disputed where that is empty."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.actions import DemandAnchor, DemandEnvelope, OpenDispute
from bytewise.protocol.ballots import dispute_id
from bytewise.protocol.demands import DemandKind, DemandState
from bytewise.protocol.docket import Docket
from bytewise.protocol.encoding import to_json
from bytewise.protocol.errors import ConfigurationError, NotServed
from bytewise.protocol.messages import Verdict
from bytewise.protocol.receipt import (
    anchor_subject,
    receipt_id,
)
from bytewise.protocol.sortition import audit_is_drawn
from bytewise.protocol.units import U64, U256, Blob, Digest
from kms.chain_view import BEACON_DELAY_BLOCKS
from tests.unit.verifier.demands import BOND, PAST_DEADLINE_S, POLICY, STRANGER, TOWER, TRY_S, closed, demander, step, steps
from tests.unit.verifier.town import NETWORK, PARAMS, WORLD, Town
from tests.world import ANCHOR, DISPUTES, word
from verifier.draws import Draws
from verifier.follow_up import OTHERS_PAUSE_S
from verifier.given import MAX_FILE_BYTES, Given
from verifier.own_disputes import OwnDisputes
from verifier.records import FETCH_BUDGET_S
from verifier.refusals import QUESTIONS_PER_STEP, REMEMBERED_S


def test_a_withheld_envelope_is_demanded_and_fetched_from_where_the_answer_says(tmp_path: Path) -> None:
    town = Town(tmp_path)
    signed = town.signed(1)
    town.anchor(signed)
    data = town.shelf.blobs.pop(signed.locator)
    town.records.step(town.chain.now())
    town.chain.pass_time(PAST_DEADLINE_S)
    part, name = demander(town), receipt_id(ANCHOR, signed.receipt)
    assert set(steps(town, part)) == {DemandEnvelope(name, BOND)}
    part.ask(DemandEnvelope(name, BOND), town.sender)
    ((sent, batch_id, proof, bond),) = town.sender.of("demand envelope")
    assert (sent, batch_id, proof, bond) == (signed, 0, (), BOND)
    town.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND)
    town.chain.answers[name] = Blob(town.shelf.put(data).encode())
    town.chain.end(name, DemandState.ANSWERED)
    assert steps(town, part) == []
    assert town.records.case(name, town.chain.now()).envelope == data


@pytest.mark.parametrize("state", [DemandState.EXPIRED, DemandState.ANSWERED])
def test_an_envelope_that_a_demand_did_not_bring_is_disputed_once(tmp_path: Path, state: DemandState) -> None:
    town = Town(tmp_path)
    signed = closed(town)
    part, name = demander(town), receipt_id(ANCHOR, signed.receipt)
    assert steps(town, part)
    town.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND)
    town.chain.answers[name] = Blob(b"eigenda:standard:0x02")
    town.chain.end(name, state)
    assert set(steps(town, part, 6)) == {OpenDispute(name, PARAMS.required_bond)}
    assert OpenDispute(name, PARAMS.required_bond) in steps(town, demander(town), 6), "also after a restart"
    town.dispute(signed)
    assert steps(town, part) == []


@pytest.mark.parametrize("state", [DemandState.EXPIRED, DemandState.ANSWERED])
def test_an_operator_that_demands_its_own_envelope_is_disputed_by_others_later(tmp_path: Path, state: DemandState) -> None:
    """A subject is demanded once: the bond of an operator's second account would end every other demand, and cost nothing."""
    town = Town(tmp_path)
    signed = closed(town)
    part, name = demander(town), receipt_id(ANCHOR, signed.receipt)
    town.chain.demand(name, DemandKind.ENVELOPE, STRANGER, BOND)
    town.chain.answers[name] = Blob(b"eigenda:standard:0x02")
    town.chain.end(name, state)
    assert steps(town, part, OTHERS_PAUSE_S // TRY_S) == [], "who demanded goes first"
    assert set(steps(town, part, 6)) == {OpenDispute(name, PARAMS.required_bond)}
    town.dispute(signed)
    assert steps(town, part) == []


def test_who_comes_late_has_half_of_what_is_left_of_the_window(tmp_path: Path) -> None:
    town = Town(tmp_path)
    signed = closed(town)
    part, name = demander(town), receipt_id(ANCHOR, signed.receipt)
    town.chain.demand(name, DemandKind.ENVELOPE, STRANGER, BOND)
    town.chain.end(name, DemandState.ANSWERED)
    town.chain.extended[0] = town.chain.timestamp + 6 * TRY_S - town.chain.window_end(name, 0, town.chain.number)
    step(town, part, 0)
    assert [bool(step(town, part, TRY_S)) for _ in range(5)] == [False, False, True, True, True]


def test_what_nobody_needs_is_not_disputed_whoever_demanded_it(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.chain.joined.clear()
    signed = closed(town)
    part, name = demander(town), receipt_id(ANCHOR, signed.receipt)
    town.chain.demand(name, DemandKind.ENVELOPE, STRANGER, BOND)
    town.chain.end(name, DemandState.EXPIRED)
    assert steps(town, part, 6 + OTHERS_PAUSE_S // TRY_S) == []


def test_a_tick_follows_demands_for_no_longer_than_its_budget(tmp_path: Path) -> None:
    """Anybody can demand a hundred envelopes that a slow store does not have; votes have to be cast meanwhile."""
    town, now, ask = Town(tmp_path), [0.0], 0.6
    town.anchor(*(town.signed(seq) for seq in range(1, 11)))
    town.records.step(town.chain.now())
    names = [live.seen.receipt_id for live in town.records.live]
    for name in names:
        town.chain.demand(name, DemandKind.ENVELOPE, STRANGER, BOND)
        town.chain.end(name, DemandState.EXPIRED)
    asked: list[Digest] = []

    def slow(receipt_id: Digest, batch_id: int, docket: Docket) -> bytes:
        now[0] += ask
        asked.append(receipt_id)
        raise NotServed("an envelope", "nothing")

    town.records.obtain = slow  # type: ignore[method-assign]
    part = demander(town, replace(POLICY, budget_wei=0), monotonic=lambda: now[0])
    for _ in range(3):
        before = now[0]
        part.step(town.chain.pass_time(1))
        assert now[0] - before <= FETCH_BUDGET_S + ask
    assert set(asked) == set(names), "what failed least often comes first"
    asked.clear()
    demander(town, fetches=False).step(town.chain.now())
    assert not asked, "who needs no envelopes asks for none"


def test_disputes_over_what_was_withheld_have_a_budget_that_the_chain_remembers(tmp_path: Path) -> None:
    """An operator that gives the committee what it gives nobody else wins every one of them."""
    town, bond = Town(tmp_path), PARAMS.required_bond
    both = [town.signed(1), town.signed(2)]
    town.anchor(*both)
    names = [receipt_id(ANCHOR, each.receipt) for each in both]
    for signed in both:
        del town.shelf.blobs[signed.locator]
    for name in names:
        town.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND)
        town.chain.end(name, DemandState.EXPIRED)
    policy = replace(POLICY, dispute_budget_wei=2 * bond - 1)
    (first,) = set(steps(town, demander(town, policy), 6))
    assert isinstance(first, OpenDispute) and len(set(steps(town, demander(town), 6))) == 2
    ours = next(each for each in both if receipt_id(ANCHOR, each.receipt) == first.receipt_id)
    case = town.dispute(ours, id=dispute_id(DISPUTES, first.receipt_id))
    town.chain.alternatives[case.id] = word("alternative")
    part = demander(town, policy)
    assert steps(town, part, 6) == []
    town.chain.disputes.clear()
    assert OpenDispute(names[1 - both.index(ours)], bond) not in steps(town, part, 6), "ended is not won back"


def test_what_we_dispute_is_known_from_the_chain_and_so_is_what_we_won(tmp_path: Path) -> None:
    town = Town(tmp_path)
    signed = town.signed(1)
    name, own = receipt_id(ANCHOR, signed.receipt), OwnDisputes(town.chain, NETWORK, TOWER)
    case = town.dispute(signed, id=dispute_id(DISPUTES, name))
    own.follow(town.chain.now())
    assert not own.has(name) and not own.is_unwon(name), "somebody else's"
    town.chain.alternatives[case.id] = word("alternative")
    for verdict, unwon in ((Verdict.UPHELD, True), (Verdict.UNAVAILABLE, False)):
        town.chain.disputes[:] = [replace(case, ended=True, verdict=verdict)]
        own.follow(town.chain.pass_time(1))
        assert own.has(name) and own.is_unwon(name) is unwon
    town.chain.alternatives.clear()
    town.chain.branch = "another"
    own.follow(town.chain.pass_time(1))
    assert not own.has(name)


def test_no_outage_of_our_own_is_disputed(tmp_path: Path) -> None:
    town = Town(tmp_path)
    signed = closed(town)
    part, name = demander(town), receipt_id(ANCHOR, signed.receipt)
    steps(town, part)
    town.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND)
    town.chain.end(name, DemandState.ANSWERED)
    town.shelf.away = True
    assert steps(town, part, 12) == []


def test_who_does_not_challenge_does_not_dispute_what_was_withheld(tmp_path: Path) -> None:
    town = Town(tmp_path)
    signed = closed(town)
    part, name = demander(town, disputes=False), receipt_id(ANCHOR, signed.receipt)
    assert steps(town, part)
    town.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND)
    town.chain.end(name, DemandState.EXPIRED)
    assert steps(town, part, 6) == []


def test_an_envelope_that_nobody_was_drawn_for_is_left_alone_unless_a_client_asks(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.chain.joined.clear()
    signed = closed(town)
    assert steps(town, demander(town)) == []
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(to_json(signed), indent=1))
    found = steps(town, demander(town, given=folder))
    assert set(found) == {DemandEnvelope(receipt_id(ANCHOR, signed.receipt), BOND)}


def test_a_receipt_that_was_given_out_and_never_anchored_is_demanded_after_the_longest_delay(tmp_path: Path) -> None:
    town = Town(tmp_path)
    signed = town.signed(1)
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(to_json(signed)))
    part, name = demander(town, given=folder), receipt_id(ANCHOR, signed.receipt)
    until = signed.receipt.anchor_by + PARAMS.times.max_anchor_delay
    assert step(town, part, until - town.chain.timestamp) == ()
    (action,) = step(town, part)
    assert action == DemandAnchor(name, BOND)
    part.ask(DemandAnchor(name, BOND), town.sender)
    assert town.sender.of("demand anchor") == [(signed, BOND)]
    town.chain.demand(anchor_subject(ANCHOR, name), DemandKind.ANCHOR, TOWER, BOND)
    assert step(town, part) == ()


def test_an_anchor_demand_that_the_chain_refuses_takes_nothing_of_the_budget_and_is_tried_again_later(tmp_path: Path) -> None:
    """Its environment was closed, say: the operator owes nothing until it is open again."""
    town, folder = Town(tmp_path), tmp_path / "given"
    folder.mkdir()
    both = [town.signed(seq) for seq in (8, 9)]
    for i, signed in enumerate(both):
        (folder / f"{i}.json").write_text(json.dumps(to_json(signed)))
    closed_one, open_one = (receipt_id(ANCHOR, each.receipt) for each in both)
    town.chain.refused[closed_one] = "EnvironmentNotActive"
    part = demander(town, replace(POLICY, budget_wei=BOND), given=folder)
    town.chain.pass_time(10**5)
    assert set(steps(town, part)) == {DemandAnchor(open_one, BOND)}
    assert town.chain.trials.count(closed_one) == 1, "and the refusal is remembered"
    town.chain.demand(anchor_subject(ANCHOR, open_one), DemandKind.ANCHOR, TOWER, BOND)
    town.chain.end(anchor_subject(ANCHOR, open_one), DemandState.EXPIRED)
    del town.chain.refused[closed_one]
    assert step(town, part, REMEMBERED_S - 3 * TRY_S - 1) == ()
    assert step(town, part, TRY_S) == (DemandAnchor(closed_one, BOND),)


def test_no_more_receipts_are_tried_in_a_step_than_a_tick_has_time_for(tmp_path: Path) -> None:
    town, folder, count = Town(tmp_path), tmp_path / "given", QUESTIONS_PER_STEP + 2
    folder.mkdir()
    for seq in range(1, count + 1):
        (folder / f"{seq}.json").write_text(json.dumps(to_json(town.signed(seq))))
    part = demander(town, replace(POLICY, budget_wei=BOND), given=folder)
    town.chain.refused.update((name, "EnvironmentNotActive") for name in Given(folder, ANCHOR).receipts())
    assert step(town, part, 10**5) == () and len(town.chain.trials) == QUESTIONS_PER_STEP
    assert step(town, part) == () and len(set(town.chain.trials)) == len(town.chain.trials) == count


def test_an_anchor_that_was_demanded_long_ago_takes_nothing_of_the_budget(tmp_path: Path) -> None:
    town, folder = Town(tmp_path), tmp_path / "given"
    lost = town.signed(9)
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(to_json(lost)))
    subject, policy = anchor_subject(ANCHOR, receipt_id(ANCHOR, lost.receipt)), replace(POLICY, budget_wei=BOND)
    town.chain.demand(subject, DemandKind.ANCHOR, STRANGER, BOND)
    town.chain.end(subject, DemandState.ANSWERED)
    part = demander(town, policy, given=folder)
    assert step(town, part, policy.budget_s + 1) == ()
    signed = town.signed(1)
    town.anchor(signed, anchored_at=U64(town.chain.timestamp), block=U64(town.chain.number + 1))
    del town.shelf.blobs[signed.locator]
    step(town, part, PAST_DEADLINE_S)
    assert set(steps(town, part)) == {DemandEnvelope(receipt_id(ANCHOR, signed.receipt), BOND)}
    again, anchor = demander(town, given=folder), DemandAnchor(receipt_id(ANCHOR, lost.receipt), BOND)
    assert anchor not in steps(town, again)
    town.chain.claims.clear()
    town.chain.branch = "another"
    assert anchor in steps(town, again)


def test_a_receipt_whose_number_is_anchored_is_not_demanded(tmp_path: Path) -> None:
    town = Town(tmp_path)
    signed = town.signed(1)
    town.anchor(signed)
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(to_json(signed)))
    assert step(town, demander(town, given=folder), 10**5) == ()


def test_a_file_that_holds_no_receipt_of_this_network_is_left_alone(tmp_path: Path) -> None:
    town = Town(tmp_path)
    good = town.signed(1)
    forged = replace(town.signed(2), signature=good.signature)
    foreign = WORLD.sign(replace(good.receipt, chain_id=U256(1)))
    texts = {
        "text": "no json", "list": "[]", "forged": json.dumps(to_json(forged)), "foreign": json.dumps(to_json(foreign)),
        "long": " " * (MAX_FILE_BYTES + 1), "deep": "[" * 100_000, "good": json.dumps(to_json(good)),
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "folder.json").mkdir()
    box = Given(tmp_path, ANCHOR)
    assert box.receipts() == {receipt_id(ANCHOR, good.receipt): good}
    (tmp_path / "good.json").unlink()
    assert box.receipts() == {}
    with pytest.raises(ConfigurationError, match="given_folder"):
        Given(tmp_path / "text.json", ANCHOR)


def test_a_file_that_was_read_while_it_was_copied_is_read_again(tmp_path: Path) -> None:
    signed = Town(tmp_path).signed(1)
    text, file, box = json.dumps(to_json(signed)), tmp_path / "one.json", Given(tmp_path, ANCHOR)
    file.write_text(text[:99])
    assert box.receipts() == {}
    file.write_text(text)
    assert box.receipts() == {receipt_id(ANCHOR, signed.receipt): signed}


def counted_draws(monkeypatch: pytest.MonkeyPatch) -> list[Digest]:
    """Receipts for which the draw of one auditor was computed, as often as it was."""
    computed, draw = list[Digest](), audit_is_drawn

    def counting(beacon: Digest, receipt_id: Digest, *rest: Any) -> bool:
        computed.append(receipt_id)
        return draw(beacon, receipt_id, *rest)

    monkeypatch.setattr("verifier.draws.audit_is_drawn", counting)
    return computed


def test_a_draw_is_computed_once_for_a_beacon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand envelopes may be missing for as long as a window is open, and a hundred verifiers in the pool."""
    town, computed = Town(tmp_path), counted_draws(monkeypatch)
    header, draws = town.anchor(town.signed(1)), Draws(town.chain)
    town.chain.joined = {STRANGER: [(1, 0)], **town.chain.joined}
    for _ in range(3):
        assert draws.has(word("receipt"), header, town.chain.pass_time(1))
    assert computed == [word("receipt")] * 2, "one drew nothing, the next one did"
    town.chain.branch = "another"
    town.chain.joined = {STRANGER: [(1, 0)]}
    assert Draws(town.chain).has(word("receipt"), header, town.chain.now()) is False
    monkeypatch.setattr(town.chain, "block_hash", lambda number: word("other", number))
    draws.has(word("receipt"), header, town.chain.now())
    assert len(computed) > 3, "another beacon is another draw"


def test_no_draw_is_computed_for_what_there_is_no_money_or_time_to_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    town, computed = Town(tmp_path), counted_draws(monkeypatch)
    both = [town.signed(1), town.signed(2)]
    town.anchor(*both)
    for signed in both:
        del town.shelf.blobs[signed.locator]
    town.records.step(town.chain.now())
    town.chain.pass_time(PAST_DEADLINE_S)
    steps(town, demander(town, replace(POLICY, budget_wei=BOND - 1)))
    assert computed == []
    (first, *_) = steps(town, demander(town, replace(POLICY, budget_wei=BOND)))
    assert isinstance(first, DemandEnvelope) and set(computed) == {first.receipt_id}


def test_the_folder_of_what_clients_gave_is_read_once_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    town, folder, reads = Town(tmp_path), tmp_path / "given", list[int]()
    town.anchor(*(town.signed(seq) for seq in range(1, 6)))
    folder.mkdir()
    for name in [each for each in town.shelf.blobs if each != town.chain.headers[0].locator]:
        del town.shelf.blobs[name]
    town.records.step(town.chain.now())
    town.chain.pass_time(PAST_DEADLINE_S)
    part, read = demander(town, given=folder), Given.receipts

    def counted(box: Given) -> Any:
        reads.append(1)
        return read(box)

    monkeypatch.setattr(Given, "receipts", counted)
    steps(town, part, 4)
    assert len(reads) == 4


def test_a_beacon_is_asked_for_once_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    town = Town(tmp_path)
    header, draws, asked, ask = town.anchor(town.signed(1)), Draws(town.chain), list[int](), town.chain.block_hash

    def counted(number: int) -> Digest:
        asked.append(number)
        return ask(number)

    monkeypatch.setattr(town.chain, "block_hash", counted)
    seen = town.chain.now()
    asked.clear()
    assert [draws.has(word("receipt", i), header, seen) for i in range(9)] == [True] * 9
    assert asked == [header.block + BEACON_DELAY_BLOCKS]
    town.chain.branch = "another"
    draws.has(word("receipt"), header, town.chain.now())
    assert asked.count(header.block + BEACON_DELAY_BLOCKS) == 2, "another branch may have another beacon"
