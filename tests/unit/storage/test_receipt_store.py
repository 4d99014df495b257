"""The receipt store: numbers without gap, one receipt per request, batches that never change."""

import sqlite3
from collections.abc import Callable

import pytest
from sqlalchemy import Engine, event

from bytewise.protocol.errors.actors import StoreCorrupt
from bytewise.protocol.errors.records import SequenceBroken
from bytewise.protocol.units import Address, Digest
from bytewise.storage.engine import open_database
from bytewise.storage.receipt_store import IssuedReceipt, ReceiptStore, StoredDraft
from tests.fixtures.storage.children import Child, race
from tests.fixtures.storage.databases import SqliteFiles
from tests.fixtures.storage.hand_clock import HandClock
from tests.fixtures.storage.stored_records import ACCOUNT, OTHER, header, name, signed_receipt


@pytest.fixture
def receipt_store(engine: Engine, clock: HandClock) -> ReceiptStore:
    return ReceiptStore(engine, clock, ACCOUNT)


def issue(receipt_store: ReceiptStore, count: int, operator: Address = ACCOUNT) -> None:
    for _ in range(count):
        seq = receipt_store.next_seq()
        receipt_store.issue(
            name(100 + seq), [IssuedReceipt(name(seq), signed_receipt(seq, operator), b"envelope", b"answer %d" % seq, 50)]
        )


def test_numbers_start_at_one_and_have_no_gap(receipt_store: ReceiptStore) -> None:
    assert (receipt_store.next_seq(), receipt_store.last_issued()) == (1, 0)
    issue(receipt_store, 3)
    assert (receipt_store.next_seq(), receipt_store.last_issued()) == (4, 3)
    assert [s.receipt.seq for s in receipt_store.unbatched(10)] == [1, 2, 3]


@pytest.mark.parametrize(("seq", "operator"), [(1, ACCOUNT), (4, ACCOUNT), (3, OTHER)])
def test_a_receipt_with_another_number_or_operator_is_refused(receipt_store: ReceiptStore, seq: int, operator: Address) -> None:
    issue(receipt_store, 2)
    with pytest.raises(SequenceBroken):
        receipt_store.issue(name(1), [IssuedReceipt(name(50), signed_receipt(seq, operator), b"", b"", 50)])
    assert receipt_store.next_seq() == 3 and receipt_store.answer_from(name(1)) is None


def test_a_request_never_gets_a_second_receipt(receipt_store: ReceiptStore) -> None:
    issue(receipt_store, 1)
    with pytest.raises(StoreCorrupt):
        receipt_store.issue(name(101), [IssuedReceipt(name(2), signed_receipt(2), b"envelope", b"second answer", 50)])
    assert receipt_store.answer_from(name(101)) == (name(101), b"answer 1")
    assert receipt_store.next_seq() == 2, "the number was not lost"


def test_request_answered_again_has_the_newest_answer(receipt_store: ReceiptStore) -> None:
    def choices(seq: int) -> list[IssuedReceipt]:
        return [IssuedReceipt(name(each), signed_receipt(each), b"envelope", b"answer %d" % each, 50) for each in (seq, seq + 1)]

    for seq in (1, 3, 5):
        receipt_store.issue(name(9), choices(seq), once=False)
        assert receipt_store.answer_from(name(9)) == (name(9), b"answer %d" % seq)


def test_answers_and_receipts_are_found_by_the_start_of_their_ids(receipt_store: ReceiptStore) -> None:
    named = [Digest(bytes([start]) * 16 + bytes([rest]) * 16) for start, rest in ((1, 255), (2, 0), (2, 9), (3, 0))]
    for seq, each in enumerate(named, 1):
        receipt_store.issue(each, [IssuedReceipt(each, signed_receipt(seq), b"envelope", b"answer %d" % seq, 50)])
    assert receipt_store.answer_from(named[0][:16]) == (named[0], b"answer 1")
    assert receipt_store.answer_from(named[2]) == (named[2], b"answer 3")
    assert receipt_store.answer_from(bytes(16)) is None and receipt_store.answer_from(named[3][:31] + b"\1") is None
    assert receipt_store.receipt_from(named[3][:16]) == receipt_store.receipt(named[3]) == signed_receipt(4)
    assert receipt_store.receipt_from(bytes(16)) is None


def test_choices_are_stored_together_or_not_at_all(receipt_store: ReceiptStore) -> None:
    issue(receipt_store, 1)
    three = [IssuedReceipt(name(seq), signed_receipt(seq), b"envelope", b"choice %d" % seq, 50 + seq) for seq in (2, 3, 5)]
    with pytest.raises(SequenceBroken):
        receipt_store.issue(name(9), three)
    assert receipt_store.next_seq() == 2 and receipt_store.answer_from(name(9)) is None and receipt_store.receipt(name(2)) is None
    receipt_store.issue(name(9), [*three[:2], IssuedReceipt(name(4), signed_receipt(4), b"envelope", b"choice 4", 54)])
    assert receipt_store.answer_from(name(9)) == (name(9), b"choice 2") and receipt_store.next_seq() == 5
    assert receipt_store.expiries([1, 2, 3, 4, 9]) == {1: 50, 2: 52, 3: 53, 4: 54}


