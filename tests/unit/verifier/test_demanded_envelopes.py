"""Envelopes: demanded where somebody needs them, fetched from where an answer says, disputed where that is empty."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.court.commitments import dispute_id
from bytewise.protocol.decisions.actions import DemandEnvelope, OpenDispute
from bytewise.protocol.decisions.demands import DemandKind, DemandState
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.encoding import to_json
from bytewise.protocol.errors.actors import NotServed
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import Blob, Digest
from tests.fixtures.builders import ANCHOR, DISPUTES, word
from tests.fixtures.verifier.verifier_fixture import NETWORK, PARAMS, Town
from tests.fixtures.verifier.withholding import (
    BOND,
    PAST_DEADLINE_S,
    POLICY,
    STRANGER,
    TOWER,
    TRY_S,
    closed,
    demander,
    step,
    steps,
)
from verifier.demands.demander import OTHERS_PAUSE_S, OwnDisputes
from verifier.watch.records import FETCH_BUDGET_S


def test_withheld_envelope_is_demanded_and_fetched_from_the_answer(tmp_path: Path) -> None:
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
def test_envelope_missing_after_a_demand_is_disputed_once(tmp_path: Path, state: DemandState) -> None:
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
def test_operators_demand_of_its_own_envelope_is_disputed_by_others_later(tmp_path: Path, state: DemandState) -> None:
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


def test_late_watchtower_uses_half_of_the_remaining_window(tmp_path: Path) -> None:
    town = Town(tmp_path)
    signed = closed(town)
    part, name = demander(town), receipt_id(ANCHOR, signed.receipt)
    town.chain.demand(name, DemandKind.ENVELOPE, STRANGER, BOND)
    town.chain.end(name, DemandState.ANSWERED)
    town.chain.extended[0] = town.chain.timestamp + 6 * TRY_S - town.chain.window_end(name, 0, town.chain.number)
    step(town, part, 0)
    assert [bool(step(town, part, TRY_S)) for _ in range(5)] == [False, False, True, True, True]


def test_withheld_envelope_needed_by_nobody_is_not_disputed(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.chain.joined.clear()
    signed = closed(town)
    part, name = demander(town), receipt_id(ANCHOR, signed.receipt)
    town.chain.demand(name, DemandKind.ENVELOPE, STRANGER, BOND)
    town.chain.end(name, DemandState.EXPIRED)
    assert steps(town, part, 6 + OTHERS_PAUSE_S // TRY_S) == []


def test_tick_follows_demands_within_its_budget(tmp_path: Path) -> None:
    """Anybody can demand a hundred envelopes that a slow store does not have; votes have to be cast meanwhile."""
    town, now, ask = Town(tmp_path), [0.0], 0.6
    town.anchor(*(town.signed(seq) for seq in range(1, 11)))
    town.records.step(town.chain.now())
    names = [live.seen.receipt_id for live in town.records.live]
    for name in names:
        town.chain.demand(name, DemandKind.ENVELOPE, STRANGER, BOND)
        town.chain.end(name, DemandState.EXPIRED)
    asked: list[Digest] = []

    def slow(receipt_id: Digest, batch_id: int, snapshot: Snapshot) -> bytes:
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


def test_withholding_disputes_have_a_budget_remembered_by_the_chain(tmp_path: Path) -> None:
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


def test_our_disputes_and_wins_are_read_from_the_chain(tmp_path: Path) -> None:
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


def test_our_own_outage_is_not_disputed(tmp_path: Path) -> None:
    town = Town(tmp_path)
    signed = closed(town)
    part, name = demander(town), receipt_id(ANCHOR, signed.receipt)
    steps(town, part)
    town.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND)
    town.chain.end(name, DemandState.ANSWERED)
    town.shelf.away = True
    assert steps(town, part, 12) == []


def test_watchtower_without_challenges_disputes_no_withholding(tmp_path: Path) -> None:
    town = Town(tmp_path)
    signed = closed(town)
    part, name = demander(town, disputes=False), receipt_id(ANCHOR, signed.receipt)
    assert steps(town, part)
    town.chain.demand(name, DemandKind.ENVELOPE, TOWER, BOND)
    town.chain.end(name, DemandState.EXPIRED)
    assert steps(town, part, 6) == []


def test_envelope_without_a_drawn_auditor_is_ignored_unless_a_client_asks(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.chain.joined.clear()
    signed = closed(town)
    assert steps(town, demander(town)) == []
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(to_json(signed), indent=1))
    found = steps(town, demander(town, given=folder))
    assert set(found) == {DemandEnvelope(receipt_id(ANCHOR, signed.receipt), BOND)}
