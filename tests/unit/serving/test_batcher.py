"""From signed receipts to one batch after another, across crashes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete, select

from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.records.receipt import BatchHeader, ReceiptList, verify_list
from bytewise.protocol.units import U64, Digest
from bytewise.storage.engine import open_database, read_transaction, write_transaction
from bytewise.storage.receipt_store import ReceiptStore
from bytewise.storage.tables import IssuedReceiptRow, JournalRow
from serving.anchoring_order import EXPIRED, LeafSlot, ServiceTerms, uniform_head, verify_time_left
from tests.fixtures.builders import World
from tests.fixtures.chain.devnet import ENVIRONMENT, MODEL
from tests.fixtures.serving.batch_scene import ANCHOR, NOW, TTL_S, WITHIN_S, BatchScene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[BatchScene]:
    yield BatchScene(tmp_path)


def waiting(scene: BatchScene) -> list[LeafSlot]:
    """What is in no batch, as what may be sent."""
    return [LeafSlot(each.receipt.seq, each, "") for each in scene.receipt_store.unbatched(9)]


def test_batch_is_no_larger_than_the_contract_accepts(scene: BatchScene) -> None:
    scene.issue(3)
    scene.most = 2
    scene.batcher().tick()
    assert [(h.first_seq, h.count) for h in scene.sent] == [(1, 2)]
    scene.most, scene.last_seq = 0, 2
    scene.batcher().tick()
    assert len(scene.sent) == 1


@pytest.mark.parametrize(("length", "counts"), [(60_000, [2, 1]), (200_000, [1, 1, 1]), (100, [3])])
def test_no_list_exceeds_the_transaction_that_could_answer_with_it(scene: BatchScene, length: int, counts: list[int]) -> None:
    scene.locator = "eigenda:standard:0x" + "0" * length
    scene.issue(3)
    for count in counts:
        scene.batcher().tick()
        scene.last_seq += count
    assert [header.count for header in scene.sent] == counts
    assert all(len(scene.blobs[header.locator]) < 128 * 1024 for header in scene.sent if header.count > 1)


def test_receipts_are_batched_in_order_and_the_next_batch_waits(scene: BatchScene) -> None:
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


def test_crash_before_sending_resends_the_same_header(scene: BatchScene) -> None:
    scene.issue(2)
    scene.crash = True
    with pytest.raises(KeyboardInterrupt):
        scene.batcher().tick()
    stored = scene.receipt_store.open_batch()
    scene.crash = False
    scene.issue(1)
    scene.batcher().tick()
    assert scene.sent == [stored] and stored is not None and stored.count == 2


def test_a_tick_without_receipts_sends_nothing(scene: BatchScene) -> None:
    scene.batcher().tick()
    assert scene.sent == [] and scene.blobs == {}


def test_a_new_key_epoch_begins_a_new_batch(scene: BatchScene) -> None:
    scene.issue(1)
    scene.issue(1, key_epoch=U64(2))
    assert [slot.seq for slot in uniform_head(waiting(scene))] == [1]
    scene.batcher().tick()
    scene.last_seq = 1
    scene.batcher().tick()
    assert [(h.first_seq, h.count, h.key_epoch) for h in scene.sent] == [(1, 1, 1), (2, 1, 2)]


@pytest.mark.parametrize("field_name", ["environment", "model_id"])
def test_another_environment_or_model_begins_a_new_batch(scene: BatchScene, field_name: str) -> None:
    scene.issue(2)
    scene.issue(1, TTL_S, **{field_name: Digest(b"o" * 32)})
    assert len(uniform_head(waiting(scene))) == 2


def test_skipped_number_ends_no_batch_and_fits_either_service(scene: BatchScene) -> None:
    scene.issue(2)
    scene.issue(1, key_epoch=U64(2))
    first, second, third = waiting(scene)
    skipped = LeafSlot(2, None, EXPIRED)
    assert uniform_head([first, skipped, third]) == [first, skipped]
    assert uniform_head([skipped, second]) == [skipped, second] and uniform_head([skipped]) == [skipped]
    assert uniform_head([]) == []


def test_requests_are_refused_while_publication_lags_half_its_deadline(scene: BatchScene) -> None:
    scene.issue(1)
    scene.batcher().tick()
    scene.timestamp += 51
    scene.batcher().tick()
    with pytest.raises(TryAgain, match="receipt 1 still waits"):
        scene.watch.open()
    scene.last_seq = 1
    scene.batcher().tick()
    assert scene.watch.open()[0].last_seq == 1
    scene.issue(1)
    scene.max_anchor_delay_s = WITHIN_S // 2
    scene.timestamp += 60
    scene.batcher().tick()
    assert scene.watch.open()[0].last_seq == 1, "half of what the network accepts is left"
    scene.timestamp += 16
    scene.batcher().tick()
    with pytest.raises(TryAgain, match="receipt 2 still waits"):
        scene.watch.open()


def test_receipt_store_behind_the_chain_stops_the_process(scene: BatchScene) -> None:
    scene.last_seq = 1
    with pytest.raises(ConfigurationError):
        scene.batcher().tick()


@pytest.mark.parametrize("anchored", [0, 5], ids=["nothing was anchored", "the chain has more"])
def test_restored_operator_signs_no_receipt_and_stays_up(scene: BatchScene, anchored: int) -> None:
    """The numbers of receipts that were signed after the backup are unknown, and a second one with a number is equivocation."""
    scene.last_seq = anchored
    replace(scene.batcher(), restored=True).tick()
    with pytest.raises(TryAgain, match="came from a backup"):
        scene.watch.open()


def test_restored_operator_still_anchors_what_the_backup_has(scene: BatchScene) -> None:
    scene.issue(1)
    replace(scene.batcher(), restored=True).tick()
    assert [header.first_seq for header in scene.sent] == [1]


def test_remembered_answers_are_deleted_after_their_time(scene: BatchScene) -> None:
    scene.issue(1)
    key = labelled(Label.RETRY, 1)
    scene.timestamp += 49
    scene.batcher().tick()
    assert scene.receipt_store.answer_from(key) is not None
    scene.timestamp += 2
    scene.batcher().tick()
    assert scene.receipt_store.answer_from(key) is None


def test_only_the_newest_answers_are_remembered(scene: BatchScene) -> None:
    scene.retry_answers = 2
    for _ in range(4):
        scene.issue(1)
        scene.timestamp += 1
    scene.batcher().tick()
    assert [seq for seq in range(1, 5) if scene.receipt_store.answer_from(labelled(Label.RETRY, seq))] == [3, 4]


def test_operator_that_waited_for_free_stake_anchors_after_the_top_up(scene: BatchScene) -> None:
    """Longer than answers are remembered, and than `anchorBy`: the requests still live."""
    scene.issue(2)
    scene.most = 0
    for _ in range(2):
        scene.timestamp += WITHIN_S
        scene.batcher().tick()
    assert scene.sent == [] and scene.receipt_store.answer_from(labelled(Label.RETRY, 1)) is None
    scene.most = 100
    scene.batcher().tick()
    assert [header.count for header in scene.sent] == [2] and scene.deadlines == [NOW + TTL_S - WITHIN_S // 2]


def test_batch_is_sent_with_the_deadline_of_its_earliest_request(scene: BatchScene) -> None:
    scene.issue(1)
    scene.timestamp += 60
    scene.issue(1)
    scene.timestamp = NOW + TTL_S - WITHIN_S // 2
    scene.batcher().tick()
    scene.batcher().tick()
    assert scene.deadlines == [scene.timestamp] * 2 and len(scene.sent) == 2


def test_batch_anchored_in_time_needs_no_deadline(scene: BatchScene) -> None:
    scene.issue(1)
    scene.batcher().tick()
    scene.timestamp += 10 * TTL_S
    scene.last_seq = 1
    scene.batcher().tick()
    assert len(scene.sent) == 1


def test_expiry_of_a_request_outlives_its_answer(scene: BatchScene) -> None:
    scene.issue(1)
    scene.receipt_store.forget_answers(scene.timestamp + 1)
    assert scene.receipt_store.expiries([1]) == {1: NOW + TTL_S}


def test_request_expiring_before_its_anchoring_deadline_is_not_signed() -> None:
    request = World().request(expiry=U64(NOW))
    assert verify_time_left(request, NOW) == request
    with pytest.raises(TryAgain):
        verify_time_left(request, NOW + 1)


def kinds(scene: BatchScene, header: BatchHeader) -> list[tuple[int, str]]:
    """Number and kind of each leaf of a batch whose list fits its header."""
    members = verify_list(ANCHOR, header, decode(ReceiptList, scene.get(header.locator)))
    return [(each.signed.record.seq, type(each.signed.record).__name__) for each in members]


def test_late_number_is_skipped_and_its_neighbours_are_anchored(scene: BatchScene) -> None:
    scene.issue(1)
    scene.issue(1, ttl_s=TTL_S - 100)
    scene.issue(1)
    scene.timestamp = NOW + TTL_S - 100 - WITHIN_S // 2
    scene.batcher().tick()
    assert kinds(scene, scene.sent[-1]) == [(1, "Receipt"), (2, "Receipt"), (3, "Receipt")], "it can still be posted"
    scene.timestamp += 1
    scene.batcher().tick()
    assert scene.withdrawn == scene.sent[:1]
    assert kinds(scene, scene.sent[-1]) == [(1, "Receipt"), (2, "EmptyLeaf"), (3, "Receipt")]
    assert scene.deadlines[-1] == NOW + TTL_S - WITHIN_S // 2 and scene.receipt_store.open_batch() == scene.sent[-1]
    scene.last_seq = 3
    scene.batcher().tick()
    assert (
        scene.receipt_store.open_batch() is None
        and scene.receipt_store.unbatched(9) == ()
        and scene.watch.open()[0].last_seq == 3
    )


def test_batch_that_may_still_be_mined_is_not_resent_or_replaced(scene: BatchScene) -> None:
    scene.issue(2)
    scene.batcher().tick()
    built, scene.on_its_way = scene.receipt_store.open_batch(), True
    scene.timestamp = NOW + TTL_S
    scene.batcher().tick()
    assert len(scene.sent) == 1 and scene.receipt_store.open_batch() == built
    with pytest.raises(TryAgain, match="receipt 1 still waits"):
        scene.watch.open()
    scene.on_its_way = False
    scene.batcher().tick()
    assert kinds(scene, scene.sent[-1]) == [(1, "EmptyLeaf"), (2, "EmptyLeaf")]
    assert (scene.sent[-1].environment, scene.sent[-1].model_id, scene.deadlines[-1]) == (ENVIRONMENT.digest, MODEL, 0)


@pytest.mark.parametrize("dies_in", ["withdraw_batch", "discard", "add_batch", "anchor"])
def test_a_crash_while_a_batch_is_replaced_changes_nothing(
    scene: BatchScene, monkeypatch: pytest.MonkeyPatch, dies_in: str
) -> None:
    """Wherever it dies: after the next start the same leaves are posted, and the receipt store have their list."""
    scene.issue(2)
    scene.issue(1, ttl_s=2 * TTL_S)
    scene.batcher().tick()
    scene.timestamp = NOW + TTL_S
    with monkeypatch.context() as patch:
        owner = BatchScene if dies_in in ("withdraw_batch", "anchor") else ReceiptStore
        real = getattr(owner, dies_in)

        def dying(*arguments: object, **named: object) -> None:
            real(*arguments, **named)
            raise KeyboardInterrupt

        patch.setattr(owner, dies_in, dying)
        with pytest.raises(KeyboardInterrupt):
            scene.batcher().tick()
    for _ in range(2):
        scene.batcher().tick()
    stored = scene.receipt_store.open_batch()
    assert stored is not None and {encode(each) for each in scene.sent[1:]} == {encode(stored)}
    assert kinds(scene, stored) == [(1, "EmptyLeaf"), (2, "EmptyLeaf"), (3, "Receipt")]
    assert scene.receipt_store.list_data(1) == scene.get(stored.locator)


def test_closed_service_skips_its_own_late_numbers(scene: BatchScene) -> None:
    other = Digest(b"o" * 32)
    scene.issue(1, environment=other)
    scene.issue(2)
    scene.untils[ServiceTerms(other, MODEL, 1)] = NOW + 30
    scene.timestamp = NOW + 30
    scene.batcher().tick()
    assert kinds(scene, scene.sent[-1]) == [(1, "Receipt")] and scene.deadlines == [NOW + 30]
    scene.timestamp += 1
    scene.batcher().tick()
    assert kinds(scene, scene.sent[-1]) == [(1, "EmptyLeaf"), (2, "Receipt"), (3, "Receipt")]
    assert scene.sent[-1].environment == ENVIRONMENT.digest


def test_batch_of_empty_leaves_waits_for_an_open_service(scene: BatchScene) -> None:
    scene.issue(1)
    scene.timestamp, scene.closed = NOW + TTL_S, [(NOW + TTL_S, NOW + TTL_S + 10)]
    scene.batcher().tick()
    assert scene.sent == []
    scene.timestamp += 10
    scene.batcher().tick()
    scene.epoch, scene.untils = 2, {ServiceTerms(ENVIRONMENT.digest, MODEL, 1): scene.timestamp}
    scene.timestamp += 1
    scene.batcher().tick()
    assert [(header.root, header.key_epoch) for header in scene.sent] == [(scene.sent[0].root, epoch) for epoch in (1, 2)]


@pytest.mark.parametrize("lost", [[2], [1], [3], [1, 2, 3]])
def test_a_number_without_a_receipt_is_skipped(scene: BatchScene, lost: list[int]) -> None:
    scene.issue(3)
    with write_transaction(open_database(f"sqlite:///{scene.folder / 'db'}")) as connection:
        connection.execute(delete(IssuedReceiptRow).where(IssuedReceiptRow.seq.in_(lost)))
    scene.batcher().tick()
    assert kinds(scene, scene.sent[-1]) == [(seq, "EmptyLeaf" if seq in lost else "Receipt") for seq in (1, 2, 3)]
    scene.issue(1)
    scene.last_seq = 3
    scene.batcher().tick()
    assert kinds(scene, scene.sent[-1]) == [(4, "Receipt")]


def test_receipt_signed_while_a_batch_is_built_is_not_lost(scene: BatchScene) -> None:
    scene.issue(2)
    scene.batcher().tick()
    scene.last_seq = 2
    scene.issue(1)
    scene.batcher().tick()
    assert kinds(scene, scene.sent[-1]) == [(3, "Receipt")]


def test_batches_that_a_reorganisation_took_back_are_sent_again_in_order(scene: BatchScene) -> None:
    scene.issue(5)
    for last_seq in (0, 3, 5):
        scene.last_seq = last_seq
        scene.batcher().tick()
    first, second = scene.sent
    assert scene.receipt_store.open_batch() is None
    scene.issue(1)
    for last_seq in (0, 0, 3, 5):
        scene.last_seq = last_seq
        scene.batcher().tick()
    assert scene.sent[2:5] == [first, first, second] and kinds(scene, scene.sent[5]) == [(6, "Receipt")]
    assert scene.sent[5:] == [scene.receipt_store.open_batch()]


def test_batches_that_were_taken_back_for_too_long_are_built_anew(scene: BatchScene) -> None:
    scene.issue(3)
    scene.issue(2, ttl_s=2 * TTL_S)
    for last_seq in (0, 3, 5):
        scene.last_seq = last_seq
        scene.batcher().tick()
    scene.last_seq, scene.timestamp, scene.on_its_way = 0, NOW + TTL_S, True
    scene.batcher().tick()
    assert len(scene.sent) == 2 and scene.receipt_store.open_batch() == scene.sent[0], "both may still be mined"
    scene.on_its_way = False
    scene.batcher().tick()
    assert kinds(scene, scene.sent[2]) == [(seq, "EmptyLeaf") for seq in (1, 2, 3)]
    scene.last_seq = 3
    scene.batcher().tick()
    assert kinds(scene, scene.sent[3]) == [(4, "Receipt"), (5, "Receipt")]


def test_every_skipped_number_is_in_the_journal_with_its_reason(scene: BatchScene) -> None:
    scene.issue(1)
    scene.timestamp = NOW + TTL_S
    scene.batcher().tick()
    with read_transaction(open_database(f"sqlite:///{scene.folder / 'db'}")) as connection:
        (body,) = connection.execute(select(JournalRow.body).where(JournalRow.kind == "receipt.skip")).scalars()
    assert json.loads(body) == {"seq": "1", "why": EXPIRED}