def test_answers_are_deleted_and_receipts_kept(receipt_store: ReceiptStore, clock: HandClock) -> None:
    issue(receipt_store, 1)
    receipt_store.forget_answers(clock.now())
    assert receipt_store.answer_from(name(101)) == (name(101), b"answer 1")
    receipt_store.forget_answers(clock.now() + 1)
    assert receipt_store.answer_from(name(101)) is None
    assert receipt_store.receipt(name(1)) == signed_receipt(1) and receipt_store.envelope(name(1)) == b"envelope"


def test_two_processes_share_the_numbers_without_gap(url: str) -> None:
    left, right = race(Child("receipts", url, 1), Child("receipts", url, 2))
    assert sorted(left + right) == list(range(1, 61))


def test_batch_keeps_its_receipts_for_ever(receipt_store: ReceiptStore) -> None:
    issue(receipt_store, 5)
    receipt_store.add_batch(header(1, 3), b"list")
    receipt_store.add_batch(header(1, 3), b"list")
    assert receipt_store.open_batch() == header(1, 3) and receipt_store.list_data(1) == b"list"
    assert [s.receipt.seq for s in receipt_store.unbatched(10)] == [4, 5]
    assert [s.receipt.seq for s in receipt_store.in_batch(1)] == [1, 2, 3]
    receipt_store.anchored(1)
    assert receipt_store.open_batch() is None


def test_batch_that_can_no_longer_be_mined_releases_its_receipts(receipt_store: ReceiptStore) -> None:
    issue(receipt_store, 4)
    receipt_store.add_batch(header(1, 3), b"list")
    for other in (header(1, 2), header(2, 2)):
        with pytest.raises(StoreCorrupt):
            receipt_store.discard(other)
    assert receipt_store.batched_until() == 3
    receipt_store.discard(header(1, 3))
    assert receipt_store.open_batch() is None and receipt_store.list_data(1) is None and receipt_store.batched_until() == 0
    assert [s.receipt.seq for s in receipt_store.unbatched(10)] == [1, 2, 3, 4] and receipt_store.leaves(1) == ()
    receipt_store.add_batch(header(1, 4), b"list")
    receipt_store.anchored(1)
    with pytest.raises(StoreCorrupt):
        receipt_store.discard(header(1, 4))
    assert receipt_store.unbatched(10) == ()


def rows_visited(engine: Engine, work: Callable[[], object]) -> int:
    """Rows that SQLite's machine steps to while it works: instructions are counted, which are few for each."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    def watch(connection: sqlite3.Connection, *_: object) -> None:
        connection.set_progress_handler(tick, 1)

    event.listen(engine, "checkout", watch)
    try:
        work()
    finally:
        event.remove(engine, "checkout", watch)
    return count


def test_open_receipts_are_found_without_a_full_scan(sqlite_files: SqliteFiles, clock: HandClock) -> None:
    engine = open_database(sqlite_files.create())
    receipt_store, few = ReceiptStore(engine, clock, ACCOUNT), 0
    for seq in range(1, 61):
        issue(receipt_store, 1)
        receipt_store.add_batch(header(seq, 1), b"list")
        assert receipt_store.open_batch() == header(seq, 1)
        receipt_store.anchored(seq)
        found = rows_visited(engine, receipt_store.open_batch)
        few = few or found
        assert receipt_store.open_batch() is None and 0 < found <= few


@pytest.mark.parametrize(("first", "count"), [(2, 2), (3, 3), (4, 3)])
def test_a_batch_that_overlaps_or_reaches_too_far_is_refused(receipt_store: ReceiptStore, first: int, count: int) -> None:
    issue(receipt_store, 5)
    receipt_store.add_batch(header(1, 3), b"list")
    with pytest.raises(StoreCorrupt):
        receipt_store.add_batch(header(first, count), b"list")
    assert [s.receipt.seq for s in receipt_store.unbatched(10)] == [4, 5]


def test_a_batch_is_not_built_twice_in_different_ways(receipt_store: ReceiptStore) -> None:
    issue(receipt_store, 5)
    receipt_store.add_batch(header(1, 3), b"list")
    with pytest.raises(StoreCorrupt):
        receipt_store.add_batch(header(1, 2), b"list")


def test_draft_keeps_the_next_numbers(receipt_store: ReceiptStore) -> None:
    issue(receipt_store, 1)
    with pytest.raises(SequenceBroken):
        receipt_store.draft(StoredDraft(3, 1, 50, b"too early"))
    receipt_store.draft(StoredDraft(2, 2, 50, b"draft"))
    assert receipt_store.drafted() == StoredDraft(2, 2, 50, b"draft") and receipt_store.next_seq() == 2
    receipt_store.draft(StoredDraft(2, 1, 60, b"another"))
    assert receipt_store.drafted() == StoredDraft(2, 1, 60, b"another")
    issue(receipt_store, 1)
    assert receipt_store.drafted() is None and receipt_store.next_seq() == 3
    receipt_store.draft(StoredDraft(3, 2, 50, b"lost"))
    receipt_store.give_up_draft()
    assert receipt_store.drafted() is None and receipt_store.next_seq() == 5
    assert [each.receipt.seq for each in receipt_store.unbatched(9)] == [1, 2]
