"""The public draw of auditors, computed for others: once, and only where there is money to act on it."""

from dataclasses import replace
from typing import Any

import pytest

from bytewise.protocol.court.sortition import BEACON_DELAY_BLOCKS, audit_is_drawn
from bytewise.protocol.decisions.actions import DemandEnvelope
from bytewise.protocol.units import Digest
from tests.fixtures.builders import word
from tests.fixtures.verifier.verifier_fixture import VerifierFixture
from tests.fixtures.verifier.withholding import BOND, PAST_DEADLINE_S, POLICY, STRANGER, demander, steps
from verifier.audits.auditor import AuditSortition


def counted_draws(monkeypatch: pytest.MonkeyPatch) -> list[Digest]:
    """Receipts for which the draw of one auditor was computed, as often as it was."""
    computed, draw = list[Digest](), audit_is_drawn

    def counting(beacon: Digest, receipt_id: Digest, *rest: Any) -> bool:
        computed.append(receipt_id)
        return draw(beacon, receipt_id, *rest)

    monkeypatch.setattr("verifier.audits.auditor.audit_is_drawn", counting)
    return computed


def test_a_draw_is_computed_once_for_a_beacon(setup: VerifierFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand envelopes may be missing for as long as a window is open, and a hundred verifiers in the pool."""
    computed = counted_draws(monkeypatch)
    header, draws = setup.anchor(setup.signed(1)), AuditSortition(setup.chain)
    setup.chain.joined = {STRANGER: [(1, 0)], **setup.chain.joined}
    for _ in range(3):
        assert draws.has(word("receipt"), header, setup.chain.pass_time(1))
    assert computed == [word("receipt")] * 2, "one drew nothing, the next one did"
    setup.chain.branch = "another"
    setup.chain.joined = {STRANGER: [(1, 0)]}
    assert AuditSortition(setup.chain).has(word("receipt"), header, setup.chain.now()) is False
    monkeypatch.setattr(setup.chain, "block_hash", lambda number: word("other", number))
    draws.has(word("receipt"), header, setup.chain.now())
    assert len(computed) > 3, "another beacon is another draw"


def test_draw_is_not_computed_without_money_or_time_for_a_demand(setup: VerifierFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = counted_draws(monkeypatch)
    both = [setup.signed(1), setup.signed(2)]
    setup.anchor(*both)
    for signed in both:
        del setup.shelf.blobs[signed.locator]
    setup.records.step(setup.chain.now())
    setup.chain.pass_time(PAST_DEADLINE_S)
    steps(setup, demander(setup, replace(POLICY, budget_wei=BOND - 1)))
    assert computed == []
    (first, *_) = steps(setup, demander(setup, replace(POLICY, budget_wei=BOND)))
    assert isinstance(first, DemandEnvelope) and set(computed) == {first.receipt_id}


def test_beacon_is_read_once_per_block(setup: VerifierFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    header, draws, asked, ask = setup.anchor(setup.signed(1)), AuditSortition(setup.chain), list[int](), setup.chain.block_hash

    def counted(number: int) -> Digest:
        asked.append(number)
        return ask(number)

    monkeypatch.setattr(setup.chain, "block_hash", counted)
    seen = setup.chain.now()
    asked.clear()
    assert [draws.has(word("receipt", i), header, seen) for i in range(9)] == [True] * 9
    assert asked == [header.block + BEACON_DELAY_BLOCKS]
    setup.chain.branch = "another"
    draws.has(word("receipt"), header, setup.chain.now())
    assert asked.count(header.block + BEACON_DELAY_BLOCKS) == 2, "another branch may have another beacon"
