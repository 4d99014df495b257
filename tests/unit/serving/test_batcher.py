"""From signed receipts to one batch after another, across crashes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors import ConfigurationError, TryAgain
from bytewise.protocol.receipt import BatchHeader, ReceiptList, SignedReceipt, receipt_id, verify_list
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U64, Digest, address
from bytewise.storage.books import Books, Issued
from bytewise.storage.engine import open_database
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.migrate import migrate
from serving.batcher import Batcher, uniform_head
from serving.deadline import expiry_of, verify_time_left
from serving.standing import Standing, Watch
from tests import devnet
from tests.anvil import CHAIN_ID
from tests.world import World

NOW = 1_800_000_000
WITHIN_S, TTL_S, PRICE = 100, 1000, 7
OPERATOR = devnet.signer(1)
ANCHOR = Domain(CHAIN_ID, address("0x" + "5a" * 20))


def answer(expiry: int) -> bytes:
    """As much of an answer as a batcher reads of it."""
    return encode({"opening": {"request": {"expiry": str(expiry)}}})


@dataclass
class Scene:
    """A batcher over real books, with a chain that shows what was anchored."""

    folder: Path
    last_seq: int = 0
    timestamp: int = NOW
    most: int = 100
    locator: str = "eigenda:standard:0x00"
    sent: list[BatchHeader] = field(default_factory=list)
    deadlines: list[int] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    crash: bool = False
    closed: list[tuple[int, int]] = field(default_factory=list)
    epoch: int = 1
    retry_answers: int = 100
    watch: Watch = field(default_factory=lambda: Watch(60.0, lambda: 0.0))

    def now(self) -> int:
        return self.timestamp

    def read(self) -> Standing:
        epoch, closed = devnet.epoch_document(self.epoch).record, any(a <= self.timestamp < b for a, b in self.closed)
        last, most = self.last_seq, self.most
        return Standing(1, self.timestamp, epoch, not closed, True, True, last, True, 100, PRICE, most, paused=False, pause_s=0)

    def lost_since(self, moment: int, standing: Standing) -> int:
        return sum(max(0, min(until, standing.timestamp) - max(since, moment)) for since, until in self.closed)

    def anchor(self, header: BatchHeader, fee_wei: int, deadline: int = 0) -> None:
        assert fee_wei >= header.count * PRICE
        if self.crash:
            raise KeyboardInterrupt
        self.deadlines.append(deadline)
        self.sent.append(header)

    def put(self, data: bytes) -> str:
        self.blobs[f"eigenda:standard:0x{len(self.blobs):02x}"] = data
        return list(self.blobs)[-1]

    def get(self, locator: str, accept: Callable[[bytes], bool] | None = None) -> bytes:
        return self.blobs[locator]

    @property
    def books(self) -> Books:
        return Books(open_database(f"sqlite:///{self.folder / 'db'}"), self, OPERATOR.address)

    def issue(self, count: int, **changes: object) -> None:
        """Signs the next receipts."""
        for _ in range(count):
            seq = self.books.next_seq()
            receipt = devnet.receipt(OPERATOR, seq, self.timestamp)
            receipt = replace(receipt, anchor_by=U64(self.timestamp + WITHIN_S), **changes)  # type: ignore[arg-type]
            identifier = receipt_id(ANCHOR, receipt)
            signed = SignedReceipt(receipt, OPERATOR.sign(identifier), self.locator)
            kept = Issued(identifier, signed, b"envelope", answer(self.timestamp + TTL_S))
            self.books.issue(labelled(Label.RETRY, seq), [kept])

    def batcher(self) -> Batcher:
        """A batcher as after a start."""
        journal = Journal(open_database(f"sqlite:///{self.folder / 'db'}"), journal_key(self.folder / "journal.key"), self)
        return Batcher(
            operator=OPERATOR.address, anchor=ANCHOR, chain=self, sender=self, blobs=self, books=self.books,
            journal=journal, watch=self.watch, clock=self, max_batch=3, anchor_within_s=WITHIN_S, retry_memory_s=50,
            retry_answers=self.retry_answers,
        )  # fmt: skip


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    migrate(f"sqlite:///{tmp_path / 'db'}")
    yield Scene(tmp_path)


def test_no_batch_is_larger_than_the_contract_takes(scene: Scene) -> None:
    scene.issue(3)
    scene.most = 2
    scene.batcher().tick()
    assert [(h.first_seq, h.count) for h in scene.sent] == [(1, 2)]
    scene.most, scene.last_seq = 0, 2
    scene.batcher().tick()
    assert len(scene.sent) == 1


@pytest.mark.parametrize(("length", "counts"), [(60_000, [2, 1]), (200_000, [1, 1, 1]), (100, [3])])
def test_no_list_is_longer_than_the_one_transaction_that_could_answer_with_it(
    scene: Scene, length: int, counts: list[int]
) -> None:
    scene.locator = "eigenda:standard:0x" + "0" * length
    scene.issue(3)
    for count in counts:
        scene.batcher().tick()
        scene.last_seq += count
    assert [header.count for header in scene.sent] == counts
    assert all(len(scene.blobs[header.locator]) < 128 * 1024 for header in scene.sent if header.count > 1)


def test_receipts_are_batched_in_order_and_the_next_batch_waits_for_the_first(scene: Scene) -> None:
    scene.issue(5)
    batcher = scene.batcher()
    batcher.tick()
    batcher.tick()
    assert [(h.first_seq, h.count) for h in scene.sent] == [(1, 3), (1, 3)] and scene.sent[0] == scene.sent[1]
    scene.last_seq = 3
    batcher.tick()
    assert (scene.sent[-1].first_seq, scene.sent[-1].count) == (4, 2)
    for header in scene.sent:
        listed = decode(ReceiptList, scene.get(header.locator))
        assert len(verify_list(ANCHOR, header, listed)) == header.count


def test_a_crash_before_sending_sends_the_same_header_after_it(scene: Scene) -> None:
    scene.issue(2)
    scene.crash = True
    with pytest.raises(KeyboardInterrupt):
        scene.batcher().tick()
    stored = scene.books.open_batch()
    scene.crash = False
    scene.issue(1)
    scene.batcher().tick()
    assert scene.sent == [stored] and stored is not None and stored.count == 2


def test_a_tick_without_receipts_sends_nothing(scene: Scene) -> None:
    scene.batcher().tick()
    assert scene.sent == [] and scene.blobs == {}


def test_a_new_key_epoch_begins_a_new_batch(scene: Scene) -> None:
    scene.issue(1)
    scene.issue(1, key_epoch=U64(2))
    assert [entry.receipt.seq for entry in uniform_head(scene.books.unbatched(9))] == [1]
    scene.batcher().tick()
    scene.last_seq = 1
    scene.batcher().tick()
    assert [(h.first_seq, h.count, h.key_epoch) for h in scene.sent] == [(1, 1, 1), (2, 1, 2)]


@pytest.mark.parametrize("field_name", ["environment", "model_id"])
def test_another_environment_or_model_begins_a_new_batch(scene: Scene, field_name: str) -> None:
    scene.issue(2)
    scene.issue(1, **{field_name: Digest(b"o" * 32)})
    assert len(uniform_head(scene.books.unbatched(9))) == 2


def test_a_gap_ends_a_batch(scene: Scene) -> None:
    scene.issue(3)
    entries: list[SignedReceipt] = list(scene.books.unbatched(9))
    del entries[1]
    assert len(uniform_head(entries)) == 1 and uniform_head([]) == []


def test_requests_are_refused_while_publication_is_half_a_promise_behind(scene: Scene) -> None:
    scene.issue(1)
    scene.batcher().tick()
    scene.timestamp += 51
    scene.batcher().tick()
    with pytest.raises(TryAgain, match="receipt 1 still waits"):
        scene.watch.open()
    scene.last_seq = 1
    scene.batcher().tick()
    assert scene.watch.open()[0].last_seq == 1


def test_books_that_know_less_than_the_chain_stop_the_process(scene: Scene) -> None:
    scene.last_seq = 1
    with pytest.raises(ConfigurationError):
        scene.batcher().tick()


def test_remembered_answers_are_dropped_after_their_time(scene: Scene) -> None:
    scene.issue(1)
    key = labelled(Label.RETRY, 1)
    scene.timestamp += 49
    scene.batcher().tick()
    assert scene.books.answer_from(key) is not None
    scene.timestamp += 2
    scene.batcher().tick()
    assert scene.books.answer_from(key) is not None, "its receipt still waits, so its expiry matters"
    scene.last_seq = 1
    scene.batcher().tick()
    assert scene.books.answer_from(key) is None


def test_of_many_answers_the_newest_are_remembered_and_those_that_wait_to_be_anchored(scene: Scene) -> None:
    def remembered() -> list[int]:
        return [seq for seq in range(1, scene.books.next_seq()) if scene.books.answer_from(labelled(Label.RETRY, seq))]

    scene.retry_answers = 2
    for _ in range(4):
        scene.issue(1)
        scene.timestamp += 1
    scene.batcher().tick()
    assert remembered() == [1, 2, 3, 4]
    scene.last_seq = 3
    scene.batcher().tick()
    assert remembered() == [3, 4]


def test_who_waited_long_for_free_stake_anchors_after_the_top_up(scene: Scene) -> None:
    """Longer than answers are remembered, and than `anchorBy`: the requests still live."""
    scene.issue(2)
    scene.most = 0
    for _ in range(2):
        scene.timestamp += WITHIN_S
        scene.batcher().tick()
    assert scene.sent == [] and scene.books.answer_from(labelled(Label.RETRY, 1)) is not None
    scene.most = 100
    scene.batcher().tick()
    assert [header.count for header in scene.sent] == [2] and scene.deadlines == [NOW + TTL_S - WITHIN_S // 2]


def test_a_batch_is_sent_while_its_earliest_request_lives_and_with_that_deadline(scene: Scene) -> None:
    scene.issue(1)
    scene.timestamp += 60
    scene.issue(1)
    scene.timestamp = NOW + TTL_S - WITHIN_S // 2
    scene.batcher().tick()
    scene.batcher().tick()
    assert scene.deadlines == [scene.timestamp] * 2 and len(scene.sent) == 2


@pytest.mark.parametrize("built", [False, True])
def test_an_operator_that_was_away_until_its_requests_expired_lives_on_and_sends_nothing(scene: Scene, built: bool) -> None:
    scene.issue(2)
    scene.crash = built
    if built:
        with pytest.raises(KeyboardInterrupt):
            scene.batcher().tick()
    scene.crash = False
    scene.timestamp = NOW + TTL_S - WITHIN_S // 2 + 1
    for _ in range(2):
        scene.batcher().tick()
        with pytest.raises(TryAgain, match="would convict this operator"):
            scene.watch.open()
    assert scene.sent == [] and (scene.books.open_batch() is not None) == built


def test_a_batch_that_was_anchored_in_time_needs_no_deadline_any_more(scene: Scene) -> None:
    scene.issue(1)
    scene.batcher().tick()
    scene.timestamp += 10 * TTL_S
    scene.last_seq = 1
    scene.batcher().tick()
    assert len(scene.sent) == 1


def test_a_receipt_without_its_answer_is_held_to_its_own_promise(scene: Scene) -> None:
    scene.issue(1)
    (signed,) = scene.books.unbatched(1)
    assert expiry_of(signed, None) == signed.receipt.anchor_by
    identifier = receipt_id(ANCHOR, signed.receipt)
    assert expiry_of(signed, scene.books.answers_to([identifier])[identifier]) == NOW + TTL_S


def test_a_request_that_would_expire_before_its_promise_is_not_signed() -> None:
    request = World().request(expiry=U64(NOW))
    assert verify_time_left(request, NOW) == request
    with pytest.raises(TryAgain):
        verify_time_left(request, NOW + 1)
