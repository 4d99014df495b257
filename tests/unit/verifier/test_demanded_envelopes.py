"""Envelopes: demanded where somebody needs them, fetched from where an answer says, disputed where that is empty."""

from dataclasses import replace

import pytest

from bytewise.protocol.court.commitments import dispute_id
from bytewise.protocol.decisions.actions import DemandEnvelope, OpenDispute
from bytewise.protocol.decisions.demands import DemandKind, DemandState
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.actors import NotServed, TryAgain
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.records.statements import AuditOutcome, Verdict
from bytewise.protocol.units import Blob, Digest
from tests.fixtures.builders import ANCHOR, DISPUTES, word
from tests.fixtures.verifier.audit_node import node_of, run
from tests.fixtures.verifier.verifier_fixture import NETWORK, PARAMS, WINDOW_S, VerifierFixture
from tests.fixtures.verifier.withholding import (
    BOND,
    PAST_DEADLINE_S,
    POLICY,
    STRANGER,
    TOWER,
    TRY_S,
    closed,
    demander,
    hand_over,
    step,
    steps,
)
from verifier.demander import OTHERS_PAUSE_S
from verifier.disputes.own_disputes import OwnDisputes
from verifier.watch.records import FETCH_BUDGET_S


def test_withheld_envelope_is_demanded_and_fetched_from_the_answer(setup: VerifierFixture) -> None:
    signed = setup.signed(1)
    setup.anchor(signed)
    data = setup.shelf.blobs.pop(signed.locator)
    setup.records.step(setup.chain.now())
    setup.chain.pass_time(PAST_DEADLINE_S)
    part, name = demander(setup), receipt_id(ANCHOR, signed.receipt)
    assert set(steps(setup, part)) == {DemandEnvelope(name, BOND)}
    part.ask(DemandEnvelope(name, BOND), setup.sender)
    ((sent, batch_id, proof, bond),) = setup.sender.of("demand envelope")
    assert (sent, batch_id, proof, bond) == (signed, 0, (), BOND)
    setup.chain.answers[name] = Blob(setup.shelf.put(data).encode())
    setup.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND, ended=DemandState.ANSWERED)
    assert steps(setup, part) == []
    assert setup.records.case(name, setup.chain.now()).envelope == data


def test_receipt_that_a_demand_holds_open_is_audited_after_its_batch(setup: VerifierFixture) -> None:
    """An operator that answers in the last second would keep auditors out of a window that the chain keeps open."""
    hidden, other = setup.signed(1, cheat=True), setup.signed(2)
    header = setup.anchor(hidden, other)
    data = setup.shelf.blobs.pop(hidden.locator)
    node, _ = node_of(setup)
    run(setup, node, 1)
    setup.chain.pass_time(header.anchored_at + WINDOW_S - 30 - setup.chain.timestamp)
    name, second = receipt_id(ANCHOR, hidden.receipt), receipt_id(ANCHOR, other.receipt)
    setup.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND)
    setup.chain.pass_time(50)
    setup.chain.answers[name] = Blob(setup.shelf.put(data).encode())
    setup.chain.end(name, DemandState.ANSWERED)
    node.tick()
    seen = setup.pages.read(setup.chain.head())
    assert not seen.is_open(0) and seen.can_question(name, 0) and not seen.can_question(second, 0)
    assert [live.seen.receipt_id for live in setup.records.live] == [name]
    step(setup, demander(setup))
    run(setup, node, 2)
    assert [(each.receipt_id, each.result) for each, _ in setup.sender.of("audit")] == [
        (second, AuditOutcome.MATCH), (name, AuditOutcome.MISMATCH),
    ]  # fmt: skip
    setup.chain.pass_time(31)
    assert setup.pages.read(setup.chain.head()).batches == ()


def test_window_that_cannot_be_read_now_loses_no_receipt_and_no_vote(
    setup: VerifierFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = setup.signed(1)
    header = setup.anchor(signed)
    pages, name = setup.pages, receipt_id(ANCHOR, signed.receipt)
    setup.records.step(pages.read(setup.chain.head()))
    setup.chain.pass_time(header.anchored_at + WINDOW_S - 10 - setup.chain.timestamp)
    setup.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND)
    setup.chain.pass_time(30)
    read, failing = setup.chain.window_end, True

    def window_end(receipt: Digest, batch_id: int, block: int) -> int:
        if failing:
            raise TryAgain("chain", "late")
        return read(receipt, batch_id, block)

    monkeypatch.setattr(setup.chain, "window_end", window_end)
    for _ in range(2):
        seen = pages.read(setup.chain.head())
        assert not seen.has_windows and seen.batch(0) is not None
        setup.records.step(seen)
    failing = False
    seen = pages.read(setup.chain.head())
    setup.records.step(seen)
    assert seen.has_windows and seen.can_question(name, 0) and [live.seen.receipt_id for live in setup.records.live] == [name]


