"""A process that runs for years: what it keeps of receipts and disputes goes when they are over."""

import os
import threading
from collections.abc import Sized
from pathlib import Path

import pytest

from bytewise.protocol.decisions.audits import WatchPolicy
from bytewise.protocol.decisions.disputes import MovePolicy, VotePolicy
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.units import Digest
from bytewise.storage.archive import Audits
from bytewise.storage.duties import Duties
from bytewise.storage.protection import Protection
from committee.ballots import Ballots
from tests.fixtures.builders import ANCHOR
from tests.fixtures.verifier.verifier_fixture import ME, NETWORK, WINDOW_S, Town
from tests.fixtures.verifier.watchtower_town import post, tip
from verifier import executor
from verifier.audits.auditor import Auditor
from verifier.disputes.watchtower import Watchtower
from verifier.executor import Performer
from verifier.jobs.worker import Worker
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


def live_through(town: Town, node: Node, worker: Worker, first: int, count: int) -> None:
    """So many batches one after the other, each audited by others and by us, disputed, and over before the next."""
    for number in range(first, first + count):
        header = town.anchor(town.signed(number), anchored_at=town.chain.timestamp, block=town.chain.number)
        town.chain.pass_time(3, blocks=3)
        node.tick()
        (live,) = [each for each in town.records.live if each.header.batch_id == header.batch_id]
        for who in ("voter", "second"):
            post(town, tip(live.seen.receipt_id, who, town.chain.timestamp))
        town.dispute(live.seen.signed, batch_id=header.batch_id)
        for _ in range(4):
            town.chain.pass_time(1)
            tick(node, worker)
        town.chain.disputes.clear()
        town.chain.pass_time(2 * WINDOW_S)
        tick(node, worker)


def tick(node: Node, worker: Worker) -> None:
    """A tick, and what its jobs lead to: the town's clock stands still meanwhile, or a job is late on a fast machine."""
    pause = threading.Event()
    for _ in range(JOB_PAUSES):
        node.tick()
        if not worker.busy():
            return
        pause.wait(0.02)
    raise AssertionError(f"jobs do not end: {sorted(worker.busy())}")


def test_tables_do_not_grow_with_finished_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "MAX_RECORDED", RECORDED)
    town, worker = Town(tmp_path), Worker()
    auditor = Auditor(
        town.chain, NETWORK, town.records, Audits(town.database, town.clock), town.journal, ME, town.enclave, worker, os.urandom,
        5, 100,
    )  # fmt: skip
    tower = Watchtower(town.chain, NETWORK, town.records, ME, WatchPolicy())
    votes = Ballots(
        NETWORK, town.records, town.store, Duties(town.database, town.clock), Protection(town.database, town.clock),
        town.journal, ME, town.enclave, worker, os.urandom, VotePolicy(),
    )  # fmt: skip
    performer = Performer(town.sender, town.journal, auditor, tower, votes)
    node = Node(
        town.chain,
        town.sender,
        town.pages,
        town.records,
        performer,
        MovePolicy(),
        [votes, auditor, tower],
        worker,
        auditor,
        votes,
    )
    live_through(town, node, worker, 1, 8)
    early = sizes(auditor, tower, votes, performer, node, town.records, worker)
    assert early["Performer._recorded"] == RECORDED, "more than that was decided"
    live_through(town, node, worker, 9, 8)
    late = sizes(auditor, tower, votes, performer, node, town.records, worker)
    worker.stop()
    assert {name: (early[name], size) for name, size in late.items() if size > early[name]} == {}
    assert len(town.chain.posted) == 32 and len(town.archive.receipts()) == 16


def test_results_about_unknown_receipts_are_forgotten(tmp_path: Path) -> None:
    """Anybody that is drawn may post a result; what it names need not exist."""
    town = Town(tmp_path)
    tower = Watchtower(town.chain, NETWORK, town.records, ME, WatchPolicy())
    town.anchor(town.signed(1), anchored_at=town.chain.timestamp)
    for number in range(5):
        post(town, tip(Digest(bytes([number]) * 32), "voter", 2**40))
    seen = town.chain.pass_time(1)
    town.records.step(seen)
    tower.step(seen)
    assert sizes(tower)["Watchtower._posted"] == 5
    tower.step(town.chain.pass_time(2 * WINDOW_S))
    assert sizes(tower)["Watchtower._posted"] == 0


def test_results_posted_before_the_oldest_open_batch_are_not_kept_at_start(tmp_path: Path) -> None:
    town = Town(tmp_path)
    old, young = town.signed(1), town.signed(2)
    town.anchor(old, anchored_at=town.chain.timestamp)
    post(town, tip(receipt_id(ANCHOR, old.receipt), "voter", town.chain.timestamp + 5))
    town.chain.pass_time(2 * WINDOW_S, blocks=5)
    town.anchor(young, anchored_at=town.chain.timestamp, block=town.chain.number)
    post(town, tip(receipt_id(ANCHOR, young.receipt), "voter", town.chain.timestamp))
    seen = town.chain.pass_time(3, blocks=3)
    town.records.step(seen)
    tower = Watchtower(town.chain, NETWORK, town.records, ME, WatchPolicy())
    tower.step(seen)
    assert sizes(tower)["Watchtower._posted"] == 1
