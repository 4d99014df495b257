"""The watchtower without keys: public draws, posted words, one dispute per fraud, and the answer that auditors told it."""

from dataclasses import replace

import pytest

from bytewise.protocol.court.commitments import alt_commit, dispute_id
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import Action, OpenAlt, OpenDispute
from bytewise.protocol.decisions.snapshot import Challenger
from bytewise.protocol.decisions.strategies import WatchPolicy
from bytewise.protocol.errors.actors import HintMismatch, UnknownAuditor
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.records.statements import AuditOutcome, Verdict
from bytewise.protocol.units import U8, ZERO_DIGEST
from tests.fixtures.builders import ANCHOR, DISPUTES, signer, word
from tests.fixtures.verifier.verifier_fixture import BOND_WEI, NETWORK, PARAMS, VerifierFixture
from tests.fixtures.verifier.watchtower_fixture import EVERYBODY, KEY, hint, post
from verifier.audits.audit_hints import MAX_TIPS_EACH, HintBox
from verifier.disputes.watchtower import Watchtower

TOWER = signer("tower")


def tower_of(setup: VerifierFixture, hints: HintBox | None = None) -> Watchtower:
    return Watchtower(setup.chain, NETWORK, setup.records, TOWER, WatchPolicy(), hints)


def step(setup: VerifierFixture, tower: Watchtower) -> tuple[Action, ...]:
    seen = setup.chain.pass_time(1)
    setup.records.step(seen)
    return tower.step(seen)


def test_watchtower_opens_one_dispute_after_the_second_mismatch(setup: VerifierFixture) -> None:
    fraud = setup.signed(1, cheat=True)
    setup.anchor(fraud)
    identifier = receipt_id(ANCHOR, fraud.receipt)
    tower = tower_of(setup)
    assert step(setup, tower) == ()
    post(setup, hint(identifier, "voter"))
    assert step(setup, tower) == ()
    setup.chain.pass_time(1)
    post(setup, hint(identifier, "second"))
    (action,) = step(setup, tower)
    assert action == OpenDispute(identifier, PARAMS.required_bond) and PARAMS.required_bond != BOND_WEI, "not the bond of today"
    tower.open(action, setup.sender)
    ((bond, commitment),) = setup.sender.of("open")
    assert bond == PARAMS.required_bond and any(commitment), "whoever was told nothing commits to nothing that can win"
    setup.dispute(fraud)
    assert step(setup, tower) == ()


def test_results_posted_for_another_batch_open_no_dispute(setup: VerifierFixture) -> None:
    """The contract checks draw and membership for the batch that the post names, which need not be the receipt's."""
    honest = setup.signed(1)
    setup.anchor(honest)
    identifier = receipt_id(ANCHOR, honest.receipt)
    box = HintBox(DISPUTES, EVERYBODY)
    for who in ("voter", "second"):
        setup.chain.posted_for[identifier, signer(who).address] = 1
        post(setup, hint(identifier, who))
    box.put(hint(identifier, "voter"))
    tower = tower_of(setup, box)
    assert step(setup, tower) == () and tower._commitment(identifier, 0) == tower_of(setup)._commitment(identifier, 0), (
        "no hint either"
    )
    setup.chain.posted_for.clear()
    for who in ("voter", "second"):
        post(setup, hint(identifier, who))
    assert [type(action) for action in step(setup, tower)] == [OpenDispute], "their verifiers put it right"


def test_last_result_of_a_verifier_counts(setup: VerifierFixture) -> None:
    fraud = setup.signed(1, cheat=True)
    setup.anchor(fraud)
    said = [hint(receipt_id(ANCHOR, fraud.receipt), who) for who in ("voter", "second")]
    post(setup, replace(said[0], result=replace(said[0].result, result=U8(AuditOutcome.MATCH))))
    for each in said:
        post(setup, each)
    assert [type(action) for action in step(setup, tower_of(setup))] == [OpenDispute]


def test_dispute_of_another_that_left_the_chain_is_opened_by_us(setup: VerifierFixture) -> None:
    fraud = setup.signed(1, cheat=True)
    setup.anchor(fraud)
    for who in ("voter", "second"):
        post(setup, hint(receipt_id(ANCHOR, fraud.receipt), who))
    setup.dispute(fraud)
    tower = tower_of(setup)
    assert step(setup, tower) == ()
    setup.chain.disputes, setup.chain.branch = [], "another"
    assert [type(action) for action in step(setup, tower)] == [OpenDispute]


def test_hinted_watchtower_commits_to_the_answer_and_reveals_after_restart(setup: VerifierFixture) -> None:
    fraud = setup.signed(1, cheat=True)
    setup.anchor(fraud)
    identifier, box = receipt_id(ANCHOR, fraud.receipt), HintBox(DISPUTES, EVERYBODY)
    for who in ("voter", "second"):
        box.put(hint(identifier, who))
        post(setup, hint(identifier, who))
    tower = tower_of(setup, box)
    (action,) = step(setup, tower)
    assert isinstance(action, OpenDispute)
    tower.open(action, setup.sender)
    ((_, commitment),) = setup.sender.of("open")
    dispute = dispute_id(DISPUTES, identifier)
    setup.chain.alternatives[dispute] = commitment
    verdict = {"phase": Phase.AIRGAP, "verdict": Verdict.OVERTURNED, "key": KEY, "airgap_end": setup.chain.timestamp + 60}
    opener = Challenger(TOWER.address, False)
    shown = setup.dispute(fraud, id=dispute, challenger=opener, **verdict)
    (opening,) = step(setup, tower_of(setup))
    assert isinstance(opening, OpenAlt) and opening.dispute == dispute
    assert alt_commit(DISPUTES, dispute, TOWER.address, KEY, opening.salt) == commitment
    setup.chain.disputes = [replace(shown, key=word("another answer"))]
    assert step(setup, tower_of(setup)) == ()


def test_hint_without_a_proof_is_refused() -> None:
    good, box = hint(word("receipt"), "voter"), HintBox(DISPUTES, {signer("voter").address})
    box.put(good)
    assert box.key([good.result]) == KEY and good.key == KEY
    assert box.key([replace(good.result, commitment=ZERO_DIGEST)]) is None, "it published something else"
    assert box.key([]) is None
    with pytest.raises(HintMismatch, match=f"audit hint of {good.result.verifier} does not open"):
        box.put(replace(good, trace_root=word("another")))
    with pytest.raises(BadSignature):
        box.put(replace(good, signature=hint(word("receipt"), "second").signature))
    with pytest.raises(UnknownAuditor, match=f"audit hint of {signer('second').address}: "):
        box.put(hint(word("receipt"), "second"))


def test_verifier_cannot_displace_the_hints_of_another() -> None:
    good, box = hint(word("receipt"), "voter"), HintBox(DISPUTES, EVERYBODY)
    box.put(good)
    flood = [hint(word("flood", i), "second") for i in range(MAX_TIPS_EACH + 3)]
    for each in flood:
        box.put(each)
    told = [box.key([each.result]) is not None for each in (good, *flood)]
    assert told == [True, *[False] * 3, *[True] * MAX_TIPS_EACH]