def test_demand_that_a_reorganisation_took_back_holds_no_window(setup: VerifierFixture) -> None:
    signed = setup.signed(1)
    setup.anchor(signed)
    pages, name = setup.pages, receipt_id(ANCHOR, signed.receipt)
    pages.read(setup.chain.head())
    setup.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND)
    assert name in pages.read(setup.chain.head()).extended
    del setup.chain.claims[name]
    setup.chain.branch = "another"
    setup.chain.pass_time(1)
    assert pages.read(setup.chain.head()).extended == {}


@pytest.mark.parametrize("state", [DemandState.EXPIRED, DemandState.ANSWERED])
def test_withholding_is_disputed_however_long_its_demand_ran(setup: VerifierFixture, state: DemandState) -> None:
    """An ended demand of a receipt that can still be disputed is not forgotten, whatever period the budget has."""
    signed = closed(setup)
    part, name = demander(setup, replace(POLICY, budget_s=1)), receipt_id(ANCHOR, signed.receipt)
    setup.chain.answers[name] = Blob(b"eigenda:standard:0x02")
    setup.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND, ended=state)
    assert OpenDispute(name, PARAMS.required_bond) in steps(setup, part, 6)


@pytest.mark.parametrize("state", [DemandState.EXPIRED, DemandState.ANSWERED])
def test_envelope_missing_after_a_demand_is_disputed_once(setup: VerifierFixture, state: DemandState) -> None:
    signed = closed(setup)
    part, name = demander(setup), receipt_id(ANCHOR, signed.receipt)
    assert steps(setup, part)
    setup.chain.answers[name] = Blob(b"eigenda:standard:0x02")
    setup.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND, ended=state)
    assert set(steps(setup, part, 6)) == {OpenDispute(name, PARAMS.required_bond)}
    assert OpenDispute(name, PARAMS.required_bond) in steps(setup, demander(setup), 6), "also after a restart"
    setup.dispute(signed)
    assert steps(setup, part) == []


