"""All tables of an actor's database, and the column types that mean the same on SQLite and PostgreSQL.

The tables are in one module for the migrations, and for the test that compares the tables with the migrations.
"""

from typing import Annotated

from sqlalchemy import (
    BigInteger,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """The base class of every table in the database of an actor."""

    metadata = MetaData(naming_convention=NAMES)


class _WithoutNul(TypeDecorator[str]):
    # PostgreSQL's text has no U+0000. Text from others may contain it, and an operator's list must not stop the node that reports
    # it.
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else value.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _serial() -> BigInteger:
    # SQLite numbers rows by itself only for the exact type INTEGER.
    return BigInteger().with_variant(Integer, "sqlite")


RowId = Annotated[int, mapped_column(_serial(), primary_key=True, autoincrement=True)]
"""A row number that the database chooses."""
Int64 = Annotated[int, mapped_column(BigInteger)]
"""A sequence number, a block number, or a time in Unix seconds."""
Bytes32 = Annotated[bytes, mapped_column(LargeBinary(32))]
"""A digest of 32 bytes."""
Bytes = Annotated[bytes, mapped_column(LargeBinary)]
"""Bytes of any length."""
Account = Annotated[str, mapped_column(String(42))]
"""An address in lower case."""
Prose = Annotated[str, mapped_column(_WithoutNul)]
"""Text for people, possibly from an untrusted peer. U+0000 is replaced."""
Word = Annotated[str, mapped_column(String(80))]
"""A short name, a state, or a 256-bit integer in decimal."""


# Tables that every actor has: journal, protection table, nonce leases, outbox, duties, cursors, the last restore.


class NamedLockRow(Base):
    """A name that a transaction locks, so that no other transaction with that lock runs.

    Only PostgreSQL needs it: SQLite has one writer.
    """

    __tablename__ = "named_lock"
    name: Mapped[Word] = mapped_column(primary_key=True)


class JournalRow(Base):
    """One entry of the hash-chained journal."""

    __tablename__ = "journal_entry"
    number: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    recorded_at: Mapped[Int64]
    kind: Mapped[Word]
    subject: Mapped[Bytes]
    body: Mapped[Bytes]
    previous_digest: Mapped[Bytes32]
    digest: Mapped[Bytes32] = mapped_column(unique=True)
    signature: Mapped[Bytes]


class ProtectedVoteRow(Base):
    """The one vote for a (dispute, round). The table must be restored, never emptied (design section 2)."""

    __tablename__ = "protected_vote"
    dispute: Mapped[Bytes32] = mapped_column(primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    voter: Mapped[Account] = mapped_column(primary_key=True)
    content_digest: Mapped[Bytes32]
    vote: Mapped[Bytes]
    quote: Mapped[Bytes]
    created_at: Mapped[Int64]


class ReliedRootRow(Base):
    """The commitments under the commit root that stands for our commitment in a round. Without them our vote could not be
    revealed."""

    __tablename__ = "relied_root"
    dispute: Mapped[Bytes32] = mapped_column(primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    root: Mapped[Bytes32]
    leaves: Mapped[Bytes]


class NonceLeaseRow(Base):
    """The nonce lease of an account: the process that may send, the Unix second at which the lease ends, and the next nonce."""

    __tablename__ = "nonce_lease"
    chain_id: Mapped[Word] = mapped_column(primary_key=True)
    account: Mapped[Account] = mapped_column(primary_key=True)
    next_nonce: Mapped[Int64]
    owner: Mapped[Word]
    fencing_token: Mapped[Int64]
    leased_until: Mapped[Int64]
    refused_owner: Mapped[Word]
    """The process that was refused the lease last. It is empty once the process that has the lease counted the refusal."""
    stop_reason: Mapped[Word]


class OutboxRow(Base):
    """One intended transaction. Contract, function, subject and role identify it."""

    __tablename__ = "outbox"
    id: Mapped[RowId]
    chain_id: Mapped[Word]
    account: Mapped[Account]
    contract: Mapped[Account]
    function: Mapped[Word]
    subject: Mapped[Bytes]
    role: Mapped[Word]
    calldata: Mapped[Bytes]
    value_wei: Mapped[Word]
    deadline: Mapped[Int64]
    broadcast_by: Mapped[Int64]
    state: Mapped[Word] = mapped_column(index=True)
    nonce: Mapped[Int64 | None]
    block_number: Mapped[Int64 | None]
    block_hash: Mapped[Bytes32 | None]
    detail: Mapped[Prose]
    created_at: Mapped[Int64]
    updated_at: Mapped[Int64]
    __table_args__ = (UniqueConstraint("chain_id", "contract", "function", "subject", "role"),)


class OutboxAttemptRow(Base):
    """Signed bytes of an outbox row: the first version and each replacement."""

    __tablename__ = "outbox_attempt"
    outbox_id: Mapped[Int64] = mapped_column(ForeignKey("outbox.id"), primary_key=True, autoincrement=False)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    nonce: Mapped[Int64]
    raw: Mapped[Bytes]
    tx_hash: Mapped[Bytes32] = mapped_column(unique=True)
    signed_at: Mapped[Int64]
    broadcast_at: Mapped[Int64 | None]


class DutyRow(Base):
    """A duty with its deadline and state."""

    __tablename__ = "duty"
    kind: Mapped[Word] = mapped_column(primary_key=True)
    subject: Mapped[Bytes] = mapped_column(primary_key=True)
    deadline: Mapped[Int64]
    state: Mapped[Word]
    detail: Mapped[Prose]
    created_at: Mapped[Int64]
    updated_at: Mapped[Int64]
    __table_args__ = (Index("ix_duty_state_deadline", "state", "deadline"),)


class CursorRow(Base):
    """A block that a reader of chain events has finished, with its hash."""

    __tablename__ = "cursor_block"
    name: Mapped[Word] = mapped_column(primary_key=True)
    number: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    hash: Mapped[Bytes32]


class RestoredRow(Base):
    """The times of the last restore of this database from a backup. A database that was never restored has no row.
    `RestoreFence` reads it."""

    __tablename__ = "restored"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    backup_at: Mapped[Int64]
    restored_at: Mapped[Int64]
    clock: Mapped[Int64 | None]
    nonce: Mapped[Int64 | None]


# Tables of key ceremonies: plan, log, signed head of the log, own messages, and the sealed seed while a ceremony runs.


class CeremonyRow(Base):
    """One ceremony. The participant seals `seed`, and `seed` is emptied when `outcome` is set."""

    __tablename__ = "ceremony"
    id: Mapped[Bytes32] = mapped_column(primary_key=True)
    plan: Mapped[Bytes]
    seed: Mapped[Bytes]
    outcome: Mapped[Word]
    signed_head: Mapped[Bytes | None]
    """The head of the whole log in this database, signed by the coordinator. The coordinator's own database has none."""


class CeremonyMessageRow(Base):
    """One message of a ceremony's log. The numbers have no gap, and each number has one message."""

    __tablename__ = "ceremony_message"
    ceremony: Mapped[Bytes32] = mapped_column(ForeignKey("ceremony.id"), primary_key=True)
    number: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    message: Mapped[Bytes]


class CeremonyForkRow(Base):
    """Evidence that the coordinator of a ceremony signed a second log. Only the first evidence of each ceremony is stored."""

    __tablename__ = "ceremony_fork"
    ceremony: Mapped[Bytes32] = mapped_column(ForeignKey("ceremony.id"), primary_key=True)
    fork: Mapped[Bytes]


class OwnMessageRow(Base):
    """The message of one kind that this process made in a ceremony. It is stored before it is sent."""

    __tablename__ = "ceremony_own_message"
    ceremony: Mapped[Bytes32] = mapped_column(ForeignKey("ceremony.id"), primary_key=True)
    kind: Mapped[Word] = mapped_column(primary_key=True)
    message: Mapped[Bytes]


# Tables of a key holder: release records, enclave instances, audit budget.


class ReleaseRow(Base):
    """One signed release record. The numbers of a key epoch have no gap, and each number has one record."""

    __tablename__ = "release_record"
    epoch: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    number: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    receipt_id: Mapped[Bytes32] = mapped_column(index=True)
    ticket_hash: Mapped[Bytes32]
    record: Mapped[Bytes]
    signature: Mapped[Bytes]
    digest: Mapped[Bytes32]
    signed_ticket: Mapped[Bytes | None]
    release_evidence: Mapped[Bytes | None]
    __table_args__ = (UniqueConstraint("digest"),)


class ReleaseInstanceRow(Base):
    """An enclave instance that received a partial under one right.

    `right_id` is a hash of kind, subject, round, receipt and voter.
    """

    __tablename__ = "release_instance"
    right_id: Mapped[Bytes32] = mapped_column(primary_key=True)
    instance: Mapped[Bytes32] = mapped_column(primary_key=True)


class AuditBudgetRow(Base):
    """Number of audits in a key epoch for which a partial was released."""

    __tablename__ = "audit_budget"
    epoch: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    spent: Mapped[Int64]


# Tables of verifiers: receipts, archived envelopes, audits. Tables of operators: issued receipts, answers, batches.


class SeenBatchRow(Base):
    """A batch that was read from the chain."""

    __tablename__ = "seen_batch"
    batch_id: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    block_number: Mapped[Int64] = mapped_column(index=True)
    header: Mapped[Bytes]
    state: Mapped[Word]
    detail: Mapped[Prose]
    seen_at: Mapped[Int64]


class SeenReceiptRow(Base):
    """A receipt of a batch, with the finding of the verifier's check."""

    __tablename__ = "seen_receipt"
    receipt_id: Mapped[Bytes32] = mapped_column(primary_key=True)
    batch_id: Mapped[Int64] = mapped_column(index=True)
    operator: Mapped[Account]
    seq: Mapped[Int64]
    signed: Mapped[Bytes]
    proof: Mapped[Bytes]
    envelope_hash: Mapped[Bytes32] = mapped_column(index=True)
    finding: Mapped[Word]
    detail: Mapped[Prose]
    checked_at: Mapped[Int64]
    __table_args__ = (Index("ix_seen_receipt_number", "operator", "seq"),)


class ArchivedEnvelopeRow(Base):
    """Archived ciphertext. The verifier stores ciphertext at the first fetch, because DA deletes ciphertext after a time."""

    __tablename__ = "archived_envelope"
    envelope_hash: Mapped[Bytes32] = mapped_column(primary_key=True)
    data: Mapped[Bytes]
    archived_at: Mapped[Int64]


class LightAuditRow(Base):
    """A light audit for which this verifier was drawn."""

    __tablename__ = "light_audit"
    receipt_id: Mapped[Bytes32] = mapped_column(primary_key=True)
    deadline: Mapped[Int64]
    state: Mapped[Word] = mapped_column(index=True)
    result: Mapped[Bytes | None]
    signature: Mapped[Bytes | None]
    opening: Mapped[Bytes | None]
    detail: Mapped[Prose]
    updated_at: Mapped[Int64]


class ReceiptSequenceRow(Base):
    """The next receipt number of an operator account."""

    __tablename__ = "receipt_sequence"
    operator: Mapped[Account] = mapped_column(primary_key=True)
    next_seq: Mapped[Int64]


class IssuedReceiptRow(Base):
    """A receipt that this operator signed, with the envelope to publish."""

    __tablename__ = "issued_receipt"
    seq: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    receipt_id: Mapped[Bytes32] = mapped_column(unique=True)
    signed: Mapped[Bytes]
    envelope: Mapped[Bytes]
    expires_at: Mapped[Int64]
    """Unix second of chain time at which the receipt's request expires."""
    batch_first_seq: Mapped[Int64 | None] = mapped_column(index=True)
    issued_at: Mapped[Int64]


class DraftedAnswerRow(Base):
    """An answer whose receipts are being signed. Until the receipts are stored, no other receipt gets their numbers."""

    __tablename__ = "drafted_answer"
    operator: Mapped[Account] = mapped_column(primary_key=True)
    first_seq: Mapped[Int64]
    receipts: Mapped[int]
    anchor_by: Mapped[Int64]
    """Unix second of chain time by which the answer's receipts promise to be anchored."""
    content: Mapped[Bytes]


class AnswerRow(Base):
    """The stored answer to a request, for a client that retries."""

    __tablename__ = "answer"
    request_key: Mapped[Bytes32] = mapped_column(primary_key=True)
    receipt_id: Mapped[Bytes32]
    response: Mapped[Bytes]
    created_at: Mapped[Int64] = mapped_column(index=True)


class OwnBatchRow(Base):
    """A batch that this operator built."""

    __tablename__ = "own_batch"
    first_seq: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    receipts: Mapped[int]
    header: Mapped[Bytes]
    list_data: Mapped[Bytes]
    state: Mapped[Word]
    created_at: Mapped[Int64]


METADATA = Base.metadata
"""The whole schema of an actor's database."""
