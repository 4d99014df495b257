"""From a signed result to its bounty: what the chain shows counts, and what had to wait is asked for again."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.records.statements import audit_commitment
from bytewise.storage.archive import LightAudits
from tests.fixtures.builders import word
from tests.fixtures.metric_values import value_of
from tests.fixtures.verifier.audit_node import node_of, run, run_until
from tests.fixtures.verifier.verifier_fixture import ME, WINDOW_S, VerifierFixture
from verifier.audits import bounties
from verifier.node import Node


def test_audit_mismatch_is_revealed_after_the_window_and_bounty_claimed(setup: VerifierFixture) -> None:
    signed = setup.signed(1, cheat=True)
    setup.anchor(signed)
    node, audits = node_of(setup)
    run(setup, node, 1)
    assert setup.sender.of("opening") == []
    setup.chain.pass_time(WINDOW_S)
    node.tick()
    ((verifier, tokens, root, salt),) = setup.sender.of("opening")
    result = setup.sender.of("audit")[0][0]
    assert verifier == ME.address and audit_commitment(result.receipt_id, verifier, tokens, root, salt) == result.commitment
    setup.chain.pass_time(1)
    node.tick()
    assert setup.sender.of("bounty") == []
    setup.chain.agreed = 2
    for _ in range(2):
        setup.chain.pass_time(1)
        node.tick()
    assert len(setup.sender.of("bounty")) == 1 and [row.state for row in audits.audits()] == ["DONE"]


def test_shown_audit_looks_for_agreement_every_ten_seconds_and_at_the_end(
    setup: VerifierFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look in every block for ten minutes made each receipt cost 600 calls of the chain, and a soak grew until it stood."""
    setup.anchor(setup.signed(1))
    node, audits = node_of(setup)
    run(setup, node, 1)
    setup.chain.pass_time(WINDOW_S)
    node.tick()
    looks: list[int] = []

    def agreeing(*_: object) -> int:
        looks.append(setup.chain.timestamp)
        return setup.chain.agreed

    monkeypatch.setattr(setup.chain, "agreeing", agreeing)
    pass_blocks(setup, node, 1, 60)
    assert 5 <= len(looks) <= 7 and {after - before for before, after in pairwise(looks)} == {bounties.LOOK_S}
    pass_blocks(setup, node, 1, bounties.STAGE_LIMITS[bounties.OPENED].seconds - 61)
    setup.chain.agreed = 2
    pass_blocks(setup, node, 1, 3)
    assert [row.state for row in audits.audits()] != ["FAILED"] and len(setup.sender.of("bounty")) == 1


def test_coverage_is_that_of_audits_whose_time_ended_today(setup: VerifierFixture) -> None:
    setup.anchor(setup.signed(1))
    node, audits = node_of(setup)
    node.tick()
    assert math.isnan(value_of("bytewise_audit_coverage_ratio")), "no audit was due"
    run(setup, node, 1)
    setup.chain.pass_time(WINDOW_S + 1)
    node.tick()
    assert value_of("bytewise_audit_coverage_ratio") == 1
    clock = setup.chain.now().clock
    for number, deadline in enumerate((clock - 1, clock - 100_000, clock + 1_000)):
        audits.add(word("missed", number), deadline)
    pass_blocks(setup, node, 1)
    assert value_of("bytewise_audit_coverage_ratio") == 0.5, "only one of them ended today, without a result"
    pass_blocks(setup, node, 1)


def claiming(setup: VerifierFixture, count: int = 1) -> tuple[Node, LightAudits]:
    """Audits that are shown, and with which somebody agrees."""
    setup.anchor(*(setup.signed(i + 1) for i in range(count)))
    node, audits = node_of(setup)
    run(setup, node, count)
    setup.chain.agreed = 2
    setup.chain.pass_time(WINDOW_S)
    node.tick()
    assert len(setup.sender.of("opening")) == count
    return node, audits


def pass_blocks(setup: VerifierFixture, node: Node, seconds: int, count: int = 1) -> None:
    for _ in range(count):
        setup.chain.pass_time(seconds)
        node.tick()


