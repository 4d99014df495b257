"""Receipts that clients handed over: their anchoring is demanded once it is owed, and as long as the chain takes it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.decisions.actions import DemandAnchor, DemandEnvelope
from bytewise.protocol.decisions.demands import DemandKind, DemandState
from bytewise.protocol.encoding import to_json
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.records.receipt import anchor_subject, receipt_id
from bytewise.protocol.units import U64, U256
from tests.fixtures.builders import ANCHOR, DEMANDS
from tests.fixtures.verifier.verifier_fixture import PARAMS, WORLD, Town
from tests.fixtures.verifier.withholding import BOND, PAST_DEADLINE_S, POLICY, STRANGER, TOWER, TRY_S, demander, step, steps
from verifier.stake.refusals import QUESTIONS_PER_STEP, REMEMBERED_S
from verifier.watch.receipt_inbox import MAX_FILE_BYTES, Given


def test_delivered_unanchored_receipt_is_demanded_after_the_longest_delay(tmp_path: Path) -> None:
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
    town.chain.demand(anchor_subject(DEMANDS, name), DemandKind.ANCHOR, TOWER, BOND)
    assert step(town, part) == ()


def test_refused_anchor_demand_costs_no_budget_and_is_retried_later(tmp_path: Path) -> None:
    """It pauses, say: nothing is demanded until it goes on."""
    town, folder = Town(tmp_path), tmp_path / "given"
    folder.mkdir()
    both = [town.signed(seq) for seq in (8, 9)]
    for i, signed in enumerate(both):
        (folder / f"{i}.json").write_text(json.dumps(to_json(signed)))
    paused_one, open_one = (receipt_id(ANCHOR, each.receipt) for each in both)
    town.chain.refused[paused_one] = "NotNow"
    part = demander(town, replace(POLICY, budget_wei=BOND), given=folder)
    town.chain.pass_time(10**5)
    assert set(steps(town, part)) == {DemandAnchor(open_one, BOND)}
    assert town.chain.trials.count(paused_one) == 1, "and the refusal is remembered"
    town.chain.demand(anchor_subject(DEMANDS, open_one), DemandKind.ANCHOR, TOWER, BOND)
    town.chain.end(anchor_subject(DEMANDS, open_one), DemandState.EXPIRED)
    del town.chain.refused[paused_one]
    assert step(town, part, REMEMBERED_S - 3 * TRY_S - 1) == ()
    assert step(town, part, TRY_S) == (DemandAnchor(paused_one, BOND),)


def test_receipts_tried_in_a_step_are_bounded_by_its_time(tmp_path: Path) -> None:
    town, folder, count = Town(tmp_path), tmp_path / "given", QUESTIONS_PER_STEP + 2
    folder.mkdir()
    for seq in range(1, count + 1):
        (folder / f"{seq}.json").write_text(json.dumps(to_json(town.signed(seq))))
    part = demander(town, replace(POLICY, budget_wei=BOND), given=folder)
    town.chain.refused.update((name, "NotNow") for name in Given(folder, ANCHOR).receipts())
    assert step(town, part, 10**5) == () and len(town.chain.trials) == QUESTIONS_PER_STEP
    assert step(town, part) == () and len(set(town.chain.trials)) == len(town.chain.trials) == count


def test_old_anchor_demand_costs_no_budget(tmp_path: Path) -> None:
    town, folder = Town(tmp_path), tmp_path / "given"
    lost = town.signed(9)
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(to_json(lost)))
    subject, policy = anchor_subject(DEMANDS, receipt_id(ANCHOR, lost.receipt)), replace(POLICY, budget_wei=BOND)
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


@pytest.mark.parametrize("number", [1, 0])
def test_receipt_with_an_anchored_number_is_not_demanded(tmp_path: Path, number: int) -> None:
    """Number 0 is in no batch, so it is owed whatever was anchored."""
    town = Town(tmp_path)
    town.anchor(town.signed(1))
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(to_json(town.signed(number))))
    assert len(step(town, demander(town, given=folder), 10**5)) == (number == 0)


def test_file_without_a_receipt_of_this_network_is_ignored(tmp_path: Path) -> None:
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


def test_file_read_while_being_copied_is_read_again(tmp_path: Path) -> None:
    signed = Town(tmp_path).signed(1)
    text, file, box = json.dumps(to_json(signed)), tmp_path / "one.json", Given(tmp_path, ANCHOR)
    file.write_text(text[:99])
    assert box.receipts() == {}
    file.write_text(text)
    assert box.receipts() == {receipt_id(ANCHOR, signed.receipt): signed}


def test_receipt_inbox_is_read_once_per_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