@pytest.mark.parametrize("state", [DemandState.EXPIRED, DemandState.ANSWERED])
def test_operators_demand_of_its_own_envelope_is_disputed_by_others_later(setup: VerifierFixture, state: DemandState) -> None:
    """A subject is demanded once: the bond of an operator's second account would end every other demand, and cost nothing."""
    signed = closed(setup)
    part, name = demander(setup), receipt_id(ANCHOR, signed.receipt)
    setup.chain.answers[name] = Blob(b"eigenda:standard:0x02")
    setup.chain.demand(name, DemandKind.ENVELOPE, STRANGER, BOND, ended=state)
    assert steps(setup, part, OTHERS_PAUSE_S // TRY_S) == [], "who demanded goes first"
    assert set(steps(setup, part, 6)) == {OpenDispute(name, PARAMS.required_bond)}
    setup.dispute(signed)
    assert steps(setup, part) == []


def test_late_watchtower_uses_half_of_the_remaining_window(setup: VerifierFixture) -> None:
    signed = closed(setup)
    part, name = demander(setup), receipt_id(ANCHOR, signed.receipt)
    setup.chain.demand(name, DemandKind.ENVELOPE, STRANGER, BOND, ended=DemandState.ANSWERED)
    setup.chain.extended[0] = setup.chain.timestamp + 6 * TRY_S - setup.chain.window_end(name, 0, setup.chain.number)
    step(setup, part, 0)
    assert [bool(step(setup, part, TRY_S)) for _ in range(5)] == [False, False, True, True, True]


def test_withheld_envelope_needed_by_nobody_is_not_disputed(setup: VerifierFixture) -> None:
    setup.chain.joined.clear()
    signed = closed(setup)
    part, name = demander(setup), receipt_id(ANCHOR, signed.receipt)
    setup.chain.demand(name, DemandKind.ENVELOPE, STRANGER, BOND, ended=DemandState.EXPIRED)
    assert steps(setup, part, 6 + OTHERS_PAUSE_S // TRY_S) == []


def test_tick_follows_demands_within_its_budget(setup: VerifierFixture) -> None:
    """Anybody can demand a hundred envelopes that a slow store does not have; votes have to be cast meanwhile."""
    now, ask = [0.0], 0.6
    setup.anchor(*(setup.signed(seq) for seq in range(1, 11)))
    setup.records.step(setup.chain.now())
    names = [live.seen.receipt_id for live in setup.records.live]
    for name in names:
        setup.chain.demand(name, DemandKind.ENVELOPE, STRANGER, BOND, ended=DemandState.EXPIRED)
    asked: list[Digest] = []

    def slow(receipt_id: Digest, batch_id: int, snapshot: Snapshot) -> bytes:
        now[0] += ask
        asked.append(receipt_id)
        raise NotServed("an envelope", "nothing")

    setup.records.obtain = slow  # type: ignore[method-assign]
    part = demander(setup, replace(POLICY, budget_wei=0), monotonic=lambda: now[0])
    for _ in range(3):
        before = now[0]
        part.step(setup.chain.pass_time(1))
        assert now[0] - before <= FETCH_BUDGET_S + ask
    assert set(asked) == set(names), "what failed least often comes first"
    asked.clear()
    demander(setup, fetches=False).step(setup.chain.now())
    assert not asked, "who needs no envelopes asks for none"


def test_withholding_disputes_have_a_budget_remembered_by_the_chain(setup: VerifierFixture) -> None:
    """An operator that gives the committee what it gives nobody else wins every one of them."""
    bond = PARAMS.required_bond
    both = [setup.signed(1), setup.signed(2)]
    setup.anchor(*both)
    names = [receipt_id(ANCHOR, each.receipt) for each in both]
    for signed in both:
        del setup.shelf.blobs[signed.locator]
    for name in names:
        setup.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND, ended=DemandState.EXPIRED)
    policy = replace(POLICY, dispute_budget_wei=2 * bond - 1)
    (first,) = set(steps(setup, demander(setup, policy), 6))
    assert isinstance(first, OpenDispute) and len(set(steps(setup, demander(setup), 6))) == 2
    ours = next(each for each in both if receipt_id(ANCHOR, each.receipt) == first.receipt_id)
    case = setup.dispute(ours, id=dispute_id(DISPUTES, first.receipt_id))
    setup.chain.alternatives[case.id] = word("alternative")
    part = demander(setup, policy)
    assert steps(setup, part, 6) == []
    setup.chain.disputes.clear()
    assert OpenDispute(names[1 - both.index(ours)], bond) not in steps(setup, part, 6), "ended is not won back"


def test_our_disputes_and_wins_are_read_from_the_chain(setup: VerifierFixture) -> None:
    signed = setup.signed(1)
    name, own = receipt_id(ANCHOR, signed.receipt), OwnDisputes(setup.chain, NETWORK, TOWER)
    case = setup.dispute(signed, id=dispute_id(DISPUTES, name))
    own.follow(setup.chain.now())
    assert not own.has(name) and not own.is_unwon(name), "somebody else's"
    setup.chain.alternatives[case.id] = word("alternative")
    for verdict, unwon in ((Verdict.UPHELD, True), (Verdict.UNAVAILABLE, False)):
        setup.chain.disputes[:] = [replace(case, ended=True, verdict=verdict)]
        own.follow(setup.chain.pass_time(1))
        assert own.has(name) and own.is_unwon(name) is unwon
    late = OwnDisputes(setup.chain, NETWORK, TOWER)
    late.follow(replace(setup.chain.pass_time(1), disputes=()))
    assert late.has(name) and not late.is_unwon(name), "no later snapshot has it, and the first tick may have failed"
    setup.chain.disputes.clear()
    setup.chain.branch = "one block replaced"
    own.follow(setup.chain.pass_time(1))
    assert own.has(name) and not own.is_unwon(name), "a dispute that is over is in no later snapshot"
    setup.chain.disputes[:] = [case]
    setup.chain.branch = "the verdict is gone"
    own.follow(setup.chain.pass_time(1))
    assert own.is_unwon(name)
    setup.chain.alternatives.clear()
    setup.chain.branch = "another"
    own.follow(setup.chain.pass_time(1))
    assert not own.has(name)


def test_our_own_outage_is_not_disputed(setup: VerifierFixture) -> None:
    signed = closed(setup)
    part, name = demander(setup), receipt_id(ANCHOR, signed.receipt)
    steps(setup, part)
    setup.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND, ended=DemandState.ANSWERED)
    setup.shelf.away = True
    assert steps(setup, part, 12) == []


def test_watchtower_without_challenges_disputes_no_withholding(setup: VerifierFixture) -> None:
    signed = closed(setup)
    part, name = demander(setup, disputes=False), receipt_id(ANCHOR, signed.receipt)
    assert steps(setup, part)
    setup.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND, ended=DemandState.EXPIRED)
    assert steps(setup, part, 6) == []


def test_envelope_without_a_drawn_auditor_is_ignored_unless_a_client_asks(setup: VerifierFixture) -> None:
    setup.chain.joined.clear()
    signed = closed(setup)
    assert steps(setup, demander(setup)) == []
    found = steps(setup, demander(setup, given=hand_over(setup, signed)))
    assert set(found) == {DemandEnvelope(receipt_id(ANCHOR, signed.receipt), BOND)}
