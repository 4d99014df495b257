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
from tests.fixtures.verifier.verifier_fixture import PARAMS, WORLD, VerifierFixture
from tests.fixtures.verifier.withholding import (
    BOND,
    PAST_DEADLINE_S,
    POLICY,
    STRANGER,
    TOWER,
    TRY_S,
    demander,
    hand_over,
    step,
    steps,
)
from verifier.refusals import QUESTIONS_PER_STEP, REMEMBERED_S
from verifier.watch.receipt_inbox import MAX_FILE_BYTES, ReceiptInbox


def test_delivered_unanchored_receipt_is_demanded_after_the_longest_delay(setup: VerifierFixture) -> None:
    signed = setup.signed(1)
    part, name = demander(setup, given=hand_over(setup, signed)), receipt_id(ANCHOR, signed.receipt)
    until = signed.receipt.anchor_by + PARAMS.times.max_anchor_delay
    assert step(setup, part, until - setup.chain.timestamp) == ()
    (action,) = step(setup, part)
    assert action == DemandAnchor(name, BOND)
    part.ask(DemandAnchor(name, BOND), setup.sender)
    assert setup.sender.of("demand anchor") == [(signed, BOND)]
    setup.chain.demand(anchor_subject(DEMANDS, name), DemandKind.ANCHOR, TOWER, BOND)
    assert step(setup, part) == ()


def test_refused_anchor_demand_costs_no_budget_and_is_retried_later(setup: VerifierFixture) -> None:
    """It pauses, say: nothing is demanded until it goes on."""
    both = [setup.signed(seq) for seq in (8, 9)]
    paused_one, open_one = (receipt_id(ANCHOR, each.receipt) for each in both)
    setup.chain.refused[paused_one] = "NotNow"
    part = demander(setup, replace(POLICY, budget_wei=BOND), given=hand_over(setup, *both))
    setup.chain.pass_time(10**5)
    assert set(steps(setup, part)) == {DemandAnchor(open_one, BOND)}
    assert setup.chain.trials.count(paused_one) == 1, "and the refusal is remembered"
    setup.chain.demand(anchor_subject(DEMANDS, open_one), DemandKind.ANCHOR, TOWER, BOND, ended=DemandState.EXPIRED)
    del setup.chain.refused[paused_one]
    assert step(setup, part, REMEMBERED_S - 3 * TRY_S - 1) == ()
    assert step(setup, part, TRY_S) == (DemandAnchor(paused_one, BOND),)


def test_receipts_tried_in_a_step_are_bounded_by_its_time(setup: VerifierFixture) -> None:
    count = QUESTIONS_PER_STEP + 2
    folder = hand_over(setup, *(setup.signed(seq) for seq in range(1, count + 1)))
    part = demander(setup, replace(POLICY, budget_wei=BOND), given=folder)
    setup.chain.refused.update((name, "NotNow") for name in ReceiptInbox(folder, ANCHOR).receipts())
    assert step(setup, part, 10**5) == () and len(setup.chain.trials) == QUESTIONS_PER_STEP
    assert step(setup, part) == () and len(set(setup.chain.trials)) == len(setup.chain.trials) == count


def test_old_anchor_demand_costs_no_budget(setup: VerifierFixture) -> None:
    lost = setup.signed(9)
    folder = hand_over(setup, lost)
    subject, policy = anchor_subject(DEMANDS, receipt_id(ANCHOR, lost.receipt)), replace(POLICY, budget_wei=BOND)
    setup.chain.demand(subject, DemandKind.ANCHOR, STRANGER, BOND, ended=DemandState.ANSWERED)
    part = demander(setup, policy, given=folder)
    assert step(setup, part, policy.budget_s + 1) == ()
    signed = setup.signed(1)
    setup.anchor(signed, anchored_at=U64(setup.chain.timestamp), block=U64(setup.chain.number + 1))
    del setup.shelf.blobs[signed.locator]
    step(setup, part, PAST_DEADLINE_S)
    assert set(steps(setup, part)) == {DemandEnvelope(receipt_id(ANCHOR, signed.receipt), BOND)}
    again, anchor = demander(setup, given=folder), DemandAnchor(receipt_id(ANCHOR, lost.receipt), BOND)
    assert anchor not in steps(setup, again)
    setup.chain.claims.clear()
    setup.chain.branch = "another"
    assert anchor in steps(setup, again)


@pytest.mark.parametrize("number", [1, 0])
def test_receipt_with_an_anchored_number_is_not_demanded(setup: VerifierFixture, number: int) -> None:
    """Number 0 is in no batch, so it is owed whatever was anchored."""
    setup.anchor(setup.signed(1))
    given = hand_over(setup, setup.signed(number))
    assert len(step(setup, demander(setup, given=given), 10**5)) == (number == 0)


def test_file_without_a_receipt_of_this_network_is_ignored(setup: VerifierFixture, tmp_path: Path) -> None:
    good = setup.signed(1)
    forged = replace(setup.signed(2), signature=good.signature)
    foreign = WORLD.sign(replace(good.receipt, chain_id=U256(1)))
    texts = {
        "text": "no json", "list": "[]", "forged": json.dumps(to_json(forged)), "foreign": json.dumps(to_json(foreign)),
        "long": " " * (MAX_FILE_BYTES + 1), "deep": "[" * 100_000, "good": json.dumps(to_json(good)),
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "folder.json").mkdir()
    box = ReceiptInbox(tmp_path, ANCHOR)
    assert box.receipts() == {receipt_id(ANCHOR, good.receipt): good}
    (tmp_path / "good.json").unlink()
    assert box.receipts() == {}
    with pytest.raises(ConfigurationError, match="inbox_folder"):
        ReceiptInbox(tmp_path / "text.json", ANCHOR)


def test_file_read_while_being_copied_is_read_again(setup: VerifierFixture, tmp_path: Path) -> None:
    signed = setup.signed(1)
    text, file, box = json.dumps(to_json(signed)), tmp_path / "one.json", ReceiptInbox(tmp_path, ANCHOR)
    file.write_text(text[:99])
    assert box.receipts() == {}
    file.write_text(text)
    assert box.receipts() == {receipt_id(ANCHOR, signed.receipt): signed}


def test_receipt_inbox_is_read_once_per_step(setup: VerifierFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = list[int]()
    setup.anchor(*(setup.signed(seq) for seq in range(1, 6)))
    for name in [each for each in setup.shelf.blobs if each != setup.chain.headers[0].locator]:
        del setup.shelf.blobs[name]
    setup.records.step(setup.chain.now())
    setup.chain.pass_time(PAST_DEADLINE_S)
    part, read = demander(setup, given=hand_over(setup)), ReceiptInbox.receipts

    def counted(box: ReceiptInbox) -> Any:
        reads.append(1)
        return read(box)

    monkeypatch.setattr(ReceiptInbox, "receipts", counted)
    steps(setup, part, 4)
    assert len(reads) == 4
