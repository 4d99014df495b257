"""Nothing is signed while a receipt waits that other events could keep from being anchored (ADR 177)."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bytewise.protocol.compare import Generated
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.errors import TryAgain
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.receipt import SignedReceipt
from bytewise.protocol.request import Request
from bytewise.protocol.units import U64, Digest
from bytewise.storage.engine import open_database
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.migrate import migrate
from serving.openai import read_ask
from serving.pipeline import Hands, Pipeline
from serving.standing import Standing
from tests.unit.kms.world import World
from tests.unit.serving.test_batcher import ANCHOR, NOW, OPERATOR, WITHIN_S, Scene
from tests.unit.serving.test_complete_requests import LEAST
from tests.unit.serving.test_standing import OPEN
from tests.unit.serving.test_warm_up import OFFER, Words
from tests.world import Parrot


@dataclass
class Engine:
    """A parrot, while which speaks something may happen."""

    meanwhile: Callable[[], None] = lambda: None

    def generate(self, request: Request) -> Generated:
        self.meanwhile()
        return Parrot(7).generate(request)


@dataclass
class Desk:
    """A pipeline over real books, whose chain is what `show` says."""

    scene: Scene
    record: EpochRecord
    engine: Engine
    hands: Hands
    pipeline: Pipeline
    asked: int = 0

    def show(self, epoch: int) -> None:
        """The epoch that the last reading of the chain names."""
        standing = replace(OPEN, timestamp=self.scene.timestamp, epoch=replace(self.record, epoch=U64(epoch)), pause_s=0)
        self.scene.watch.update(standing, None)

    def ask(self) -> bytes:
        """Prepares and answers a new request."""
        self.asked += 1
        return self.pipeline.prepare(labelled(Label.RETRY, self.asked), read_ask(LEAST))()

    def signed(self) -> list[tuple[int, int]]:
        """Number and epoch of what waits."""
        return [(each.receipt.seq, each.receipt.key_epoch) for each in self.waiting()]

    def waiting(self) -> tuple[SignedReceipt, ...]:
        return self.scene.books.unbatched(9)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    migrate(f"sqlite:///{tmp_path / 'db'}")
    yield Scene(tmp_path)


@pytest.fixture
def desk(scene: Scene, tmp_path: Path) -> Desk:
    journal = Journal(open_database(f"sqlite:///{tmp_path / 'db'}"), journal_key(tmp_path / "journal.key"), scene)
    engine = Engine()
    hands = Hands(
        engine=engine, words=Words(), operator=OPERATOR, gateway=OPERATOR, blobs=scene, books=scene.books,  # type: ignore[arg-type]
        journal=journal, watch=scene.watch, clock=scene, rng=os.urandom, anchor=ANCHOR,
    )  # fmt: skip
    desk = Desk(scene, World(tmp_path / "kms").document.record, engine, hands, Pipeline(OFFER, hands, WITHIN_S, True))
    desk.show(1)
    return desk


def test_the_normal_flow_of_one_service_waits_for_nothing(desk: Desk) -> None:
    for _ in range(3):
        desk.ask()
    assert desk.signed() == [(1, 1), (2, 1), (3, 1)]


def test_nothing_is_signed_under_a_new_key_epoch_while_the_old_ones_receipts_wait(desk: Desk) -> None:
    desk.ask()
    desk.show(2)
    with pytest.raises(TryAgain, match="receipt 1 of key epoch 1 must be anchored before"):
        desk.pipeline.prepare(labelled(Label.RETRY, 9), read_ask(LEAST))
    desk.scene.batcher().tick()
    desk.show(2)
    with pytest.raises(TryAgain, match="receipt 1 of key epoch 1"):
        desk.ask()
    desk.scene.last_seq = 1
    desk.scene.epoch = 2
    desk.scene.batcher().tick()
    desk.show(2)
    desk.ask()
    assert desk.signed() == [(2, 2)]


def test_an_epoch_that_turns_while_the_engine_runs_is_seen_before_anything_is_signed(desk: Desk) -> None:
    desk.ask()
    desk.engine.meanwhile = lambda: desk.show(2)
    with pytest.raises(TryAgain, match="receipt 1 of key epoch 1"):
        desk.ask()
    assert desk.signed() == [(1, 1)] and desk.scene.books.next_seq() == 2


@pytest.mark.parametrize("changes", [{"environment": Digest(b"e" * 32)}, {"model_id": Digest(b"m" * 32)}])
def test_an_operator_that_starts_with_another_model_or_environment_first_anchors_what_waits(
    desk: Desk, changes: dict[str, Digest]
) -> None:
    of_before = {"environment": OFFER.environment.digest, "model_id": OFFER.model_id} | changes
    desk.scene.issue(1, **of_before)
    with pytest.raises(TryAgain, match="receipt 1 of key epoch 1 must be anchored before"):
        desk.ask()
    desk.scene.batcher().tick()
    desk.show(1)
    with pytest.raises(TryAgain, match="receipt 1"):
        desk.ask()


def test_a_rotation_costs_ticks_and_not_the_time_of_a_promise(scene: Scene) -> None:
    """Five receipts, batches of three: each tick sends what may be sent, and the new epoch opens with the last of them."""
    scene.issue(5)
    scene.epoch = 2
    for last in (0, 3):
        scene.last_seq = last
        scene.batcher().tick()
        with pytest.raises(TryAgain, match=f"receipt {last + 1} of key epoch 1 must be anchored before"):
            scene.watch.open()
    scene.last_seq = 5
    scene.batcher().tick()
    assert scene.watch.open()[1].epoch == 2 and [header.count for header in scene.sent] == [3, 2]


def test_after_a_closure_what_was_signed_before_it_is_anchored_first(scene: Scene) -> None:
    scene.issue(2)
    scene.closed = [(NOW + 1, NOW + 20)]
    scene.timestamp = NOW + 10
    scene.batcher().tick()
    with pytest.raises(TryAgain, match="this environment is not active"):
        scene.watch.open()
    scene.timestamp = NOW + 30
    scene.batcher().tick()
    with pytest.raises(TryAgain, match="receipt 1 was signed before a stop of the network"):
        scene.watch.open()
    scene.last_seq = 2
    scene.batcher().tick()
    assert scene.watch.open()[0].last_seq == 2
    scene.issue(1)
    scene.batcher().tick()
    assert scene.watch.open()[0].environment_active, "what was signed after the closure does not wait"


def test_a_closure_that_nobody_saw_because_the_process_was_down_is_found_as_well(scene: Scene) -> None:
    scene.issue(1)
    scene.closed = [(NOW + 5, NOW + 6)]
    scene.timestamp = NOW + 30
    scene.batcher().tick()
    with pytest.raises(TryAgain, match="receipt 1 was signed before a stop"):
        scene.watch.open()


def test_without_waiting_receipts_the_chain_is_asked_nothing_more(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def lost_since(_scene: Scene, moment: int, _standing: Standing) -> int:
        asked.append(moment)
        return 0

    monkeypatch.setattr(Scene, "lost_since", lost_since)
    scene.batcher().tick()
    scene.issue(2)
    scene.batcher().tick()
    assert asked == [NOW] and scene.watch.open()[0].number == 1
