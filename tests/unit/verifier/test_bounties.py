"""From a signed result to its bounty: what the chain shows counts, and what had to wait is asked for again."""

from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.records.statements import audit_commitment
from bytewise.storage.archive import Audits
from tests.fixtures.verifier.audit_node import node_of, run, run_until
from tests.fixtures.verifier.verifier_fixture import ME, WINDOW_S, Town
from verifier.audits import bounties
from verifier.jobs.worker import Worker
from verifier.node import Node


def test_audit_mismatch_is_revealed_after_the_window_and_bounty_claimed(tmp_path: Path) -> None:
    town = Town(tmp_path)
    signed = town.signed(1, cheat=True)
    town.anchor(signed)
    node, audits, worker = node_of(town)
    run(town, node, worker, 1)
    assert town.sender.of("opening") == []
    town.chain.pass_time(WINDOW_S)
    node.tick()
    ((verifier, tokens, root, salt),) = town.sender.of("opening")
    result = town.sender.of("audit")[0][0]
    assert verifier == ME.address and audit_commitment(result.receipt_id, verifier, tokens, root, salt) == result.commitment
    town.chain.pass_time(1)
    node.tick()
    assert town.sender.of("bounty") == []
    town.chain.agreed = 2
    for _ in range(2):
        town.chain.pass_time(1)
        node.tick()
    worker.stop()
    assert len(town.sender.of("bounty")) == 1 and [row.state for row in audits.audits()] == ["DONE"]


def claiming(tmp_path: Path, count: int = 1) -> tuple[Town, Node, Audits, Worker]:
    """Audits that are shown, and with which somebody agrees."""
    town = Town(tmp_path)
    town.anchor(*(town.signed(i + 1) for i in range(count)))
    node, audits, worker = node_of(town)
    run(town, node, worker, count)
    town.chain.agreed = 2
    town.chain.pass_time(WINDOW_S)
    node.tick()
    worker.stop()
    assert len(town.sender.of("opening")) == count
    return town, node, audits, worker


def pass_blocks(town: Town, node: Node, seconds: int, count: int = 1) -> None:
    for _ in range(count):
        town.chain.pass_time(seconds)
        node.tick()


@pytest.mark.parametrize("verb", ["audit", "opening", "bounty"])
def test_dropped_bounty_claim_is_sent_again(tmp_path: Path, verb: str) -> None:
    """A pool that is empty or an hourly limit: the act waits, is dropped, and is due all the same."""
    town = Town(tmp_path)
    town.anchor(town.signed(1))
    town.chain.agreed = 2
    town.sender.dropped = {verb}
    node, audits, worker = node_of(town)
    run_until(town, node, worker, lambda: verb in town.sender.tried or (verb != "audit" and bool(town.sender.of("audit"))))
    worker.stop()
    if verb != "audit":
        town.chain.pass_time(WINDOW_S)
    pass_blocks(town, node, 1, 5)
    assert town.sender.tried.count(verb) > 1 and town.sender.of(verb) == []
    town.sender.dropped = set()
    pass_blocks(town, node, 1, 2)
    town.chain.pass_time(WINDOW_S)
    pass_blocks(town, node, 1, 4)
    assert len(town.sender.of(verb)) == 1 and [row.state for row in audits.audits()] == ["DONE"]
    tried = list(town.sender.tried)
    pass_blocks(town, node, 1, 3)
    assert town.sender.tried == tried, "nothing is left to do"


def test_unpayable_bounty_is_abandoned_after_a_day(tmp_path: Path) -> None:
    town, node, audits, _ = claiming(tmp_path)
    town.sender.dropped = {"bounty"}
    pass_blocks(town, node, 3_600, 23)
    assert [row.state for row in audits.audits()] == ["AGREED"] and town.sender.tried.count("bounty") == 22
    pass_blocks(town, node, 3_600, 3)
    assert [row.state for row in audits.audits()] == ["FAILED"]
    tried = list(town.sender.tried)
    pass_blocks(town, node, 3_600, 3)
    assert town.sender.tried == tried and town.sender.of("bounty") == []


def test_bounty_claim_survives_a_restart(tmp_path: Path) -> None:
    town, node, _, _ = claiming(tmp_path)
    town.sender.dropped = {"bounty"}
    pass_blocks(town, node, 60, 5)
    town.reopen()
    town.sender.dropped = set()
    node, audits, worker = node_of(town)
    pass_blocks(town, node, 60, 2)
    worker.stop()
    assert len(town.sender.of("bounty")) == 1 and [row.state for row in audits.audits()] == ["DONE"]


def test_concurrent_bounty_claims_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounties, "CLAIMS_AT_ONCE", 2)
    town, node, audits, _ = claiming(tmp_path, 3)
    town.sender.dropped = {"bounty"}
    pass_blocks(town, node, 1)
    pass_blocks(town, node, 1)
    assert [row.state for row in audits.audits()] == ["AGREED"] * 3 and town.sender.tried.count("bounty") == 2
    town.sender.dropped = set()
    pass_blocks(town, node, 1, 4)
    assert len(town.sender.of("bounty")) == 3 and [row.state for row in audits.audits()] == ["DONE"] * 3


def test_extended_window_leaves_time_to_post_a_result(tmp_path: Path) -> None:
    town = Town(tmp_path)
    header = town.anchor(town.signed(1))
    town.sender.dropped = {"audit"}
    node, audits, worker = node_of(town)
    run_until(town, node, worker, lambda: "audit" in town.sender.tried)
    worker.stop()
    town.chain.extended[header.batch_id] = 10_000
    pass_blocks(town, node, 2_000, 5)
    town.sender.dropped = set()
    pass_blocks(town, node, 1, 2)
    assert len(town.sender.of("audit")) == 1 and [row.state for row in audits.audits()] == ["POSTED"]


@pytest.mark.parametrize("cheat", [True, False])
def test_claim_for_a_disputed_receipt_waits_for_the_dispute_to_end(tmp_path: Path, cheat: bool) -> None:
    town = Town(tmp_path)
    doubted = town.signed(1, cheat=cheat)
    town.anchor(doubted)
    node, audits, worker = node_of(town)
    run(town, node, worker, 1)
    dispute = town.dispute(doubted, members=())
    town.chain.agreed = 2
    town.chain.pass_time(WINDOW_S)
    node.tick()
    worker.stop()
    town.sender.dropped = {"bounty"}
    pass_blocks(town, node, 36_000, 10)
    assert [row.state for row in audits.audits()] == ["AGREED"] and "bounty" not in town.sender.tried
    town.chain.disputes = [replace(dispute, phase=Phase.FINAL, paid=True, ended=True)]
    pass_blocks(town, node, 3_600, 20)
    assert [row.state for row in audits.audits()] == ["AGREED"] and town.sender.tried.count("bounty") == 20
    town.sender.dropped = set()
    pass_blocks(town, node, 1, 2)
    assert len(town.sender.of("bounty")) == 1 and [row.state for row in audits.audits()] == ["DONE"]
