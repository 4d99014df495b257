"""What an operator owes for what it published: whatever else is away, demands are answered in time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bytewise.protocol.decisions.snapshot import AnchoredBatch, Snapshot
from bytewise.protocol.errors.actors import ConfigurationError, StoreCorrupt, TryAgain
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.merkle import batch_leaf, verify_batch_proof
from bytewise.protocol.records.receipt import SignedReceipt, receipt_id
from bytewise.protocol.units import Digest
from serving import batcher as duties_module
from serving.batcher import SUBJECTS_PER_CALL, BatchDuties
from serving.wiring import OperatorWork
from tests.fixtures import snapshot_builders
from tests.fixtures.serving.batch_scene import ANCHOR, NOW, OPERATOR, WITHIN_S, BatchScene
from tests.fixtures.work_counter import calls

DEADLINE = 77


@dataclass
class Owing:
    """The chain as duties read it, a sender that keeps what was answered, and the store."""

    scene: BatchScene
    number: int = 5
    batches: list[AnchoredBatch] = field(default_factory=list)
    envelopes: set[Digest] = field(default_factory=set)
    anchors: set[Digest] = field(default_factory=set)
    asked: list[Digest] = field(default_factory=list)
    said: list[tuple[object, ...]] = field(default_factory=list)
    away: bool = False

    def head(self) -> int:
        return self.number

    def snapshot(self, block: int) -> Snapshot:
        return snapshot_builders.snapshot(number=block, batch_count=len(self.batches))

    def anchored(self, from_batch: int, block: int) -> tuple[AnchoredBatch, ...]:
        return tuple(self.batches[from_batch:])

    def demanded_envelopes(self, receipts: tuple[Digest, ...], block: int) -> dict[Digest, int]:
        self.asked += receipts
        return {each: DEADLINE for each in receipts if each in self.envelopes}

    def demanded_anchors(self, receipts: tuple[Digest, ...], block: int) -> dict[Digest, int]:
        return {each: DEADLINE for each in receipts if each in self.anchors}

    def release(self, batch_id: int) -> None:
        self.said.append(("release", batch_id))

    def answer_list(self, batch_id: int, content: bytes, deadline: int = 0) -> None:
        self.said.append(("list", batch_id, content, deadline))

    def answer_envelope(self, receipt: Digest, locator: bytes, deadline: int = 0) -> None:
        self.said.append(("envelope", receipt, locator, deadline))

    def answer_anchor(self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], deadline: int = 0) -> None:
        self.said.append(("anchor", signed, batch_id, proof, deadline))

    def put(self, data: bytes) -> str:
        if self.away:
            raise TryAgain("da", "away")
        return self.scene.put(data)

    def get(self, locator: str, accept: Callable[[bytes], bool] | None = None) -> bytes:
        return self.scene.get(locator)

    def pump(self) -> int:
        self.said.append(("pump",))
        return 0

    def duties(self) -> BatchDuties:
        """As after a start."""
        return BatchDuties(self, self, self.scene.receipt_store, self, OPERATOR.address, ANCHOR)

    def publish(self, count: int, anchored_at: int = NOW + 1) -> list[SignedReceipt]:
        """The next batch: signed, built, anchored."""
        self.scene.issue(count)
        self.scene.batcher().tick()
        header = self.scene.sent[-1]
        self.scene.last_seq = header.first_seq + header.count - 1
        self.scene.batcher().tick()
        plain = snapshot_builders.anchored(
            len(self.batches), OPERATOR.address, first_seq=header.first_seq, anchored_at=anchored_at
        )
        self.batches.append(plain)
        return list(self.scene.receipt_store.in_batch(header.first_seq))


class Nothing:
    """No disputes."""

    def step(self) -> None:
        """Looks at none."""


@pytest.fixture
def owing(tmp_path: Path) -> Iterator[Owing]:
    yield Owing(BatchScene(tmp_path))


def test_a_list_is_answered_while_no_new_batch_can_be_built(owing: Owing) -> None:
    """When DA is away lists are demanded, and the batcher fails at every tick."""
    owing.publish(2)
    owing.batches[0] = replace(owing.batches[0], list_demanded=True, list_deadline=snapshot_builders.NOW + 9)
    owing.scene.issue(1)
    owing.away = True
    batcher = replace(owing.scene.batcher(), blobs=owing)
    work = OperatorWork(batcher, owing.duties(), Nothing(), owing, None, Nothing())  # type: ignore[arg-type]
    with pytest.raises(Unavailable):
        work.tick()
    answer = ("list", 0, owing.scene.receipt_store.list_data(1), snapshot_builders.NOW + 9)
    assert owing.said == [answer, ("pump",), ("pump",), ("pump",)]


class Turn:
    """One part of an operator's work, which fails or not."""

    def __init__(self, name: str, done: list[str], error: BytewiseError | None = None) -> None:
        self._name, self._done, self._error = name, done, error

    def step(self) -> None:
        """Its turn."""
        self._done.append(self._name)
        if self._error is not None:
            raise self._error

    tick = pump = step


def turns(**errors: BytewiseError) -> tuple[list[str], OperatorWork]:
    """The names of the parts in order of their turns, and the work."""
    done: list[str] = []
    batcher, duties, disputes, sender = (Turn(name, done, errors.get(name)) for name in ("batcher", "duties", "disputes", "pump"))
    return done, OperatorWork(batcher, duties, disputes, sender, None, Nothing())  # type: ignore[arg-type]


