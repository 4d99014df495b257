"""Tables of verifiers (seen receipts, archive, audits) and of operators (receipts issued, batches, retries)."""

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from bytewise.storage.base import Account, Base, Bytes, Bytes32, Int64, Prose, Word


class SeenBatchRow(Base):
    """A batch that the chain showed."""

    __tablename__ = "seen_batch"
    batch_id: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    block_number: Mapped[Int64] = mapped_column(index=True)
    header: Mapped[Bytes]
    state: Mapped[Word]
    detail: Mapped[Prose]
    seen_at: Mapped[Int64]


class SeenReceiptRow(Base):
    """A receipt found in a batch, and what the check said."""

    __tablename__ = "seen_receipt"
    receipt_id: Mapped[Bytes32] = mapped_column(primary_key=True)
    batch_id: Mapped[Int64] = mapped_column(index=True)
    operator: Mapped[Account]
    seq: Mapped[Int64]
    signed: Mapped[Bytes]
    proof: Mapped[Bytes]
    envelope_hash: Mapped[Bytes32]
    finding: Mapped[Word]
    detail: Mapped[Prose]
    checked_at: Mapped[Int64]
    __table_args__ = (Index("ix_seen_receipt_number", "operator", "seq"),)


class EnvelopeRow(Base):
    """Ciphertext kept at first sight; DA forgets after its retention."""

    __tablename__ = "archived_envelope"
    envelope_hash: Mapped[Bytes32] = mapped_column(primary_key=True)
    data: Mapped[Bytes]
    archived_at: Mapped[Int64]


class AuditRow(Base):
    """A light audit that we were drawn for."""

    __tablename__ = "audit"
    receipt_id: Mapped[Bytes32] = mapped_column(primary_key=True)
    deadline: Mapped[Int64]
    state: Mapped[Word] = mapped_column(index=True)
    result: Mapped[Bytes | None]
    signature: Mapped[Bytes | None]
    opening: Mapped[Bytes | None]
    detail: Mapped[Prose]
    updated_at: Mapped[Int64]


class SequenceRow(Base):
    """The next receipt number of an operator account."""

    __tablename__ = "receipt_sequence"
    operator: Mapped[Account] = mapped_column(primary_key=True)
    next_seq: Mapped[Int64]


class IssuedRow(Base):
    """A receipt we signed, with all that must be published for it."""

    __tablename__ = "issued_receipt"
    seq: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    receipt_id: Mapped[Bytes32] = mapped_column(unique=True)
    signed: Mapped[Bytes]
    envelope: Mapped[Bytes]
    batch_first_seq: Mapped[Int64 | None] = mapped_column(index=True)
    issued_at: Mapped[Int64]


class AnswerRow(Base):
    """The answer to a request, for the client that asks again."""

    __tablename__ = "answer"
    request_key: Mapped[Bytes32] = mapped_column(primary_key=True)
    receipt_id: Mapped[Bytes32]
    response: Mapped[Bytes]
    created_at: Mapped[Int64] = mapped_column(index=True)


class OwnBatchRow(Base):
    """A batch that we built, until the chain shows it."""

    __tablename__ = "own_batch"
    first_seq: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    receipts: Mapped[int]
    header: Mapped[Bytes]
    list_data: Mapped[Bytes]
    state: Mapped[Word]
    created_at: Mapped[Int64]
