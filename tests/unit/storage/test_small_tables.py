"""Duties, cursors, the verifier's archive and audits."""

import pytest
from sqlalchemy import Engine, event, update

from bytewise.protocol.errors.actors import StoreCorrupt, TryAgain
from bytewise.protocol.units import Blob
from bytewise.storage.archive import Archive, BlockMark, Cursor, LightAudits
from bytewise.storage.duties import DECLINED, DONE, MISSED, PENDING, Duties
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.tables import ArchivedEnvelopeRow
from tests.fixtures.storage.hand_clock import HandClock
from tests.fixtures.storage.stored_records import audit_result, header, name, signed_receipt


def test_duties_are_sorted_by_deadline_and_end_once(engine: Engine, clock: HandClock) -> None:
    duties = Duties(engine, clock)
    duties.add("reveal", b"b", 200)
    duties.add("commit", b"a", 100)
    assert duties.add("commit", b"a", 999).deadline == 100, "a duty is added once"
    assert [d.subject for d in duties.pending()] == [b"a", b"b"]
    assert duties.miss("commit", b"a").state == MISSED
    assert duties.done("reveal", b"b").state == DONE
    assert [d.state for d in duties.all()] == [MISSED, DONE]
    assert duties.done("commit", b"a").state == MISSED, "an ended duty does not change"


def test_duty_ordered_by_a_person_is_open_whatever_happened_before(engine: Engine, clock: HandClock) -> None:
    duties = Duties(engine, clock)
    duties.order("appeal", b"a", 100)
    duties.add("appeal", b"b", 100)
    duties.miss("appeal", b"a", "too late")
    ordered = duties.order("appeal", b"a", 300)
    assert (ordered.state, ordered.deadline, ordered.detail) == (PENDING, 300, "")
    assert [(d.subject, d.deadline) for d in duties.pending()] == [(b"b", 100), (b"a", 300)]
    assert duties.order("appeal", b"a", 300) == ordered


def test_declined_duty_stays_declined_when_it_comes_later(engine: Engine, clock: HandClock) -> None:
    duties = Duties(engine, clock)
    duties.decline(b"dispute")
    assert duties.declined("vote", b"dispute") and not duties.declined("vote", b"other")
    assert duties.add("vote", b"dispute", 100).state == DECLINED
    assert duties.add("vote", b"other", 100).state == PENDING
    assert [d.subject for d in duties.pending()] == [b"other"]


def test_a_cursor_only_moves_forward(engine: Engine) -> None:
    cursor = Cursor(engine, "logs")
    assert cursor.head() is None
    cursor.advance(5, name(5))
    for number in (5, 4):
        with pytest.raises(StoreCorrupt):
            cursor.advance(number, name(number))
    assert cursor.head() == BlockMark(5, name(5))
    assert Cursor(engine, "other").head() is None


def test_a_cursor_finds_the_common_ancestor(engine: Engine) -> None:
    for common in range(9):
        cursor = Cursor(engine, f"logs {common}")
        for number in range(1, 9):
            cursor.advance(number, name(number))
        found = cursor.common(lambda number, common=common: name(number if number <= common else 1000 + number))  # type: ignore[misc]
        assert found == (BlockMark(common, name(common)) if common else None)
        assert cursor.head() == BlockMark(8, name(8)), "looking moves nothing"
        assert cursor.rewind(common) == found
        cursor.advance(9, name(1009))


def test_a_cursor_keeps_a_bounded_tail(engine: Engine) -> None:
    cursor = Cursor(engine, "logs", keep=3)
    for number in range(10):
        cursor.advance(number, name(number))
    assert [mark.number for mark in cursor.marks()] == [9, 8, 7]


def test_concurrent_cursor_move_between_read_and_step_is_refused(url: str, engine: Engine) -> None:
    other = Cursor(open_database(url, wait_ms=50), "logs")
    refused = []

    @event.listens_for(engine, "before_cursor_execute")
    def _step(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith("INSERT INTO cursor_block"):
            with pytest.raises(TryAgain):
                other.advance(7, name(7))
            refused.append(7)

    cursor = Cursor(engine, "logs")
    cursor.advance(6, name(6))
    assert refused == [7] and cursor.marks() == (BlockMark(6, name(6)),)


def test_untrusted_text_can_be_stored(engine: Engine, clock: HandClock) -> None:
    archive = Archive(engine, clock)
    archive.add_batch(header(1, 1, batch_id=1))
    archive.mark_batch(1, "FAULTY", "not a number: \0")
    assert [batch.detail for batch in archive.batches("FAULTY")] == ["not a number: \N{REPLACEMENT CHARACTER}"]


def test_batches_and_receipts_are_remembered_with_their_findings(engine: Engine, clock: HandClock) -> None:
    archive = Archive(engine, clock)
    archive.add_batch(header(1, 2, batch_id=1, block=10))
    archive.mark_batch(1, "CHECKED")
    assert archive.add_batch(header(1, 2, batch_id=1, block=10)).state == "CHECKED"
    archive.add_receipt(name(1), 1, signed_receipt(1), (name(7), name(8)), "OK")
    archive.add_receipt(name(1), 1, signed_receipt(1), (), "FAULT")
    seen = archive.receipt(name(1))
    assert seen is not None
    assert (seen.signed, seen.proof, seen.finding) == (signed_receipt(1), (name(7), name(8)), "OK")
    archive.mark_receipt(name(1), "WITHHELD", "no bytes")
    assert [r.receipt_id for r in archive.receipts(finding="WITHHELD")] == [name(1)]
    assert archive.receipts(batch_id=2) == ()


def test_a_reorganisation_forgets_batches_and_keeps_ciphertext(engine: Engine, clock: HandClock) -> None:
    archive = Archive(engine, clock)
    for batch, block in ((1, 10), (2, 20)):
        archive.add_batch(header(batch, 1, batch_id=batch, block=block))
        archive.add_receipt(name(batch), batch, signed_receipt(batch), (), "OK")
    kept = archive.keep_envelope(b"ciphertext")
    with pytest.raises(StoreCorrupt):
        archive.add_batch(header(7, 1, batch_id=2, block=21))
    archive.rewind(10)
    assert [b.header.batch_id for b in archive.batches()] == [1]
    assert archive.receipt(name(2)) is None and archive.receipt(name(1)) is not None
    assert archive.envelope(kept) == b"ciphertext"
    assert archive.add_batch(header(7, 1, batch_id=2, block=21)).state == "NEW"


def test_archived_ciphertext_is_checked_against_its_name(engine: Engine, clock: HandClock) -> None:
    archive = Archive(engine, clock)
    kept = archive.keep_envelope(b"ciphertext")
    assert archive.keep_envelope(b"ciphertext") == kept and archive.envelope(name(1)) is None
    with write_transaction(engine) as connection:
        connection.execute(update(ArchivedEnvelopeRow).values(data=b"x"))
    with pytest.raises(StoreCorrupt):
        archive.envelope(kept)


def test_an_audit_has_one_signed_result(engine: Engine, clock: HandClock) -> None:
    audits = LightAudits(engine, clock)
    audits.add(name(1), deadline=50)
    first = audits.sign_once(audit_result(1), Blob(b"signature"), {"salt": "0x00"})
    again = audits.sign_once(audit_result(1), Blob(b"another"), {"salt": "0x01"})
    assert again == first and first.signature == b"signature" and first.opening == {"salt": "0x00"}
    audits.mark(name(1), "POSTED")
    assert [a.receipt_id for a in audits.audits("POSTED")] == [name(1)]
    with pytest.raises(StoreCorrupt):
        audits.sign_once(audit_result(2), Blob(b""), {})
