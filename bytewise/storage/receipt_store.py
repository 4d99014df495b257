"""The receipts of an operator: numbers, signed receipts, remembered answers and batches.

One transaction takes the number and stores the signed receipt and the answer: no number is lost or used twice, and a client
that retries gets its first receipt, never a second one. An answer is stored as a draft before its receipts are signed:
a signature may exist although nobody got it, so the numbers of a draft go to no other receipt (ADR-012).
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
"""A batch whose header may have been sent."""
ANCHORED = "ANCHORED"
"""A batch that the chain shows."""


@dataclass(frozen=True, slots=True)
class IssuedReceipt:
    """A signed receipt with its envelope, answer and expiry."""

    identifier: Digest
    """Receipt id."""
    signed: SignedReceipt
    envelope: bytes
    response: bytes
    """The answer that the client gets with the receipt."""
    expires_at: int
    """Unix seconds of chain time at which its Request expires."""


@dataclass(frozen=True, slots=True)
class StoredDraft:
    """An answer whose receipts may be signed. The numbers are known even if nobody can decode the content."""

    first_seq: int
    """Number of its first receipt."""
    receipts: int
    """How many receipts it has."""
    anchor_by: int
    """Unix seconds of chain time by which its receipts promise to be anchored."""
    content: bytes
    """The answer."""


class ReceiptStore:
    """The receipt store of one operator account; every method is one transaction."""

    def __init__(self, engine: Engine, clock: Clock, operator: Address) -> None:
        self._engine = engine
        self._clock = clock
        self._operator = operator

    def next_seq(self) -> int:
        """The number of the next receipt; it is taken only by `issue`."""
        with read_transaction(self._engine) as connection:
            return self._next(connection)

    def last_issued(self) -> int:
        """Number of the last signed receipt; 0 before the first."""
        return self.next_seq() - 1

    def draft(self, draft: StoredDraft) -> None:
        """Stores an answer before its receipts are signed. `SequenceBroken` if their numbers are not the next ones."""
        with write_transaction(self._engine) as connection:
            lock_name(connection, "receipt sequence")
            expected = self._next(connection)
            if draft.first_seq != expected:
                raise SequenceBroken(self._operator, draft.first_seq, expected)
            self._forget_draft(connection)
            connection.execute(insert(DraftedAnswerRow).values(operator=self._operator, **asdict(draft)))

    def drafted(self) -> StoredDraft | None:
        """The answer whose numbers are the next ones and whose receipts may be signed; None if there is none."""
        row = DraftedAnswerRow
        query = select(row.first_seq, row.receipts, row.anchor_by, row.content).where(row.operator == self._operator)
        with read_transaction(self._engine) as connection:
            found = connection.execute(query).one_or_none()
            return StoredDraft(*found) if found is not None and found.first_seq == self._next(connection) else None

    def give_up_draft(self) -> None:
        """Deletes the draft. Its numbers stay without receipts: the next one gets a later number."""
        query = select(DraftedAnswerRow.first_seq, DraftedAnswerRow.receipts).where(DraftedAnswerRow.operator == self._operator)
        with write_transaction(self._engine) as connection:
            lock_name(connection, "receipt sequence")
            row = connection.execute(query).one()
            self._take(connection, row.first_seq + row.receipts)
            self._forget_draft(connection)

    def issue(self, key: Digest, issued: Sequence[IssuedReceipt], once: bool = True) -> None:
        """Takes the numbers and stores receipts and answers, all or nothing; `SequenceBroken` if one is not the next.

        A retry of the request named `key` gets the first response; responses of further choices are kept for their receipts. An
        earlier answer under that name is also kept for its receipt; with `once`, it raises `StoreCorrupt` instead.
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
        """The request whose name begins with these bytes, and its remembered answer for retries; None if there is none."""
        query = select(AnswerRow.request_key, AnswerRow.response).where(AnswerRow.request_key.between(*_span(start)))
        with read_transaction(self._engine) as connection:
            found = connection.execute(query).one_or_none()
        return None if found is None else (Digest(found.request_key), found.response)

    def answered_since(self, count: int) -> int:
        """Unix second at which the oldest of the `count` newest remembered answers was stored; 0 if there are fewer."""
        query = select(AnswerRow.created_at).order_by(AnswerRow.created_at.desc()).offset(count - 1).limit(1)
        with read_transaction(self._engine) as connection:
            return connection.execute(query).scalar_one_or_none() or 0

    def expiries(self, numbers: Sequence[int]) -> Mapping[int, int]:
        """By receipt number, the Unix second of chain time at which the Request of each receipt expires."""
        query = select(IssuedReceiptRow.seq, IssuedReceiptRow.expires_at).where(IssuedReceiptRow.seq.in_(numbers))
        with read_transaction(self._engine) as connection:
            return {row.seq: row.expires_at for row in connection.execute(query)}

    def forget_answers(self, before: int) -> None:
        """Deletes answers that were stored before that Unix second. Answers contain plaintext, and no client retries for ever."""
        with write_transaction(self._engine) as connection:
            connection.execute(delete(AnswerRow).where(AnswerRow.created_at < before))

    def receipt(self, identifier: Digest) -> SignedReceipt | None:
        """The operator's receipt with this id; None if there is none."""
        return self.receipt_from(identifier)

    def receipt_from(self, start: bytes) -> SignedReceipt | None:
        """The operator's receipt whose id begins with these bytes. At least half of the id is required, so that at most one
        fits."""
        found = self._signed(IssuedReceiptRow.receipt_id.between(*_span(start)))
        return found[0] if found else None

    def envelope(self, identifier: Digest) -> bytes | None:
        """The operator's copy of an envelope, to publish it again or to answer a demand; None after nothing can ask for it any
        more."""
        query = select(IssuedReceiptRow.envelope).where(IssuedReceiptRow.receipt_id == identifier)
        with read_transaction(self._engine) as connection:
            return connection.execute(query).scalar_one_or_none() or None

    def unbatched(self, limit: int, first: int = 1) -> tuple[SignedReceipt, ...]:
        """Signed receipts that are in no batch, by number, from number `first` on, at most `limit`."""
        return self._signed(IssuedReceiptRow.batch_first_seq.is_(None), IssuedReceiptRow.seq >= first, limit=limit)

    def in_batch(self, first_seq: int, limit: int | None = None) -> tuple[SignedReceipt, ...]:
        """Receipts with the numbers of an own batch, including skipped ones; all, or at most `limit`."""
        return self._signed(IssuedReceiptRow.batch_first_seq == first_seq, limit=limit)

    def leaves(self, first_seq: int) -> tuple[ListEntry, ...]:
        """Leaves of an own batch, by number; none if there is no such batch."""
        content = self.list_data(first_seq)
        return () if content is None else encoding.decode(ReceiptList, content).entries

    def batched_until(self) -> int:
        """Number of the last leaf of the newest batch; 0 before the first."""
        query = select(OwnBatchRow.first_seq, OwnBatchRow.receipts).order_by(OwnBatchRow.first_seq.desc()).limit(1)
        with read_transaction(self._engine) as connection:
            row = connection.execute(query).one_or_none()
        return 0 if row is None else int(row.first_seq + row.receipts - 1)

    def add_batch(self, header: BatchHeader, listed: bytes, lacking: int = 0) -> None:
        """Stores a batch before it is sent; the receipts with its numbers belong to it unless it is discarded. The same batch
        again changes nothing. `lacking` numbers of it have no receipt."""
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
        """Deletes a batch that cannot be mined any more, so that its receipts can be put into another. `StoreCorrupt` if it is
        no such batch, or is anchored. Later batches are discarded before."""
        first = header.first_seq
        same = (OwnBatchRow.first_seq == first, OwnBatchRow.header == encoding.encode(header), OwnBatchRow.state == BUILT)
        with write_transaction(self._engine) as connection:
            if connection.execute(delete(OwnBatchRow).where(*same)).rowcount != 1:
                raise StoreCorrupt("receipt store", f"batch {first} is not the one to discard")
            connection.execute(
                update(IssuedReceiptRow).where(IssuedReceiptRow.batch_first_seq == first).values(batch_first_seq=None)
            )

    def open_batch(self) -> BatchHeader | None:
        """The oldest batch that was built and is not known to be anchored."""
        return next(iter(self.open_batches(1)), None)

    def open_batches(self, limit: int | None = None) -> tuple[BatchHeader, ...]:
        """The batches that were built and are not known to be anchored, oldest first: all, or at most `limit`. They are the
        newest ones. There is more than one only after a reorganisation took batches back (`reopen`)."""
        row = OwnBatchRow
        anchored = select(row.first_seq).where(row.state == ANCHORED).order_by(row.first_seq.desc()).limit(1).scalar_subquery()
        query = select(row.header).where(row.first_seq > func.coalesce(anchored, 0)).order_by(row.first_seq).limit(limit)
        with read_transaction(self._engine) as connection:
            return tuple(encoding.decode(BatchHeader, raw) for raw in connection.execute(query).scalars())

    def list_data(self, first_seq: int) -> bytes | None:
        """The list bytes of an own batch."""
        with read_transaction(self._engine) as connection:
            query = select(OwnBatchRow.list_data).where(OwnBatchRow.first_seq == first_seq)
            return connection.execute(query).scalar_one_or_none()

    def anchored(self, first_seq: int) -> None:
        """Marks a batch that the chain shows as anchored."""
        change = update(OwnBatchRow).where(OwnBatchRow.first_seq == first_seq).values(state=ANCHORED)
        with write_transaction(self._engine) as connection:
            connection.execute(change)

    def reopen(self, last_seq: int) -> int:
        """Marks the batches behind this number, which the chain does not show any more, as not anchored. Returns how many."""
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
    """The first and the last digest that begin with these bytes."""
    return start.ljust(32, b"\x00"), start.ljust(32, b"\xff")


def _keep_for_its_receipt(connection: Connection, key: Digest) -> None:
    """Removes the request's name from an answer, which stays stored for its receipt."""
    answered = AnswerRow.request_key == key
    identifier = connection.execute(select(AnswerRow.receipt_id).where(answered)).scalar_one_or_none()
    if identifier is not None:
        connection.execute(update(AnswerRow).where(answered).values(request_key=labelled(Label.RETRY, identifier)))
