"""An operator's books: receipt numbers, signed receipts, retried requests and batches.

Allocating a number, making and signing the receipt and storing the answer are one transaction: no number is lost or used twice,
and a client that asks again gets the receipt it has, never a second one (design section 5).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Row, delete, insert, select, update

from bytewise.ports import Clock
from bytewise.protocol import encoding
from bytewise.protocol.errors import StoreCorrupt
from bytewise.protocol.receipt import BatchHeader, Receipt
from bytewise.protocol.units import Address, Blob, Digest
from bytewise.storage.engine import insert_if_absent, reading, writing
from bytewise.storage.locks import alone
from bytewise.storage.tables_network import AnswerRow, IssuedRow, OwnBatchRow, SequenceRow


class Issued(NamedTuple):
    """A signed receipt and its ciphertext; `locator` is empty until the envelope is on DA."""

    receipt_id: Digest
    receipt: Receipt
    signature: Blob
    envelope: Blob
    locator: str


class Made(NamedTuple):
    """What making a receipt gives: the receipt, and the answer for the client."""

    issued: Issued
    response: bytes


class Answer(NamedTuple):
    """A stored answer; `created_at` in Unix seconds."""

    receipt_id: Digest
    response: bytes
    created_at: int


class OwnBatch(NamedTuple):
    """A batch of ours. `header` is as planned until the chain shows it; `state` is BUILT, PUBLISHED or ANCHORED."""

    header: BatchHeader
    list_data: Blob
    state: str


BUILT, PUBLISHED, ANCHORED = "BUILT", "PUBLISHED", "ANCHORED"


class Books:
    """The books of one operator account."""

    def __init__(self, engine: Engine, clock: Clock, operator: Address) -> None:
        self._engine = engine
        self._clock = clock
        self._operator = operator

    def issue(self, request_key: Digest, make: Callable[[int], Made]) -> Answer:
        """The stored answer to this request, or a new receipt made by `make(seq)`; if that raises, no number is used."""
        with writing(self._engine) as connection:
            alone(connection, "receipt sequence")
            earlier = self._answer(connection, request_key, 0)
            if earlier is not None:
                return earlier
            seq = self._take_number(connection)
            made, now = make(seq), self._clock.now()
            if made.issued.receipt.seq != seq or made.issued.receipt.operator != self._operator:
                raise StoreCorrupt("books", f"receipt made for number {made.issued.receipt.seq}, expected {seq}")
            self._store(connection, made.issued, now)
            values = {"request_key": request_key, "receipt_id": made.issued.receipt_id, "response": made.response}
            connection.execute(insert(AnswerRow).values(created_at=now, **values))
            return Answer(made.issued.receipt_id, made.response, now)

    def next_seq(self) -> int:
        """The number that the next receipt gets, so that its envelope can be on DA before the number is taken."""
        with reading(self._engine) as connection:
            query = select(SequenceRow.next_seq).where(SequenceRow.operator == self._operator)
            return connection.execute(query).scalar_one_or_none() or 1

    def answered(self, request_key: Digest, since: int) -> Answer | None:
        """The answer given to this request at or after `since` (Unix seconds)."""
        with reading(self._engine) as connection:
            return self._answer(connection, request_key, since)

    def forget_answers(self, before: int) -> int:
        """Deletes answers older than `before` (they may hold plaintext); receipts stay. Returns how many."""
        with writing(self._engine) as connection:
            return connection.execute(delete(AnswerRow).where(AnswerRow.created_at < before)).rowcount

    def find(self, receipt_id: Digest) -> Issued | None:
        """One receipt of ours."""
        found = self._issued(IssuedRow.receipt_id == receipt_id)
        return found[0] if found else None

    def unpublished(self) -> tuple[Issued, ...]:
        """Receipts whose envelope is not on DA yet, in order."""
        return self._issued(IssuedRow.locator == "")

    def set_locator(self, receipt_id: Digest, locator: str) -> None:
        """Says where an envelope lies."""
        change = update(IssuedRow).where(IssuedRow.receipt_id == receipt_id)
        with writing(self._engine) as connection:
            connection.execute(change.values(locator=locator))

    def unbatched(self, limit: int) -> tuple[Issued, ...]:
        """The next receipts for a batch, in order, up to the first one that is not on DA."""
        ready = []
        for issued in self._issued(IssuedRow.batch_first_seq.is_(None), limit=limit):
            if not issued.locator:
                break
            ready.append(issued)
        return tuple(ready)

    def batch(self, first_seq: int) -> tuple[Issued, ...]:
        """Receipts of a batch of ours, in order."""
        return self._issued(IssuedRow.batch_first_seq == first_seq)

    def build(self, header: BatchHeader, list_data: Blob) -> OwnBatch:
        """Closes a batch: its receipts belong to it for ever. Returns it, or the one with this first number that is there."""
        first, last = header.first_seq, header.first_seq + header.count - 1
        members = update(IssuedRow).where(IssuedRow.seq.between(first, last), IssuedRow.batch_first_seq.is_(None))
        with writing(self._engine) as connection:
            new = insert_if_absent(
                connection, OwnBatchRow, first_seq=first, receipts=header.count, header=encoding.encode(header),
                list_data=list_data, locator=header.locator, state=BUILT, created_at=self._clock.now(),
            )  # fmt: skip
            if new and connection.execute(members.values(batch_first_seq=first)).rowcount != header.count:
                raise StoreCorrupt("books", f"batch {first} to {last} overlaps another or has gaps")
        return self.batches(OwnBatchRow.first_seq == first)[0]

    def mark_batch(self, header: BatchHeader, state: str) -> None:
        """Records a batch as PUBLISHED (list on DA) or ANCHORED, with the header as it is now."""
        values: dict[str, Any] = {"header": encoding.encode(header), "locator": header.locator, "state": state}
        if state == ANCHORED:
            values["batch_id"] = header.batch_id
        with writing(self._engine) as connection:
            connection.execute(update(OwnBatchRow).where(OwnBatchRow.first_seq == header.first_seq).values(**values))

    def open_batches(self) -> tuple[OwnBatch, ...]:
        """Batches that are not anchored, in order."""
        return self.batches(OwnBatchRow.state != ANCHORED)

    def batches(self, *conditions: Any) -> tuple[OwnBatch, ...]:
        """Batches of ours, in order."""
        query = select(*OwnBatchRow.__table__.columns).where(*conditions).order_by(OwnBatchRow.first_seq)
        with reading(self._engine) as connection:
            rows = connection.execute(query)
            return tuple(OwnBatch(encoding.decode(BatchHeader, r.header), Blob(r.list_data), r.state) for r in rows)

    def _take_number(self, connection: Connection) -> int:
        own = SequenceRow.operator == self._operator
        insert_if_absent(connection, SequenceRow, operator=self._operator, next_seq=1)
        seq = connection.execute(select(SequenceRow.next_seq).where(own)).scalar_one()
        connection.execute(update(SequenceRow).where(own).values(next_seq=seq + 1))
        return seq

    def _store(self, connection: Connection, issued: Issued, now: int) -> None:
        connection.execute(
            insert(IssuedRow).values(
                seq=issued.receipt.seq, receipt_id=issued.receipt_id, receipt=encoding.encode(issued.receipt),
                signature=issued.signature, envelope=issued.envelope, locator=issued.locator, issued_at=now,
            )
        )  # fmt: skip

    def _answer(self, connection: Connection, request_key: Digest, since: int) -> Answer | None:
        columns = (AnswerRow.receipt_id, AnswerRow.response, AnswerRow.created_at)
        query = select(*columns).where(AnswerRow.request_key == request_key, AnswerRow.created_at >= since)
        row = connection.execute(query).one_or_none()
        return None if row is None else Answer(Digest(row[0]), row[1], row[2])

    def _issued(self, *conditions: Any, limit: int | None = None) -> tuple[Issued, ...]:
        query = select(*IssuedRow.__table__.columns).where(*conditions).order_by(IssuedRow.seq).limit(limit)
        with reading(self._engine) as connection:
            return tuple(_issued(row) for row in connection.execute(query))


def _issued(row: Row[Any]) -> Issued:
    receipt = encoding.decode(Receipt, row.receipt)
    return Issued(Digest(row.receipt_id), receipt, Blob(row.signature), Blob(row.envelope), row.locator)
