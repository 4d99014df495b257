"""An operator's books: numbers without gap, one receipt per request, batches that never change."""

import sqlite3
from collections.abc import Callable

import pytest
from sqlalchemy import Engine, event

from bytewise.protocol.errors.actors import StoreCorrupt
from bytewise.protocol.errors.records import SequenceBroken
from bytewise.protocol.units import Address, Digest
from bytewise.storage.engine import open_database
from bytewise.storage.receipt_store import Books, Issued
from tests.fixtures.storage.children import Child, race
from tests.fixtures.storage.databases import SqliteFiles
from tests.fixtures.storage.hand_clock import HandClock
from tests.fixtures.storage.stored_records import ACCOUNT, OTHER, header, name, signed_receipt


@pytest.fixture
def books(engine: Engine, clock: HandClock) -> Books:
    return Books(engine, clock, ACCOUNT)


def issue(books: Books, count: int, operator: Address = ACCOUNT) -> None:
    for _ in range(count):
        seq = books.next_seq()
        books.issue(name(100 + seq), [Issued(name(seq), signed_receipt(seq, operator), b"envelope", b"answer %d" % seq)])


def test_numbers_start_at_one_and_have_no_gap(books: Books) -> None:
    assert (books.next_seq(), books.last_issued()) == (1, 0)
    issue(books, 3)
    assert (books.next_seq(), books.last_issued()) == (4, 3)
    assert [s.receipt.seq for s in books.unbatched(10)] == [1, 2, 3]


@pytest.mark.parametrize(("seq", "operator"), [(1, ACCOUNT), (4, ACCOUNT), (3, OTHER)])
def test_a_receipt_with_another_number_or_operator_is_refused(books: Books, seq: int, operator: Address) -> None:
    issue(books, 2)
    with pytest.raises(SequenceBroken):
        books.issue(name(1), [Issued(name(50), signed_receipt(seq, operator), b"", b"")])
    assert books.next_seq() == 3 and books.answer_from(name(1)) is None


def test_a_request_never_gets_a_second_receipt(books: Books) -> None:
    issue(books, 1)
    with pytest.raises(StoreCorrupt):
        books.issue(name(101), [Issued(name(2), signed_receipt(2), b"envelope", b"second answer")])
    assert books.answer_from(name(101)) == (name(101), b"answer 1")
    assert books.next_seq() == 2, "the number was not lost"


def test_repeated_request_has_the_newest_answer_and_receipts_keep_theirs(books: Books) -> None:
    def choices(seq: int) -> list[Issued]:
        return [Issued(name(each), signed_receipt(each), b"envelope", b"answer %d" % each) for each in (seq, seq + 1)]

    for seq in (1, 3, 5):
        books.issue(name(9), choices(seq), once=False)
        assert books.answer_from(name(9)) == (name(9), b"answer %d" % seq)
    assert books.answers_to([name(seq) for seq in range(1, 7)]) == {name(seq): b"answer %d" % seq for seq in range(1, 7)}


def test_answers_and_receipts_are_found_by_the_start_of_their_ids(books: Books) -> None:
    named = [Digest(bytes([start]) * 16 + bytes([rest]) * 16) for start, rest in ((1, 255), (2, 0), (2, 9), (3, 0))]
    for seq, each in enumerate(named, 1):
        books.issue(each, [Issued(each, signed_receipt(seq), b"envelope", b"answer %d" % seq)])
    assert books.answer_from(named[0][:16]) == (named[0], b"answer 1")
    assert books.answer_from(named[2]) == (named[2], b"answer 3")
    assert books.answer_from(bytes(16)) is None and books.answer_from(named[3][:31] + b"\1") is None
    assert books.receipt_from(named[3][:16]) == books.receipt(named[3]) == signed_receipt(4)
    assert books.receipt_from(bytes(16)) is None