def test_owed_answers_are_sent_before_any_wait_for_da() -> None:
    done, work = turns(batcher=TryAgain("da", "first"), disputes=TryAgain("da", "second"))
    with pytest.raises(TryAgain, match="first"):
        work.tick()
    assert done == ["duties", "pump", "batcher", "pump", "disputes", "pump"]


@pytest.mark.parametrize("bug", [ConfigurationError("database", "wrong"), StoreCorrupt("receipt store", "gap")])
def test_bug_ends_the_work_beside_an_unavailable_service(bug: BytewiseError) -> None:
    done, work = turns(duties=TryAgain("da", "away"), batcher=bug, disputes=TryAgain("da", "away"))
    with pytest.raises(type(bug)):
        work.tick()
    assert done == ["duties", "pump", "batcher"]


def test_expired_demand_blocks_no_answer(owing: Owing) -> None:
    owing.publish(2)
    owing.batches[0] = replace(owing.batches[0], list_demanded=True, list_deadline=snapshot_builders.NOW + 9)
    owing.scene.issue(1)
    owing.scene.timestamp += 10**6
    OperatorWork(owing.scene.batcher(), owing.duties(), Nothing(), owing, None, Nothing()).tick()  # type: ignore[arg-type]
    assert [each[0] for each in owing.said] == ["list", "pump", "pump", "pump"] and len(owing.scene.sent) == 2


def test_late_anchoring_is_proven(owing: Owing) -> None:
    """`Demands.expire` takes a penalty for a demand that nobody answered, also for a receipt that is anchored by then."""
    late = owing.publish(3, anchored_at=NOW + WITHIN_S + 1)
    owing.anchors = {receipt_id(ANCHOR, late[1].receipt)}
    owing.duties().step()
    ((what, signed, batch_id, proof, deadline),) = owing.said
    assert (what, signed, batch_id, deadline) == ("anchor", late[1], 0, DEADLINE)
    leaf = batch_leaf(receipt_id(ANCHOR, late[1].receipt), late[1].receipt.seq)
    assert verify_batch_proof(owing.scene.sent[0].root, leaf, proof)  # type: ignore[arg-type]


def test_receipt_keeps_its_place_beside_a_skipped_number(owing: Owing) -> None:
    scene = owing.scene
    scene.issue(1, ttl_s=0)
    lost, kept = owing.publish(1, anchored_at=NOW + WITHIN_S + 1)
    name = receipt_id(ANCHOR, kept.receipt)
    owing.anchors = owing.envelopes = {name, receipt_id(ANCHOR, lost.receipt)}
    owing.duties().step()
    shown, envelope = owing.said
    assert owing.asked == [name] and envelope[:2] == ("envelope", name) and shown[:3] == ("anchor", kept, 0)
    assert verify_batch_proof(scene.sent[0].root, batch_leaf(name, kept.receipt.seq), shown[3])  # type: ignore[arg-type]


def test_demands_of_one_batch_are_answered_with_one_tree(owing: Owing) -> None:
    names = [receipt_id(ANCHOR, each.receipt) for each in owing.publish(3, anchored_at=NOW + WITHIN_S + 1)]
    hashed = []
    for count in (1, 3):
        owing.anchors, duties = set(names[:count]), owing.duties()
        hashed.append(calls(duties.step, "keccak"))
    assert hashed[0] == hashed[1] and len(owing.said) == 1 + 3


def test_cost_of_demanded_lists_is_linear(owing: Owing) -> None:
    work = []
    for count in (40, 160):
        owing.batches = [
            snapshot_builders.anchored(i, OPERATOR.address, list_demanded=True, list_deadline=snapshot_builders.NOW)
            for i in range(count)
        ]
        work.append(calls(owing.duties().step, "<genexpr>") / count)
    assert work[1] <= 1.1 * work[0]


def test_timely_receipts_are_not_checked_for_anchoring(owing: Owing) -> None:
    owing.anchors = {receipt_id(ANCHOR, each.receipt) for each in owing.publish(3, anchored_at=NOW + WITHIN_S)}
    owing.duties().step()
    assert owing.said == []


def test_demanded_envelope_is_stored_again_once_and_answered_with_locator(owing: Owing) -> None:
    signed = owing.publish(1)[0]
    name = receipt_id(ANCHOR, signed.receipt)
    owing.envelopes = {name}
    duties = owing.duties()
    owing.away = True
    with pytest.raises(Unavailable):
        duties.step()
    assert owing.said == [], "an answer that leads nowhere is worse than none yet"
    owing.away = False
    duties.step()
    owing.number += 1
    duties.step()
    (answer,) = set(owing.said)
    locator = bytes(answer[2]).decode()  # type: ignore[call-overload]
    assert answer == ("envelope", name, locator.encode(), DEADLINE) and locator != signed.locator
    assert owing.get(locator) == owing.scene.receipt_store.envelope(name) and len(owing.scene.blobs) == 2, (
        "the list and the envelope"
    )


def test_all_open_receipts_are_checked_in_turns(owing: Owing, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {receipt_id(ANCHOR, each.receipt) for _ in range(3) for each in owing.publish(3)}
    monkeypatch.setattr(duties_module, "SUBJECTS_PER_CALL", 2)
    monkeypatch.setattr(duties_module, "PAGES_PER_STEP", 2)
    duties = owing.duties()
    for _ in range(3):
        before = len(owing.asked)
        duties.step()
        owing.number += 1
        assert len(owing.asked) - before <= 4 < SUBJECTS_PER_CALL
    assert set(owing.asked) == names
