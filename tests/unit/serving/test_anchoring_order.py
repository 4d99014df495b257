"""What waits to be anchored keeps nobody from being served; what has closed does (ADR-011)."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bytewise.protocol import encoding
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.encoding import MAX_DOCUMENT_BYTES
from bytewise.protocol.errors.actors import BadRequest, SignerAway, TryAgain
from bytewise.protocol.errors.records import ClientSignatureBad
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.records.receipt import SignedEmptyLeaf, SignedReceipt
from bytewise.protocol.records.request import Request
from bytewise.protocol.records.trace import Generated
from bytewise.protocol.signing import Preimage
from bytewise.protocol.units import U64, Blob, Digest
from bytewise.storage.engine import open_database
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.receipt_store import StoredDraft
from serving.anchoring_order import ServiceTerms
from serving.openai import read_chat_request
from serving.pipeline import Pipeline, PipelineDeps
from serving.readiness import Readiness
from serving.refusals import Code
from serving.request_builder import make_choices, make_request
from serving.request_queue import RequestTicket
from tests.fixtures.builders import StubEngine, word
from tests.fixtures.chain.devnet import ENVIRONMENT, MODEL
from tests.fixtures.kms.release_network import World
from tests.fixtures.serving.batch_scene import ANCHOR, NOW, OPERATOR, WITHIN_S, BatchScene
from tests.fixtures.serving.least_request import LEAST
from tests.fixtures.serving.offer import OFFER, StubTokenizer
from tests.fixtures.serving.open_readiness import OPEN


@dataclass
class Engine:
    """A parrot, while which speaks something may happen."""

    meanwhile: Callable[[], None] = lambda: None
    answers: int = 0

    def generate(self, request: Request) -> Generated:
        self.meanwhile()
        self.answers += 1
        return StubEngine(7).generate(request)


@dataclass
class QueueFixture:
    """A pipeline over a real receipt store, whose chain is what `show` says."""

    scene: BatchScene
    record: EpochRecord
    engine: Engine
    deps: PipelineDeps
    pipeline: Pipeline
    asked: int = 0

    def show(self, epoch: int) -> None:
        """The epoch that the last reading of the chain names."""
        readiness = replace(OPEN, timestamp=self.scene.timestamp, epoch=replace(self.record, epoch=U64(epoch)), pause_s=0)
        self.scene.watch.update(readiness, None)

    def close(self, **changes: object) -> None:
        """The last reading of the chain, with something closed."""
        opened, _ = self.scene.watch.open()
        self.scene.watch.update(replace(opened, **changes), None)  # type: ignore[arg-type]

    def ask(self, **members: object) -> bytes:
        """Prepares and answers a new request, with these members."""
        self.asked += 1
        return self.answer(labelled(Label.RETRY, self.asked), **members)

    def answer(self, name: Digest, **members: object) -> bytes:
        """Prepares and answers the request with this name under an idempotency key."""
        return self.pipeline.prepare(RequestTicket(name, once=True, retry=0), read_chat_request(LEAST | members))()

    def signed(self) -> list[tuple[int, int]]:
        """Number and epoch of what waits."""
        return [(each.receipt.seq, each.receipt.key_epoch) for each in self.waiting()]

    def waiting(self) -> tuple[SignedReceipt, ...]:
        return self.scene.receipt_store.unbatched(9)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[BatchScene]:
    yield BatchScene(tmp_path)


@pytest.fixture
def queue(scene: BatchScene, tmp_path: Path) -> QueueFixture:
    journal = Journal(open_database(f"sqlite:///{tmp_path / 'db'}"), journal_key(tmp_path / "journal.key"), scene)
    engine = Engine()
    deps = PipelineDeps(
        engine=engine, tokenizer=StubTokenizer(), operator=OPERATOR, gateway=OPERATOR, blobs=scene,  # type: ignore[arg-type]
        receipt_store=scene.receipt_store,
        journal=journal, watch=scene.watch, clock=scene, rng=os.urandom, anchor=ANCHOR,
    )  # fmt: skip
    queue = QueueFixture(scene, World(tmp_path / "kms").document.record, engine, deps, Pipeline(OFFER, deps, WITHIN_S, True))
    queue.show(1)
    return queue


def test_normal_flow_of_one_service_waits_for_nothing(queue: QueueFixture) -> None:
    for _ in range(3):
        queue.ask()
    assert queue.signed() == [(1, 1), (2, 1), (3, 1)]


def test_waiting_receipts_of_another_key_epoch_block_no_request(queue: QueueFixture) -> None:
    queue.ask()
    queue.show(2)
    queue.ask()
    assert queue.signed() == [(1, 1), (2, 2)]
    queue.scene.batcher().tick()
    queue.scene.last_seq = 1
    queue.scene.batcher().tick()
    assert [(header.first_seq, header.count, header.key_epoch) for header in queue.scene.sent] == [(1, 1, 1), (2, 1, 2)]


@pytest.mark.parametrize(("change", "why"), [({"epoch": None}, "no key epoch"), ({"epoch_refusal": "set accept.x"}, "accept.x")])
def test_waiting_request_is_not_computed_for_a_forbidden_epoch(queue: QueueFixture, change: dict[str, object], why: str) -> None:
    work = queue.pipeline.prepare(RequestTicket(labelled(Label.RETRY, 1), once=True, retry=0), read_chat_request(LEAST))
    queue.close(**change)
    with pytest.raises(TryAgain, match=why):
        work()
    assert queue.engine.answers == 0 and queue.signed() == []


def test_epoch_that_ends_while_the_engine_runs_is_seen_before_signing(queue: QueueFixture) -> None:
    queue.engine.meanwhile = lambda: queue.close(epoch=None)
    with pytest.raises(TryAgain, match="no key epoch is open, or"):
        queue.ask()
    assert queue.signed() == [] and queue.scene.receipt_store.next_seq() == 1


@pytest.mark.parametrize(
    ("closed", "why"),
    [
        ({"environment_active": False}, "this environment is not active"),
        ({"model_active": False}, "this model is not active"),
        ({"epoch": None}, "no key epoch is open, or the operator"),
        ({"judged": False}, "too few verifiers"),
    ],
)
def test_nothing_is_signed_for_a_closed_service_that_drains(queue: QueueFixture, closed: dict[str, object], why: str) -> None:
    queue.ask()
    queue.close(**closed)
    with pytest.raises(TryAgain, match=why):
        queue.ask()
    queue.scene.untils[ServiceTerms(OFFER.environment.digest, OFFER.model_id, 1)] = NOW + 30
    queue.scene.batcher().tick()
    assert [(header.count, deadline) for header, deadline in zip(queue.scene.sent, queue.scene.deadlines, strict=True)] == [
        (1, NOW + 30)
    ]


def test_requests_are_served_after_a_closure_while_receipts_wait(scene: BatchScene) -> None:
    scene.issue(2)
    scene.closed = [(NOW + 1, NOW + 20)]
    scene.timestamp = NOW + 10
    scene.batcher().tick()
    with pytest.raises(TryAgain, match="this environment is not active"):
        scene.watch.open()
    scene.timestamp = NOW + 30
    scene.batcher().tick()
    assert scene.watch.open()[0].last_seq == 0


def test_chain_is_not_asked_more_without_waiting_receipts(scene: BatchScene, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[ServiceTerms] = []

    def anchorable_for(_scene: BatchScene, service: ServiceTerms, _standing: Readiness) -> None:
        asked.append(service)

    monkeypatch.setattr(BatchScene, "anchorable_for", anchorable_for)
    scene.batcher().tick()
    assert asked == [] and scene.watch.open()[0].number == 1
    scene.issue(2)
    scene.batcher().tick()
    assert set(asked) == {ServiceTerms(ENVIRONMENT.digest, MODEL, 1)}


class LossySigner:
    """Signs, and its answer is lost as often as `losses` says; with what it was asked to sign."""

    def __init__(self, losses: int) -> None:
        self.address, self.losses = OPERATOR.address, losses
        self.asked: list[Preimage] = []

    def sign_preimage(self, preimage: Preimage) -> Blob:
        self.asked.append(preimage)
        self.losses -= 1
        if self.losses >= 0:
            raise SignerAway("signer", "its answer is lost")
        return OPERATOR.sign_preimage(preimage)


def with_signer(queue: QueueFixture, losses: int, **changes: object) -> LossySigner:
    lossy = LossySigner(losses)
    queue.deps = replace(queue.deps, operator=lossy, **changes)  # type: ignore[arg-type]
    queue.pipeline = Pipeline(OFFER, queue.deps, WITHIN_S, True)
    return lossy


@pytest.mark.parametrize("losses", [1, 2, 3])
def test_receipt_whose_signature_was_lost_is_signed_before_others(queue: QueueFixture, losses: int) -> None:
    lossy = with_signer(queue, losses)
    for _ in range(losses):
        with pytest.raises(SignerAway):
            queue.ask()
    queue.ask()
    assert queue.signed() == [(1, 1), (2, 1)] and len(set(lossy.asked)) == 2
    answer = queue.scene.receipt_store.answer_from(labelled(Label.RETRY, 1))
    assert answer is not None and queue.scene.receipt_store.answer_from(labelled(Label.RETRY, losses)) == (
        answer if losses == 1 else None
    )


def test_retry_of_a_request_whose_signature_was_lost_gets_its_receipt(queue: QueueFixture) -> None:
    lossy = with_signer(queue, 1)
    with pytest.raises(SignerAway):
        queue.ask()
    queue.asked = 0
    answer = queue.ask()
    assert queue.signed() == [(1, 1)] and len(set(lossy.asked)) == 1
    assert queue.scene.receipt_store.answer_from(labelled(Label.RETRY, 1)) == (labelled(Label.RETRY, 1), answer)


def test_another_body_under_the_idempotency_key_of_a_draft_is_refused(queue: QueueFixture) -> None:
    with_signer(queue, 1)
    first, other = (Digest(bytes(16) + bytes([body]) * 16) for body in (1, 2))
    with pytest.raises(SignerAway):
        queue.answer(first)
    with pytest.raises(BadRequest) as refused:
        queue.answer(other)
    assert (refused.value.values[0], refused.value.values[2]) == ("Idempotency-Key", Code.KEY_REUSED)
    assert queue.signed() == [(1, 1)]
    assert queue.scene.receipt_store.answer_from(first[:16]) == (first, queue.answer(first))


@pytest.mark.parametrize("changes", [{"model_id": word("other")}, {"environment": replace(OFFER.environment, driver="new")}])
def test_draft_of_another_model_or_environment_is_never_signed(queue: QueueFixture, changes: dict[str, object]) -> None:
    lossy = with_signer(queue, 1)
    with pytest.raises(SignerAway):
        queue.ask()
    queue.pipeline = Pipeline(replace(OFFER, **changes), queue.deps, WITHIN_S, True)  # type: ignore[arg-type]
    with pytest.raises(TryAgain, match=f"of another model or environment, and is given up in {WITHIN_S - WITHIN_S // 2} s"):
        queue.ask()
    assert len(lossy.asked) == 1 and queue.signed() == []
    queue.close(timestamp=queue.scene.timestamp + WITHIN_S - WITHIN_S // 2)
    queue.ask()
    assert queue.signed() == [(2, 1)]


def test_number_whose_signature_was_lost_for_too_long_gets_an_empty_leaf(queue: QueueFixture) -> None:
    lossy = with_signer(queue, 1)
    with pytest.raises(SignerAway):
        queue.ask()
    queue.scene.timestamp += WITHIN_S // 2 + 1
    queue.show(1)
    queue.ask()
    assert queue.signed() == [(2, 1)] and len(set(lossy.asked)) == 2
    queue.scene.batcher().tick()
    (header,) = queue.scene.sent
    assert (header.first_seq, header.count) == (1, 2)
    assert [type(each) for each in queue.scene.receipt_store.leaves(1)] == [SignedEmptyLeaf, SignedReceipt]


@pytest.mark.parametrize("content", [b'"' + b"a" * MAX_DOCUMENT_BYTES + b'"', b'{"of":"another release"}', b""])
def test_draft_that_cannot_be_decoded_lasts_no_longer_than_others(
    queue: QueueFixture, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    queue.scene.receipt_store.draft(StoredDraft(1, 3, queue.scene.timestamp + WITHIN_S, content))
    for _ in range(2):
        with pytest.raises(TryAgain, match=f"cannot be read, and is given up in {WITHIN_S - WITHIN_S // 2} s"):
            queue.ask()
    assert queue.scene.receipt_store.next_seq() == 1
    queue.close(timestamp=queue.scene.timestamp + WITHIN_S - WITHIN_S // 2)
    queue.ask()
    assert queue.signed() == [(4, 1)] and capfd.readouterr().err.count("receipt.given_up") == 1


def test_answer_too_large_to_be_decoded_is_refused_unsigned(queue: QueueFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    lossy = with_signer(queue, 0)
    with monkeypatch.context() as limits:
        limits.setattr(encoding, "MAX_DOCUMENT_BYTES", 5_000)
        with pytest.raises(BadRequest, match="n: choices of this size cannot be signed together: ask for fewer"):
            queue.ask()
    assert lossy.asked == [] and queue.scene.receipt_store.drafted() is None
    queue.ask()
    assert queue.signed() == [(1, 1)]


def test_choice_that_is_larger_than_the_first_is_refused_at_the_limit(queue: QueueFixture) -> None:
    ask = read_chat_request(LEAST | {"seed": 0, "n": 8})
    first, _ = make_request(ask, OFFER, StubTokenizer(), OPERATOR, os.urandom, NOW)
    exact = replace(OFFER.environment.limits, max_request_bytes=len(encoding.encode(first)))
    offer = replace(OFFER, environment=replace(OFFER.environment, limits=exact))
    assert len(make_choices(first, 1, OPERATOR, os.urandom, offer.environment)) == 1
    with pytest.raises(BadRequest, match=r"messages: .*request bytes is"):
        make_choices(first, 8, OPERATOR, os.urandom, offer.environment)
    lossy = with_signer(queue, 0)
    queue.pipeline = Pipeline(offer, queue.deps, WITHIN_S, True)
    queue.ask(seed=0)
    with pytest.raises(BadRequest, match=r"messages: .*request bytes is"):
        queue.ask(seed=0, n=8)
    assert len(lossy.asked) == 1 and queue.signed() == [(1, 1)]


class WrongGateway:
    """A gateway key whose signatures are of another key."""

    address = OPERATOR.address

    def sign(self, _digest: Digest) -> Blob:
        return Blob(bytes(64) + b"\x1b")


def test_record_that_the_judge_would_refuse_is_neither_drafted_nor_signed(queue: QueueFixture) -> None:
    lossy = with_signer(queue, 0, gateway=WrongGateway())
    with pytest.raises(ClientSignatureBad):
        queue.ask()
    assert lossy.asked == [] and queue.scene.blobs == {} and queue.scene.receipt_store.drafted() is None
