"""Records of one verifier: blocks that its event readers have finished, batches that it has seen, checked receipts, archived
ciphertext, and light audits.

The records of blocks, batches and receipts can be rebuilt from the chain and DA. The verifier archives ciphertext because DA
deletes it after a time. The opening of a posted audit result cannot be rebuilt, because it contains a random salt.
"""

import math
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from sqlalchemy import Engine, Row, delete, func, insert, select, tuple_, update

from bytewise.ports import Clock
from bytewise.protocol import digests, encoding
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import StoreCorrupt
from bytewise.protocol.records.receipt import BatchHeader, SignedReceipt
from bytewise.protocol.records.statements import AuditResult
from bytewise.protocol.units import Address, Blob, Digest, hex0x, unhex
from bytewise.storage.engine import insert_if_new, lock_name, read_transaction, write_transaction
from bytewise.storage.tables import ArchivedEnvelopeRow, CursorRow, LightAuditRow, SeenBatchRow, SeenReceiptRow

ENDED_AUDITS = ("DONE", "FAILED")
"""States in which a light audit has ended. `verifier.audits.bounties` sets them."""

NUMBERS_PER_QUERY = 256
"""Most receipts that one SQL statement asks for. Each needs two variables, and any SQLite accepts at least 999 in one
statement."""


class SeenBatch(NamedTuple):
    """A batch that was read from the chain. `state` is NEW, CHECKED, FAULTY or WITHHELD. `seen_at` is in Unix seconds."""

    header: BatchHeader
    state: str
    detail: str
    seen_at: int


class SeenReceipt(NamedTuple):
    """A receipt of a batch with its Merkle proof, and the finding of the verifier's check at Unix second `checked_at`."""

    receipt_id: Digest
    batch_id: int
    signed: SignedReceipt
    proof: tuple[Digest, ...]
    finding: str
    detail: str
    checked_at: int


class LightAudit(NamedTuple):
    """A light audit for which this verifier was drawn. `deadline` is in Unix seconds of the protocol clock.

    `result` and `signature` are None until the result is signed. `opening` is the salt and the hashes that later open the posted
    commitment, as plain JSON data.
    """

    receipt_id: Digest
    deadline: int
    state: str
    result: AuditResult | None
    signature: Blob | None
    opening: Any
    detail: str