def test_choices_are_stored_together_or_not_at_all(books: Books) -> None:
    issue(books, 1)
    three = [Issued(name(seq), signed_receipt(seq), b"envelope", b"choice %d" % seq) for seq in (2, 3, 5)]
    with pytest.raises(SequenceBroken):
        books.issue(name(9), three)
    assert books.next_seq() == 2 and books.answer_from(name(9)) is None and books.receipt(name(2)) is None
    books.issue(name(9), [*three[:2], Issued(name(4), signed_receipt(4), b"envelope", b"choice 4")])
    assert books.answer_from(name(9)) == (name(9), b"choice 2") and books.next_seq() == 5
    assert books.answers_to([name(seq) for seq in (2, 3, 4, 9)]) == {name(seq): b"choice %d" % seq for seq in (2, 3, 4)}


def test_answers_are_deleted_and_receipts_kept(books: Books, clock: HandClock) -> None:
    issue(books, 1)
    books.forget_answers(clock.now())
    assert books.answer_from(name(101)) == (name(101), b"answer 1")
    books.forget_answers(clock.now() + 1)
    assert books.answer_from(name(101)) is None
    assert books.receipt(name(1)) == signed_receipt(1) and books.envelope(name(1)) == b"envelope"


def test_two_processes_share_the_numbers_without_gap(url: str) -> None:
    left, right = race(Child("books", url, 1), Child("books", url, 2))
    assert sorted(left + right) == list(range(1, 61))


def test_batch_keeps_its_receipts_for_ever(books: Books) -> None:
    issue(books, 5)
    books.add_batch(header(1, 3), b"list")
    books.add_batch(header(1, 3), b"list")
    assert books.open_batch() == header(1, 3) and books.list_data(1) == b"list"
    assert [s.receipt.seq for s in books.unbatched(10)] == [4, 5]
    assert [s.receipt.seq for s in books.in_batch(1)] == [1, 2, 3]
    books.anchored(1)
    assert books.open_batch() is None


def test_batch_that_can_no_longer_be_mined_releases_its_receipts(books: Books) -> None:
    issue(books, 4)
    books.add_batch(header(1, 3), b"list")
    for other in (header(1, 2), header(2, 2)):
        with pytest.raises(StoreCorrupt):
            books.discard(other)
    assert books.batched_until() == 3
    books.discard(header(1, 3))
    assert books.open_batch() is None and books.list_data(1) is None and books.batched_until() == 0
    assert [s.receipt.seq for s in books.unbatched(10)] == [1, 2, 3, 4] and books.leaves(1) == ()
    books.add_batch(header(1, 4), b"list")
    books.anchored(1)
    with pytest.raises(StoreCorrupt):
        books.discard(header(1, 4))
    assert books.unbatched(10) == ()


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
    books, few = Books(engine, clock, ACCOUNT), 0
    for seq in range(1, 61):
        issue(books, 1)
        books.add_batch(header(seq, 1), b"list")
        assert books.open_batch() == header(seq, 1)
        books.anchored(seq)
        found = rows_visited(engine, books.open_batch)
        few = few or found
        assert books.open_batch() is None and 0 < found <= few


def test_answers_of_many_receipts_are_read_in_one_query(sqlite_files: SqliteFiles, clock: HandClock) -> None:
    engine = open_database(sqlite_files.create())
    books = Books(engine, clock, ACCOUNT)
    issue(books, 20)
    few = rows_visited(engine, lambda: books.answers_to([name(seq) for seq in range(1, 21)]))
    issue(books, 20)
    assert rows_visited(engine, lambda: books.answers_to([name(seq) for seq in range(1, 41)])) < 3 * few


@pytest.mark.parametrize(("first", "count"), [(2, 2), (3, 3), (4, 3)])
def test_a_batch_that_overlaps_or_reaches_too_far_is_refused(books: Books, first: int, count: int) -> None:
    issue(books, 5)
    books.add_batch(header(1, 3), b"list")
    with pytest.raises(StoreCorrupt):
        books.add_batch(header(first, count), b"list")
    assert [s.receipt.seq for s in books.unbatched(10)] == [4, 5]


def test_a_batch_is_not_built_twice_in_different_ways(books: Books) -> None:
    issue(books, 5)
    books.add_batch(header(1, 3), b"list")
    with pytest.raises(StoreCorrupt):
        books.add_batch(header(1, 2), b"list")
