"""The receipts of an operator: receipt numbers, signed receipts, answers that are stored for retries, and batches.

One transaction takes a receipt number and stores the signed receipt and the answer. So no number is lost or used twice, and a
client that retries gets its first receipt, never a second one. Before the receipts of an answer are signed, the answer is stored
as a draft. The process may crash after it signed a receipt and before the client gets the receipt, so no other receipt gets the
numbers of a draft (ADR-009).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from bytewise.ports import Clock
from bytewise.protocol import encoding
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.errors.actors import StoreCorrupt
from bytewise.protocol.errors.records import SequenceBroken
from bytewise.protocol.records.receipt import BatchHeader, ListEntry, ReceiptList, SignedReceipt
from bytewise.protocol.units import Address, Digest
from bytewise.storage.engine import insert_if_new, lock_name, read_transaction, write_transaction
from bytewise.storage.tables import AnswerRow, DraftedAnswerRow, IssuedReceiptRow, OwnBatchRow, ReceiptSequenceRow

BUILT = "BUILT"
"""State of a batch that was built and whose header may have been sent."""
ANCHORED = "ANCHORED"
"""State of a batch that the chain shows."""


@dataclass(frozen=True, slots=True)
class IssuedReceipt:
    """A signed receipt with its envelope, its answer and the time at which its request expires."""

    identifier: Digest
    """Receipt id."""
    signed: SignedReceipt
    envelope: bytes
    response: bytes
    """The answer that the client gets with the receipt, as bytes."""
    expires_at: int
    """Unix second of chain time at which the receipt's request expires."""


@dataclass(frozen=True, slots=True)
class StoredDraft:
    """An answer that was stored before its receipts were signed.

    Its numbers can be read even if the program cannot decode `content`.
    """

    first_seq: int
    """Number of the first receipt of the answer."""
    receipts: int
    """Number of receipts that the answer has."""
    anchor_by: int
    """Unix second of chain time by which the answer's receipts promise to be anchored."""
    content: bytes
    """The answer, encoded."""