@pytest.mark.parametrize("verb", ["audit", "opening", "bounty"])
def test_dropped_bounty_claim_is_sent_again(setup: VerifierFixture, verb: str) -> None:
    """A pool that is empty or an hourly limit: the act waits, is dropped, and is due all the same."""
    setup.anchor(setup.signed(1))
    setup.chain.agreed = 2
    setup.sender.dropped = {verb}
    node, audits = node_of(setup)
    run_until(setup, node, lambda: verb in setup.sender.tried or (verb != "audit" and bool(setup.sender.of("audit"))))
    if verb != "audit":
        setup.chain.pass_time(WINDOW_S)
    pass_blocks(setup, node, 1, 5)
    assert setup.sender.tried.count(verb) > 1 and setup.sender.of(verb) == []
    setup.sender.dropped = set()
    pass_blocks(setup, node, 1, 2)
    setup.chain.pass_time(WINDOW_S)
    pass_blocks(setup, node, 1, 4)
    assert len(setup.sender.of(verb)) == 1 and [row.state for row in audits.audits()] == ["DONE"]
    tried = list(setup.sender.tried)
    pass_blocks(setup, node, 1, 3)
    assert setup.sender.tried == tried, "nothing is left to do"


def test_unpayable_bounty_is_abandoned_after_a_day(setup: VerifierFixture) -> None:
    node, audits = claiming(setup)
    setup.sender.dropped = {"bounty"}
    pass_blocks(setup, node, 3_600, 23)
    assert [row.state for row in audits.audits()] == ["AGREED"] and setup.sender.tried.count("bounty") == 22
    pass_blocks(setup, node, 3_600, 3)
    assert [row.state for row in audits.audits()] == ["FAILED"]
    tried = list(setup.sender.tried)
    pass_blocks(setup, node, 3_600, 3)
    assert setup.sender.tried == tried and setup.sender.of("bounty") == []


def test_bounty_claim_survives_a_restart(setup: VerifierFixture) -> None:
    node, _ = claiming(setup)
    setup.sender.dropped = {"bounty"}
    pass_blocks(setup, node, 60, 5)
    setup.reopen()
    setup.sender.dropped = set()
    node, audits = node_of(setup)
    pass_blocks(setup, node, 60, 2)
    assert len(setup.sender.of("bounty")) == 1 and [row.state for row in audits.audits()] == ["DONE"]


def test_concurrent_bounty_claims_are_bounded(setup: VerifierFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounties, "CLAIMS_AT_ONCE", 2)
    node, audits = claiming(setup, 3)
    setup.sender.dropped = {"bounty"}
    pass_blocks(setup, node, 1)
    pass_blocks(setup, node, 1)
    assert [row.state for row in audits.audits()] == ["AGREED"] * 3 and setup.sender.tried.count("bounty") == 2
    setup.sender.dropped = set()
    pass_blocks(setup, node, 1, 4)
    assert len(setup.sender.of("bounty")) == 3 and [row.state for row in audits.audits()] == ["DONE"] * 3


def test_extended_window_leaves_time_to_post_a_result(setup: VerifierFixture) -> None:
    header = setup.anchor(setup.signed(1))
    setup.sender.dropped = {"audit"}
    node, audits = node_of(setup)
    run_until(setup, node, lambda: "audit" in setup.sender.tried)
    setup.chain.extended[header.batch_id] = 10_000
    pass_blocks(setup, node, 2_000, 5)
    setup.sender.dropped = set()
    pass_blocks(setup, node, 1, 2)
    assert len(setup.sender.of("audit")) == 1 and [row.state for row in audits.audits()] == ["POSTED"]


@pytest.mark.parametrize("cheat", [True, False])
def test_claim_for_a_disputed_receipt_waits_for_the_dispute_to_end(setup: VerifierFixture, cheat: bool) -> None:
    doubted = setup.signed(1, cheat=cheat)
    setup.anchor(doubted)
    node, audits = node_of(setup)
    run(setup, node, 1)
    dispute = setup.dispute(doubted, members=())
    setup.chain.agreed = 2
    setup.chain.pass_time(WINDOW_S)
    node.tick()
    setup.sender.dropped = {"bounty"}
    pass_blocks(setup, node, 36_000, 10)
    assert [row.state for row in audits.audits()] == ["AGREED"] and "bounty" not in setup.sender.tried
    setup.chain.disputes = [replace(dispute, phase=Phase.FINAL, paid=True, ended=True)]
    pass_blocks(setup, node, 3_600, 20)
    assert [row.state for row in audits.audits()] == ["AGREED"] and setup.sender.tried.count("bounty") == 20
    setup.sender.dropped = set()
    pass_blocks(setup, node, 1, 2)
    assert len(setup.sender.of("bounty")) == 1 and [row.state for row in audits.audits()] == ["DONE"]
