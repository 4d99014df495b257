"""The watchtower without keys: public draws, posted words, one dispute per fraud, and the answer that auditors told it."""

from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.court.commitments import alt_commit, dispute_id
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import Action, OpenAlt, OpenDispute
from bytewise.protocol.decisions.audits import WatchPolicy
from bytewise.protocol.decisions.snapshot import Challenger
from bytewise.protocol.errors.actors import CommitmentMismatch, NotAMember
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import ZERO_DIGEST
from tests.fixtures.builders import ANCHOR, DISPUTES, signer, word
from tests.fixtures.verifier.verifier_fixture import BOND_WEI, NETWORK, PARAMS, Town
from tests.fixtures.verifier.watchtower_town import (
    EVERYBODY,
    KEY,
    post,
    tip,
)
from verifier.audits.audit_hints import MAX_TIPS_EACH, TipBox
from verifier.disputes.watchtower import Watchtower

TOWER = signer("tower")


def tower_of(town: Town, tips: TipBox | None = None) -> Watchtower:
    return Watchtower(town.chain, NETWORK, town.records, TOWER, WatchPolicy(), tips)


def step(town: Town, tower: Watchtower) -> tuple[Action, ...]:
    seen = town.chain.pass_time(1)
    town.records.step(seen)
    return tower.step(seen)


def test_watchtower_opens_one_dispute_after_the_second_mismatch(tmp_path: Path) -> None:
    town = Town(tmp_path)
    fraud = town.signed(1, cheat=True)
    town.anchor(fraud)
    identifier = receipt_id(ANCHOR, fraud.receipt)
    tower = tower_of(town)
    assert step(town, tower) == ()
    post(town, tip(identifier, "voter"))
    assert step(town, tower) == ()
    town.chain.pass_time(1)
    post(town, tip(identifier, "second"))
    (action,) = step(town, tower)
    assert action == OpenDispute(identifier, PARAMS.required_bond) and PARAMS.required_bond != BOND_WEI, "not the bond of today"
    tower.open(action, town.sender)
    ((bond, commitment),) = town.sender.of("open")
    assert bond == PARAMS.required_bond and any(commitment), "whoever was told nothing commits to nothing that can win"
    town.dispute(fraud)
    assert step(town, tower) == ()


def test_late_started_watchtower_finds_the_same(tmp_path: Path) -> None:
    town = Town(tmp_path)
    fraud = town.signed(1, cheat=True)
    town.anchor(fraud)
    for who in ("voter", "second"):
        post(town, tip(receipt_id(ANCHOR, fraud.receipt), who))
    assert [type(action) for action in step(town, tower_of(town))] == [OpenDispute]


def test_dispute_of_another_that_left_the_chain_is_opened_by_us(tmp_path: Path) -> None:
    town = Town(tmp_path)
    fraud = town.signed(1, cheat=True)
    town.anchor(fraud)
    for who in ("voter", "second"):
        post(town, tip(receipt_id(ANCHOR, fraud.receipt), who))
    town.dispute(fraud)
    tower = tower_of(town)
    assert step(town, tower) == ()
    town.chain.disputes, town.chain.branch = [], "another"
    assert [type(action) for action in step(town, tower)] == [OpenDispute]


def test_hinted_watchtower_commits_to_the_answer_and_reveals_after_restart(tmp_path: Path) -> None:
    town = Town(tmp_path)
    fraud = town.signed(1, cheat=True)
    town.anchor(fraud)
    identifier, box = receipt_id(ANCHOR, fraud.receipt), TipBox(DISPUTES, EVERYBODY)
    for who in ("voter", "second"):
        box.put(tip(identifier, who))
        post(town, tip(identifier, who))
    tower = tower_of(town, box)
    (action,) = step(town, tower)
    assert isinstance(action, OpenDispute)
    tower.open(action, town.sender)
    ((_, commitment),) = town.sender.of("open")
    dispute = dispute_id(DISPUTES, identifier)
    town.chain.alternatives[dispute] = commitment
    verdict = {"phase": Phase.AIRGAP, "verdict": Verdict.OVERTURNED, "key": KEY, "airgap_end": town.chain.timestamp + 60}
    opener = Challenger(TOWER.address, False)
    shown = town.dispute(fraud, id=dispute, challenger=opener, **verdict)
    (opening,) = step(town, tower_of(town))
    assert isinstance(opening, OpenAlt) and opening.dispute == dispute
    assert alt_commit(DISPUTES, dispute, TOWER.address, KEY, opening.salt) == commitment
    town.chain.disputes = [replace(shown, key=word("another answer"))]
    assert step(town, tower_of(town)) == ()


def test_hint_without_a_proof_is_refused() -> None:
    good, box = tip(word("receipt"), "voter"), TipBox(DISPUTES, {signer("voter").address})
    box.put(good)
    assert box.key([good.result]) == KEY and good.key == KEY
    assert box.key([replace(good.result, commitment=ZERO_DIGEST)]) is None, "it published something else"
    assert box.key([]) is None
    with pytest.raises(CommitmentMismatch):
        box.put(replace(good, trace_root=word("another")))
    with pytest.raises(BadSignature):
        box.put(replace(good, signature=tip(word("receipt"), "second").signature))
    with pytest.raises(NotAMember):
        box.put(tip(word("receipt"), "second"))


def test_verifier_cannot_displace_the_hints_of_another() -> None:
    good, box = tip(word("receipt"), "voter"), TipBox(DISPUTES, EVERYBODY)
    box.put(good)
    flood = [tip(word("flood", i), "second") for i in range(MAX_TIPS_EACH + 3)]
    for each in flood:
        box.put(each)
    told = [box.key([each.result]) is not None for each in (good, *flood)]
    assert told == [True, *[False] * 3, *[True] * MAX_TIPS_EACH]
