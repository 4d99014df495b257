"""Seen receipts, archive, audits; issued receipts, answers, batches."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Creates the tables; there is no way down, a database is restored from its backup."""
    _seen_batch()
    _seen_receipt()
    _archived_envelope()
    _audit()
    _receipt_sequence()
    _issued_receipt()
    _answer()
    _own_batch()


def _seen_batch() -> None:
    op.create_table(
        "seen_batch",
        sa.Column("batch_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("block_number", sa.BigInteger(), nullable=False),
        sa.Column("header", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.String(length=80), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("batch_id", name=op.f("pk_seen_batch")),
    )
    op.create_index(op.f("ix_seen_batch_block_number"), "seen_batch", ["block_number"], unique=False)


def _seen_receipt() -> None:
    op.create_table(
        "seen_receipt",
        sa.Column("receipt_id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), nullable=False),
        sa.Column("operator", sa.String(length=42), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("signed", sa.LargeBinary(), nullable=False),
        sa.Column("proof", sa.LargeBinary(), nullable=False),
        sa.Column("envelope_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("finding", sa.String(length=80), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("checked_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("receipt_id", name=op.f("pk_seen_receipt")),
    )
    op.create_index(op.f("ix_seen_receipt_batch_id"), "seen_receipt", ["batch_id"], unique=False)


def _archived_envelope() -> None:
    op.create_table(
        "archived_envelope",
        sa.Column("envelope_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("archived_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("envelope_hash", name=op.f("pk_archived_envelope")),
    )


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("receipt_id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("deadline", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=80), nullable=False),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.Column("signature", sa.LargeBinary(), nullable=True),
        sa.Column("opening", sa.LargeBinary(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("receipt_id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_state"), "audit", ["state"], unique=False)


def _receipt_sequence() -> None:
    op.create_table(
        "receipt_sequence",
        sa.Column("operator", sa.String(length=42), nullable=False),
        sa.Column("next_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("operator", name=op.f("pk_receipt_sequence")),
    )


def _issued_receipt() -> None:
    op.create_table(
        "issued_receipt",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("receipt_id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("signed", sa.LargeBinary(), nullable=False),
        sa.Column("envelope", sa.LargeBinary(), nullable=False),
        sa.Column("batch_first_seq", sa.BigInteger(), nullable=True),
        sa.Column("issued_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_issued_receipt")),
        sa.UniqueConstraint("receipt_id", name=op.f("uq_issued_receipt_receipt_id")),
    )
    op.create_index(op.f("ix_issued_receipt_batch_first_seq"), "issued_receipt", ["batch_first_seq"], unique=False)


def _answer() -> None:
    op.create_table(
        "answer",
        sa.Column("request_key", sa.LargeBinary(length=32), nullable=False),
        sa.Column("receipt_id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("response", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("request_key", name=op.f("pk_answer")),
    )
    op.create_index(op.f("ix_answer_created_at"), "answer", ["created_at"], unique=False)


def _own_batch() -> None:
    op.create_table(
        "own_batch",
        sa.Column("first_seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("receipts", sa.Integer(), nullable=False),
        sa.Column("header", sa.LargeBinary(), nullable=False),
        sa.Column("list_data", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.String(length=80), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("first_seq", name=op.f("pk_own_batch")),
    )
