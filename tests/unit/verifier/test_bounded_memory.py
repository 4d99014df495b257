"""A process that runs for years: what it keeps of receipts and disputes goes when they are over."""

import os
import threading
from collections.abc import Sized

import pytest

from bytewise.protocol.decisions.disputes import MovePolicy, VotePolicy
from bytewise.protocol.decisions.strategies import WatchPolicy
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.units import Digest
from bytewise.storage.duties import Duties
from bytewise.storage.protection import Protection
from committee.ballots import Ballots
from tests.fixtures.builders import ANCHOR
from tests.fixtures.verifier.audit_node import auditor_of
from tests.fixtures.verifier.verifier_fixture import ME, NETWORK, WINDOW_S, VerifierFixture
from tests.fixtures.verifier.watchtower_fixture import hint, post
from verifier import executor
from verifier.disputes.watchtower import Watchtower
from verifier.executor import ActionExecutor
from verifier.jobs import enclave_pool
from verifier.jobs.enclave_pool import EnclavePool
from verifier.node import Node

RECORDED = 6
JOB_PAUSES = 3000


def sizes(*parts: object) -> dict[str, int]:
    """Every table of some objects with its length."""
    return {
        f"{type(part).__name__}.{name}": len(table)
        for part in parts
        for name, table in vars(part).items()
        if isinstance(table, Sized) and not isinstance(table, str | bytes | tuple)
    }


def live_through(setup: VerifierFixture, node: Node, pool: EnclavePool, first: int, count: int) -> None:
    """So many batches one after the other, each audited by others and by us, disputed, and over before the next."""
    for number in range(first, first + count):
        header = setup.anchor(setup.signed(number), anchored_at=setup.chain.timestamp, block=setup.chain.number)
        setup.chain.pass_time(3, blocks=3)
        node.tick()
        (live,) = [each for each in setup.records.live if each.header.batch_id == header.batch_id]
        for who in ("voter", "second"):
            post(setup, hint(live.seen.receipt_id, who, setup.chain.timestamp))
        setup.dispute(live.seen.signed, batch_id=header.batch_id)
        for _ in range(4):
            setup.chain.pass_time(1)
            tick(node, pool)
        setup.chain.disputes.clear()
        setup.chain.pass_time(2 * WINDOW_S)
        tick(node, pool)


def tick(node: Node, pool: EnclavePool) -> None:
    """A tick, and what its jobs lead to: the town's clock stands still meanwhile, or a job is late on a fast machine."""
    pause = threading.Event()
    for _ in range(JOB_PAUSES):
        node.tick()
        if not pool.busy():
            return
        pause.wait(0.02)
    raise AssertionError(f"jobs do not end: {sorted(pool.busy())}")


def test_tables_do_not_grow_with_finished_work(setup: VerifierFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "MAX_RECORDED", RECORDED)
    monkeypatch.setattr(enclave_pool, "REMEMBERED", RECORDED)
    monkeypatch.setattr(enclave_pool, "MEASURED", RECORDED)
    pool = setup.pool()
    auditor, _ = auditor_of(setup, pool=pool)
    tower = Watchtower(setup.chain, NETWORK, setup.records, ME, WatchPolicy())
    votes = Ballots(
        NETWORK, setup.records, setup.store, Duties(setup.database, setup.clock), Protection(setup.database, setup.clock),
        setup.journal, ME, pool, os.urandom, VotePolicy(),
    )  # fmt: skip
    executing = ActionExecutor(setup.sender, setup.journal, auditor, tower, votes)
    read = (setup.chain, setup.sender, setup.pages, setup.records)
    node = Node(*read, executing, MovePolicy(), [votes, auditor, tower], pool, auditor, votes)
    live_through(setup, node, pool, 1, 8)
    early = sizes(auditor, tower, votes, executing, node, setup.records, pool)
    assert early["ActionExecutor._recorded"] == early["EnclavePool._tickets"] == RECORDED, "more than that was decided"
    live_through(setup, node, pool, 9, 8)
    late = sizes(auditor, tower, votes, executing, node, setup.records, pool)
    assert {name: (early[name], size) for name, size in late.items() if size > early[name]} == {}
    assert len(setup.chain.posted) == 32 and len(setup.archive.receipts()) == 16


def test_results_about_unknown_receipts_are_forgotten(setup: VerifierFixture) -> None:
    """Anybody that is drawn may post a result; what it names need not exist."""
    tower = Watchtower(setup.chain, NETWORK, setup.records, ME, WatchPolicy())
    setup.anchor(setup.signed(1), anchored_at=setup.chain.timestamp)
    for number in range(5):
        post(setup, hint(Digest(bytes([number]) * 32), "voter", 2**40))
    seen = setup.chain.pass_time(1)
    setup.records.step(seen)
    tower.step(seen)
    assert sizes(tower)["Watchtower._posted"] == 5
    tower.step(setup.chain.pass_time(2 * WINDOW_S))
    assert sizes(tower)["Watchtower._posted"] == 0


def test_results_posted_before_the_oldest_open_batch_are_not_kept_at_start(setup: VerifierFixture) -> None:
    old, young = setup.signed(1), setup.signed(2)
    setup.anchor(old, anchored_at=setup.chain.timestamp)
    post(setup, hint(receipt_id(ANCHOR, old.receipt), "voter", setup.chain.timestamp + 5))
    setup.chain.pass_time(2 * WINDOW_S, blocks=5)
    setup.anchor(young, anchored_at=setup.chain.timestamp, block=setup.chain.number)
    post(setup, hint(receipt_id(ANCHOR, young.receipt), "voter", setup.chain.timestamp))
    seen = setup.chain.pass_time(3, blocks=3)
    setup.records.step(seen)
    tower = Watchtower(setup.chain, NETWORK, setup.records, ME, WatchPolicy())
    tower.step(seen)
    assert sizes(tower)["Watchtower._posted"] == 1