class Archive:
    """Database store of the batches, receipts and ciphertext of one verifier."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def add_batch(self, header: BatchHeader, state: str = "NEW") -> SeenBatch:
        """Stores a batch and returns it. A batch that is stored already keeps its state.

        Raises `StoreCorrupt` if the batch is stored already with another header.
        """
        with write_transaction(self._engine) as connection:
            insert_if_new(
                connection, SeenBatchRow, batch_id=header.batch_id, block_number=header.block, header=encoding.encode(header),
                state=state, detail="", seen_at=self._clock.now(),
            )  # fmt: skip
        found = self.batch(header.batch_id)
        if found is None or found.header != header:
            raise StoreCorrupt("archive", f"batch {header.batch_id} is known with another header: rewind first")
        return found

    def mark_batch(self, batch_id: int, state: str, detail: str = "") -> None:
        """Sets the state of a batch, and a detail text of which 500 characters are stored."""
        change = update(SeenBatchRow).where(SeenBatchRow.batch_id == batch_id)
        with write_transaction(self._engine) as connection:
            connection.execute(change.values(state=state, detail=detail[:500]))

    def batch(self, batch_id: int) -> SeenBatch | None:
        """Returns the batch with this number, or None if it is unknown."""
        found = self._batches(SeenBatchRow.batch_id == batch_id)
        return found[0] if found else None

    def batches(self, state: str | None = None) -> tuple[SeenBatch, ...]:
        """Returns all batches, or only those in `state`, in order of their numbers."""
        return self._batches(*(() if state is None else (SeenBatchRow.state == state,)))

    def add_receipt(
        self, receipt_id: Digest, batch_id: int, signed: SignedReceipt, proof: tuple[Digest, ...], finding: str, detail: str = ""
    ) -> None:
        """Stores a checked receipt. A receipt that is stored already keeps its finding."""
        with write_transaction(self._engine) as connection:
            insert_if_new(
                connection, SeenReceiptRow, receipt_id=receipt_id, batch_id=batch_id, operator=signed.receipt.operator,
                seq=signed.receipt.seq, signed=encoding.encode(signed), proof=encoding.encode([hex0x(p) for p in proof]),
                envelope_hash=signed.receipt.envelope_hash, finding=finding, detail=detail[:500],
                checked_at=self._clock.now(),
            )  # fmt: skip

    def mark_receipt(self, receipt_id: Digest, finding: str, detail: str = "") -> None:
        """Sets the finding of a receipt, and a detail text of which 500 characters are stored."""
        change = update(SeenReceiptRow).where(SeenReceiptRow.receipt_id == receipt_id)
        with write_transaction(self._engine) as connection:
            connection.execute(change.values(finding=finding, detail=detail[:500], checked_at=self._clock.now()))

    def receipt(self, receipt_id: Digest) -> SeenReceipt | None:
        """Returns the receipt with this id, or None if it is unknown."""
        found = self._receipts(SeenReceiptRow.receipt_id == receipt_id)
        return found[0] if found else None

    def receipts(self, batch_id: int | None = None, finding: str | None = None) -> tuple[SeenReceipt, ...]:
        """Returns receipts in order of batch and number.

        If `batch_id` or `finding` is not None, returns only receipts with that value.
        """
        conditions = [] if batch_id is None else [SeenReceiptRow.batch_id == batch_id]
        return self._receipts(*conditions, *([] if finding is None else [SeenReceiptRow.finding == finding]))

    def numbered(self, numbers: Collection[tuple[Address, int]]) -> tuple[SeenReceipt, ...]:
        """Returns the stored receipts whose operator and receipt number are one of these pairs."""
        wanted, place = sorted(numbers), tuple_(SeenReceiptRow.operator, SeenReceiptRow.seq)
        pages = (wanted[start : start + NUMBERS_PER_QUERY] for start in range(0, len(wanted), NUMBERS_PER_QUERY))
        return tuple(found for page in pages for found in self._receipts(place.in_(page)))

    def rewind(self, block: int) -> None:
        """Deletes the batches of blocks above this block, and the receipts in them, because a reorganisation removed the blocks.
        Ciphertext stays."""
        gone = select(SeenBatchRow.batch_id).where(SeenBatchRow.block_number > block)
        with write_transaction(self._engine) as connection:
            connection.execute(delete(SeenReceiptRow).where(SeenReceiptRow.batch_id.in_(gone)))
            connection.execute(delete(SeenBatchRow).where(SeenBatchRow.block_number > block))

    def keep_envelope(self, data: bytes) -> Digest:
        """Archives ciphertext and returns its envelope hash."""
        name = digests.labelled(Label.ENVELOPE, data)
        with write_transaction(self._engine) as connection:
            insert_if_new(connection, ArchivedEnvelopeRow, envelope_hash=name, data=data, archived_at=self._clock.now())
        return name

    def envelope(self, envelope_hash: Digest) -> Blob | None:
        """Returns the archived ciphertext with this hash, or None if there is none.

        Raises `StoreCorrupt` if the bytes have another hash.
        """
        query = select(ArchivedEnvelopeRow.data).where(ArchivedEnvelopeRow.envelope_hash == envelope_hash)
        with read_transaction(self._engine) as connection:
            data = connection.execute(query).scalar_one_or_none()
        if data is not None and digests.labelled(Label.ENVELOPE, data) != envelope_hash:
            raise StoreCorrupt("archive", f"envelope {envelope_hash.hex()} was altered")
        return None if data is None else Blob(data)

    def _batches(self, *conditions: Any) -> tuple[SeenBatch, ...]:
        query = select(*SeenBatchRow.__table__.columns).where(*conditions).order_by(SeenBatchRow.batch_id)
        with read_transaction(self._engine) as connection:
            return tuple(_batch(row) for row in connection.execute(query))

    def _receipts(self, *conditions: Any) -> tuple[SeenReceipt, ...]:
        query = select(*SeenReceiptRow.__table__.columns).where(*conditions)
        with read_transaction(self._engine) as connection:
            return tuple(_receipt(r) for r in connection.execute(query.order_by(SeenReceiptRow.batch_id, SeenReceiptRow.seq)))


class LightAudits:
    """Database store of the light audits of one verifier."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def add(self, receipt_id: Digest, deadline: int) -> LightAudit:
        """Adds an audit in state PENDING and returns it. Returns the existing one if the receipt has an audit already."""
        with write_transaction(self._engine) as connection:
            insert_if_new(
                connection, LightAuditRow, receipt_id=receipt_id, deadline=deadline, state="PENDING", detail="",
                updated_at=self._clock.now(),
            )  # fmt: skip
        found = self.find(receipt_id)
        assert found is not None, "inserted above"
        return found

    def find(self, receipt_id: Digest) -> LightAudit | None:
        """Returns the audit of this receipt, or None if there is none."""
        found = self._select(LightAuditRow.receipt_id == receipt_id)
        return found[0] if found else None

    def audits(self, state: str | None = None) -> tuple[LightAudit, ...]:
        """Returns all audits, or only those in `state`, the earliest deadline first."""
        return self._select(*(() if state is None else (LightAuditRow.state == state,)))

    def coverage(self, since: int, until: int) -> float:
        """Returns the fraction of audits that have a signed result.

        Only audits whose deadline is after `since` and not after `until` count. Returns NaN if there are none.
        """
        query = select(func.count(), func.count(LightAuditRow.result)).where(
            LightAuditRow.deadline > since, LightAuditRow.deadline <= until
        )
        with read_transaction(self._engine) as connection:
            drawn, signed = connection.execute(query).one()
        return float(signed / drawn) if drawn else math.nan

    def mark(self, receipt_id: Digest, state: str, detail: str = "") -> None:
        """Sets the state of an audit."""
        self._update(receipt_id, state=state, detail=detail[:500])

    def extend(self, receipt_id: Digest, deadline: int) -> None:
        """Sets the deadline of an audit, for example a later one."""
        self._update(receipt_id, deadline=deadline)

    def sign_once(self, result: AuditResult, signature: Blob, opening: Any) -> LightAudit:
        """Stores the signed result of an audit before it is posted, and returns the audit with the result to post.

        If the audit already has a stored result, that result stays and is the one to post. Raises `StoreCorrupt` if the audit is
        unknown.
        """
        unsigned = update(LightAuditRow).where(LightAuditRow.receipt_id == result.receipt_id, LightAuditRow.result.is_(None))
        values = {"result": encoding.encode(result), "signature": signature, "opening": encoding.encode(opening)}
        with write_transaction(self._engine) as connection:
            connection.execute(unsigned.values(state="SIGNED", updated_at=self._clock.now(), **values))
        found = self.find(result.receipt_id)
        if found is None:
            raise StoreCorrupt("audits", f"no audit of receipt {result.receipt_id.hex()}")
        return found

    def _update(self, receipt_id: Digest, **values: Any) -> None:
        change = update(LightAuditRow).where(LightAuditRow.receipt_id == receipt_id)
        with write_transaction(self._engine) as connection:
            connection.execute(change.values(updated_at=self._clock.now(), **values))

    def _select(self, *conditions: Any) -> tuple[LightAudit, ...]:
        query = (
            select(*LightAuditRow.__table__.columns).where(*conditions).order_by(LightAuditRow.deadline, LightAuditRow.receipt_id)
        )
        with read_transaction(self._engine) as connection:
            return tuple(_audit(row) for row in connection.execute(query))