class ReceiptStore:
    """Database store of the receipts of one operator account. Every method is one transaction."""

    def __init__(self, engine: Engine, clock: Clock, operator: Address) -> None:
        self._engine = engine
        self._clock = clock
        self._operator = operator

    def next_seq(self) -> int:
        """Returns the number of the next receipt. Only `issue` and `give_up_draft` take numbers."""
        with read_transaction(self._engine) as connection:
            return self._next(connection)

    def last_issued(self) -> int:
        """Returns the last number that was taken, or 0 if there is none. After `give_up_draft` this number has no receipt."""
        return self.next_seq() - 1

    def draft(self, draft: StoredDraft) -> None:
        """Stores an answer before its receipts are signed. Raises `SequenceBroken` if their numbers are not the next numbers."""
        with write_transaction(self._engine) as connection:
            lock_name(connection, "receipt sequence")
            expected = self._next(connection)
            if draft.first_seq != expected:
                raise SequenceBroken(self._operator, draft.first_seq, expected)
            self._forget_draft(connection)
            connection.execute(insert(DraftedAnswerRow).values(operator=self._operator, **asdict(draft)))

    def drafted(self) -> StoredDraft | None:
        """Returns the stored draft if its first number is the next receipt number. Returns None if there is no such draft."""
        row = DraftedAnswerRow
        query = select(row.first_seq, row.receipts, row.anchor_by, row.content).where(row.operator == self._operator)
        with read_transaction(self._engine) as connection:
            found = connection.execute(query).one_or_none()
            return StoredDraft(*found) if found is not None and found.first_seq == self._next(connection) else None

    def give_up_draft(self) -> None:
        """Deletes the draft and takes its numbers, which stay without receipts. The next receipt gets a later number."""
        query = select(DraftedAnswerRow.first_seq, DraftedAnswerRow.receipts).where(DraftedAnswerRow.operator == self._operator)
        with write_transaction(self._engine) as connection:
            lock_name(connection, "receipt sequence")
            row = connection.execute(query).one()
            self._take(connection, row.first_seq + row.receipts)
            self._forget_draft(connection)

    def issue(self, key: Digest, issued: Sequence[IssuedReceipt], once: bool = True) -> None:
        """Takes the numbers and stores receipts and answers, all or nothing.

        Raises `SequenceBroken` if a number is not the next one, or if a receipt is of another operator. A request may ask for
        several choices, and each choice is one receipt. `key` is the name of the request, under which a retry finds the answer of
        the first choice. If an earlier answer has this name: with `once`, raises `StoreCorrupt`; otherwise the earlier answer
        loses the name and stays stored for its receipt.
        """
        with write_transaction(self._engine) as connection:
            lock_name(connection, "receipt sequence")
            self._forget_draft(connection)
            if not once:
                _keep_for_its_receipt(connection, key)
            for choice, each in enumerate(issued):
                # A second answer under one key would be a second receipt for one request. The unique key forbids it.
                self._issue_one(connection, labelled(Label.RETRY, each.identifier) if choice else key, each)

    def answer_from(self, start: bytes) -> tuple[Digest, bytes] | None:
        """Finds the stored answer of a request by the first bytes of the request's name. Returns the name and the answer.

        Returns None if no stored answer has such a name.
        """
        query = select(AnswerRow.request_key, AnswerRow.response).where(AnswerRow.request_key.between(*_span(start)))
        with read_transaction(self._engine) as connection:
            found = connection.execute(query).one_or_none()
        return None if found is None else (Digest(found.request_key), found.response)

    def answered_since(self, count: int) -> int:
        """Returns the Unix second at which the oldest of the `count` newest answers was stored.

        Returns 0 if there are fewer answers.
        """
        query = select(AnswerRow.created_at).order_by(AnswerRow.created_at.desc()).offset(count - 1).limit(1)
        with read_transaction(self._engine) as connection:
            return connection.execute(query).scalar_one_or_none() or 0

    def expiries(self, numbers: Sequence[int]) -> Mapping[int, int]:
        """Returns for each receipt number the Unix second of chain time at which the receipt's request expires."""
        query = select(IssuedReceiptRow.seq, IssuedReceiptRow.expires_at).where(IssuedReceiptRow.seq.in_(numbers))
        with read_transaction(self._engine) as connection:
            return {row.seq: row.expires_at for row in connection.execute(query)}

    def forget_answers(self, before: int) -> None:
        """Deletes the answers that were stored before this Unix second.

        Answers contain plaintext, and clients retry for a limited time.
        """
        with write_transaction(self._engine) as connection:
            connection.execute(delete(AnswerRow).where(AnswerRow.created_at < before))

    def receipt(self, identifier: Digest) -> SignedReceipt | None:
        """Returns the operator's receipt with this id, or None if there is none."""
        return self.receipt_from(identifier)

    def receipt_from(self, start: bytes) -> SignedReceipt | None:
        """Returns the operator's receipt whose id begins with these bytes, or None.

        The caller passes at least half of the id, so that at most one receipt fits.
        """
        found = self._signed(IssuedReceiptRow.receipt_id.between(*_span(start)))
        return found[0] if found else None

    def envelope(self, identifier: Digest) -> bytes | None:
        """Returns the operator's copy of an envelope, to publish it again or to answer a demand.

        Returns None if the receipt is unknown, or if the copy was deleted because nothing can ask for it any more.
        """
        query = select(IssuedReceiptRow.envelope).where(IssuedReceiptRow.receipt_id == identifier)
        with read_transaction(self._engine) as connection:
            return connection.execute(query).scalar_one_or_none() or None

    def unbatched(self, limit: int, first: int = 1) -> tuple[SignedReceipt, ...]:
        """Returns at most `limit` signed receipts that are in no batch, in order of numbers, from number `first` on."""
        return self._signed(IssuedReceiptRow.batch_first_seq.is_(None), IssuedReceiptRow.seq >= first, limit=limit)

    def in_batch(self, first_seq: int, limit: int | None = None) -> tuple[SignedReceipt, ...]:
        """Returns the receipts whose numbers belong to the batch that begins with number `first_seq`, at most `limit` of them.

        They include receipts that the batch skips. Without `limit`, it returns all.
        """
        return self._signed(IssuedReceiptRow.batch_first_seq == first_seq, limit=limit)

    def leaves(self, first_seq: int) -> tuple[ListEntry, ...]:
        """Returns the leaves of a batch in order of numbers. Returns an empty tuple if no batch begins with `first_seq`."""
        content = self.list_data(first_seq)
        return () if content is None else encoding.decode(ReceiptList, content).entries

    def batched_until(self) -> int:
        """Returns the number of the last leaf of the newest batch, or 0 if there is no batch."""
        query = select(OwnBatchRow.first_seq, OwnBatchRow.receipts).order_by(OwnBatchRow.first_seq.desc()).limit(1)
        with read_transaction(self._engine) as connection:
            row = connection.execute(query).one_or_none()
        return 0 if row is None else int(row.first_seq + row.receipts - 1)

    def add_batch(self, header: BatchHeader, listed: bytes, lacking: int = 0) -> None:
        """Stores a batch before it is sent, and records that the receipts with the batch's numbers are in the batch.

        Storing the same batch again changes nothing. `listed` is the content of its list. `lacking` is how many of its numbers
        have no receipt. Raises `StoreCorrupt` if another batch begins with the same number, or if the number of receipts that are
        in no other batch contradicts `lacking`.
        """
        first, last = header.first_seq, header.first_seq + header.count - 1
        members = update(IssuedReceiptRow).where(
            IssuedReceiptRow.seq.between(first, last), IssuedReceiptRow.batch_first_seq.is_(None)
        )
        with write_transaction(self._engine) as connection:
            new = insert_if_new(
                connection, OwnBatchRow, first_seq=first, receipts=header.count, header=encoding.encode(header),
                list_data=listed, state=BUILT, created_at=self._clock.now(),
            )  # fmt: skip
            if new and connection.execute(members.values(batch_first_seq=first)).rowcount != header.count - lacking:
                raise StoreCorrupt("receipt store", f"batch {first} to {last} overlaps another or has gaps")
            stored = connection.execute(select(OwnBatchRow.header).where(OwnBatchRow.first_seq == first)).scalar_one()
            if stored != encoding.encode(header):
                raise StoreCorrupt("receipt store", f"batch {first} was built with another header")

    def discard(self, header: BatchHeader) -> None:
        """Deletes a batch that cannot be mined any more, so that its receipts can be put into another batch.

        The caller discards later batches first. Raises `StoreCorrupt` if there is no such batch, or if it is anchored.
        """
        first = header.first_seq
        same = (OwnBatchRow.first_seq == first, OwnBatchRow.header == encoding.encode(header), OwnBatchRow.state == BUILT)
        with write_transaction(self._engine) as connection:
            if connection.execute(delete(OwnBatchRow).where(*same)).rowcount != 1:
                raise StoreCorrupt("receipt store", f"batch {first} is not the one to discard")
            connection.execute(
                update(IssuedReceiptRow).where(IssuedReceiptRow.batch_first_seq == first).values(batch_first_seq=None)
            )

    def open_batch(self) -> BatchHeader | None:
        """Returns the oldest batch that was built and is not known to be anchored, or None."""
        return next(iter(self.open_batches(1)), None)

    def open_batches(self, limit: int | None = None) -> tuple[BatchHeader, ...]:
        """Returns the batches after the newest anchored batch, the oldest first: all, or at most `limit`.

        There is more than one only after a reorganisation removed batches from the chain (`reopen`).
        """
        row = OwnBatchRow
        anchored = select(row.first_seq).where(row.state == ANCHORED).order_by(row.first_seq.desc()).limit(1).scalar_subquery()
        query = select(row.header).where(row.first_seq > func.coalesce(anchored, 0)).order_by(row.first_seq).limit(limit)
        with read_transaction(self._engine) as connection:
            return tuple(encoding.decode(BatchHeader, raw) for raw in connection.execute(query).scalars())

    def list_data(self, first_seq: int) -> bytes | None:
        """Returns the bytes of a batch's list, or None if no batch begins with `first_seq`."""
        with read_transaction(self._engine) as connection:
            query = select(OwnBatchRow.list_data).where(OwnBatchRow.first_seq == first_seq)
            return connection.execute(query).scalar_one_or_none()

    def anchored(self, first_seq: int) -> None:
        """Marks a batch as anchored, because the chain shows it."""
        change = update(OwnBatchRow).where(OwnBatchRow.first_seq == first_seq).values(state=ANCHORED)
        with write_transaction(self._engine) as connection:
            connection.execute(change)

    def reopen(self, last_seq: int) -> int:
        """Marks the batches after this receipt number as not anchored, because the chain does not show them any more.

        Returns how many.
        """
        taken_back = update(OwnBatchRow).where(OwnBatchRow.first_seq > last_seq, OwnBatchRow.state == ANCHORED)
        with write_transaction(self._engine) as connection:
            return int(connection.execute(taken_back.values(state=BUILT)).rowcount)

    def _issue_one(self, connection: Connection, key: Digest, each: IssuedReceipt) -> None:
        seq, now, expected = each.signed.receipt.seq, self._clock.now(), self._next(connection)
        if seq != expected or each.signed.receipt.operator != self._operator:
            raise SequenceBroken(self._operator, seq, expected)
        self._take(connection, seq + 1)
        signed = encoding.encode(each.signed)
        receipt = {
            "seq": seq,
            "receipt_id": each.identifier,
            "signed": signed,
            "envelope": each.envelope,
            "expires_at": each.expires_at,
            "issued_at": now,
        }
        connection.execute(insert(IssuedReceiptRow).values(**receipt))
        values = {"request_key": key, "receipt_id": each.identifier, "response": each.response, "created_at": now}
        connection.execute(insert(AnswerRow).values(**values))

    def _take(self, connection: Connection, next_seq: int) -> None:
        insert_if_new(connection, ReceiptSequenceRow, operator=self._operator, next_seq=1)
        own = ReceiptSequenceRow.operator == self._operator
        connection.execute(update(ReceiptSequenceRow).where(own).values(next_seq=next_seq))

    def _forget_draft(self, connection: Connection) -> None:
        connection.execute(delete(DraftedAnswerRow).where(DraftedAnswerRow.operator == self._operator))

    def _next(self, connection: Connection) -> int:
        query = select(ReceiptSequenceRow.next_seq).where(ReceiptSequenceRow.operator == self._operator)
        return connection.execute(query).scalar_one_or_none() or 1

    def _signed(self, *conditions: Any, limit: int | None = None) -> tuple[SignedReceipt, ...]:
        query = select(IssuedReceiptRow.signed).where(*conditions).order_by(IssuedReceiptRow.seq).limit(limit)
        with read_transaction(self._engine) as connection:
            return tuple(encoding.decode(SignedReceipt, raw) for raw in connection.execute(query).scalars())


def _span(start: bytes) -> tuple[bytes, bytes]:
    """Returns the smallest and the largest digest that begin with these bytes."""
    return start.ljust(32, b"\x00"), start.ljust(32, b"\xff")


def _keep_for_its_receipt(connection: Connection, key: Digest) -> None:
    """Removes the request's name from an earlier answer. The answer stays stored for its receipt."""
    answered = AnswerRow.request_key == key
    identifier = connection.execute(select(AnswerRow.receipt_id).where(answered)).scalar_one_or_none()
    if identifier is not None:
        connection.execute(update(AnswerRow).where(answered).values(request_key=labelled(Label.RETRY, identifier)))