KEPT_BLOCKS = 256
"""Most block hashes that are stored for each reader. They span several epochs of the chain, far more than the usual distance to
finality."""


class BlockMark(NamedTuple):
    """A block that the reader has finished."""

    number: int
    hash: Digest


class Cursor:
    """The stored progress of one reader of chain events: the blocks that the reader has finished, with their hashes.

    `name` identifies the reader. With the hashes the reader notices a reorganisation, and goes back to the last block that the
    chain still has (design section 2).
    """

    def __init__(self, engine: Engine, name: str, keep: int = KEPT_BLOCKS) -> None:
        self._engine = engine
        self._name = name
        self._keep = keep

    def head(self) -> BlockMark | None:
        """Returns the newest finished block, or None if the reader has not finished any."""
        marks = self.marks(1)
        return marks[0] if marks else None

    def marks(self, limit: int = KEPT_BLOCKS) -> tuple[BlockMark, ...]:
        """Returns up to `limit` finished blocks, the newest first."""
        query = select(CursorRow.number, CursorRow.hash).where(CursorRow.name == self._name)
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query.order_by(CursorRow.number.desc()).limit(limit))
            return tuple(BlockMark(number, Digest(hash_)) for number, hash_ in rows)

    def advance(self, number: int, block_hash: Digest) -> BlockMark:
        """Stores a block as finished and returns it.

        Raises `StoreCorrupt` unless its number is above that of the newest finished block.
        """
        own = CursorRow.name == self._name
        with write_transaction(self._engine) as connection:
            lock_name(connection, f"cursor {self._name}")
            newest = connection.execute(select(CursorRow.number).where(own).order_by(CursorRow.number.desc()).limit(1)).scalar()
            if newest is not None and number <= newest:
                raise StoreCorrupt(f"cursor {self._name}", f"asked to advance from {newest} to {number}")
            connection.execute(insert(CursorRow).values(name=self._name, number=number, hash=block_hash))
            stale = select(CursorRow.number).where(own).order_by(CursorRow.number.desc()).offset(self._keep).limit(1)
            oldest = connection.execute(stale).scalar()
            if oldest is not None:
                connection.execute(delete(CursorRow).where(own, CursorRow.number <= oldest))
        return BlockMark(number, block_hash)

    def rewind(self, number: int) -> BlockMark | None:
        """Deletes every block above `number`. Returns the newest block that is left, or None."""
        with write_transaction(self._engine) as connection:
            lock_name(connection, f"cursor {self._name}")
            connection.execute(delete(CursorRow).where(CursorRow.name == self._name, CursorRow.number > number))
        return self.head()

    def common(self, hash_of: Callable[[int], Digest]) -> BlockMark | None:
        """Returns the newest finished block that the chain still has, or None.

        `hash_of` returns the hash that the chain has for a block number. This method writes nothing. The caller rewinds to the
        returned block: first the cursor, then the caller's own rows of later blocks. Because a crash may come between the two,
        the caller also deletes its rows of later blocks at every start.
        """
        return next((mark for mark in self.marks() if hash_of(mark.number) == mark.hash), None)


def _batch(row: Row[Any]) -> SeenBatch:
    return SeenBatch(encoding.decode(BatchHeader, row.header), row.state, row.detail, row.seen_at)


def _receipt(row: Row[Any]) -> SeenReceipt:
    signed = encoding.decode(SignedReceipt, row.signed)
    proof = tuple(Digest(unhex(text)) for text in encoding.parse(row.proof))
    return SeenReceipt(Digest(row.receipt_id), row.batch_id, signed, proof, row.finding, row.detail, row.checked_at)


def _audit(row: Row[Any]) -> LightAudit:
    result = None if row.result is None else encoding.decode(AuditResult, row.result)
    opening = None if row.opening is None else encoding.parse(row.opening)
    return LightAudit(Digest(row.receipt_id), row.deadline, row.state, result, row.signature, opening, row.detail)
