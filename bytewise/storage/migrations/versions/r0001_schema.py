"""The first revision: it creates the whole schema, with one function for each table."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Creates all tables. The first revision has no downgrade, because there is no older schema."""
    _named_lock()
    _journal_entry()
    _protected_vote()
    _relied_root()
    _nonce_lease()
    _outbox()
    _outbox_attempt()
    _duty()
    _cursor_block()
    _restored()
    _ceremony()
    _ceremony_message()
    _ceremony_fork()
    _ceremony_own_message()
    _release_record()
    _release_instance()
    _audit_budget()
    _seen_batch()
    _seen_receipt()
    _archived_envelope()
    _light_audit()
    _receipt_sequence()
    _issued_receipt()
    _drafted_answer()
    _answer()
    _own_batch()


def _named_lock() -> None:
    op.create_table(
        "named_lock",
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_named_lock")),
    )


def _journal_entry() -> None:
    op.create_table(
        "journal_entry",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=80), nullable=False),
        sa.Column("subject", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("previous_digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_journal_entry")),
        sa.UniqueConstraint("digest", name=op.f("uq_journal_entry_digest")),
    )


def _protected_vote() -> None:
    op.create_table(
        "protected_vote",
        sa.Column("dispute", sa.LargeBinary(length=32), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("voter", sa.String(length=42), nullable=False),
        sa.Column("content_digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("vote", sa.LargeBinary(), nullable=False),
        sa.Column("quote", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("dispute", "round", "voter", name=op.f("pk_protected_vote")),
    )


def _relied_root() -> None:
    op.create_table(
        "relied_root",
        sa.Column("dispute", sa.LargeBinary(length=32), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("root", sa.LargeBinary(length=32), nullable=False),
        sa.Column("leaves", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("dispute", "round", name=op.f("pk_relied_root")),
    )


def _nonce_lease() -> None:
    op.create_table(
        "nonce_lease",
        sa.Column("chain_id", sa.String(length=80), nullable=False),
        sa.Column("account", sa.String(length=42), nullable=False),
        sa.Column("next_nonce", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(length=80), nullable=False),
        sa.Column("fencing_token", sa.BigInteger(), nullable=False),
        sa.Column("leased_until", sa.BigInteger(), nullable=False),
        sa.Column("refused_owner", sa.String(length=80), nullable=False),
        sa.Column("stop_reason", sa.String(length=80), nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "account", name=op.f("pk_nonce_lease")),
    )


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("chain_id", sa.String(length=80), nullable=False),
        sa.Column("account", sa.String(length=42), nullable=False),
        sa.Column("contract", sa.String(length=42), nullable=False),
        sa.Column("function", sa.String(length=80), nullable=False),
        sa.Column("subject", sa.LargeBinary(), nullable=False),
        sa.Column("role", sa.String(length=80), nullable=False),
        sa.Column("calldata", sa.LargeBinary(), nullable=False),
        sa.Column("value_wei", sa.String(length=80), nullable=False),
        sa.Column("deadline", sa.BigInteger(), nullable=False),
        sa.Column("broadcast_by", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=80), nullable=False),
        sa.Column("nonce", sa.BigInteger(), nullable=True),
        sa.Column("block_number", sa.BigInteger(), nullable=True),
        sa.Column("block_hash", sa.LargeBinary(length=32), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sa.UniqueConstraint("chain_id", "contract", "function", "subject", "role", name=op.f("uq_outbox_chain_id")),
    )
    op.create_index(op.f("ix_outbox_state"), "outbox", ["state"], unique=False)


def _outbox_attempt() -> None:
    op.create_table(
        "outbox_attempt",
        sa.Column("outbox_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("nonce", sa.BigInteger(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.Column("tx_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("signed_at", sa.BigInteger(), nullable=False),
        sa.Column("broadcast_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["outbox_id"], ["outbox.id"], name=op.f("fk_outbox_attempt_outbox_id")),
        sa.PrimaryKeyConstraint("outbox_id", "attempt", name=op.f("pk_outbox_attempt")),
        sa.UniqueConstraint("tx_hash", name=op.f("uq_outbox_attempt_tx_hash")),
    )


def _duty() -> None:
    op.create_table(
        "duty",
        sa.Column("kind", sa.String(length=80), nullable=False),
        sa.Column("subject", sa.LargeBinary(), nullable=False),
        sa.Column("deadline", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=80), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "subject", name=op.f("pk_duty")),
    )
    op.create_index("ix_duty_state_deadline", "duty", ["state", "deadline"], unique=False)


def _cursor_block() -> None:
    op.create_table(
        "cursor_block",
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(length=32), nullable=False),
        sa.PrimaryKeyConstraint("name", "number", name=op.f("pk_cursor_block")),
    )


def _restored() -> None:
    op.create_table(
        "restored",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("backup_at", sa.BigInteger(), nullable=False),
        sa.Column("restored_at", sa.BigInteger(), nullable=False),
        sa.Column("clock", sa.BigInteger(), nullable=True),
        sa.Column("nonce", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_restored")),
    )


def _ceremony() -> None:
    op.create_table(
        "ceremony",
        sa.Column("id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("plan", sa.LargeBinary(), nullable=False),
        sa.Column("seed", sa.LargeBinary(), nullable=False),
        sa.Column("outcome", sa.String(length=80), nullable=False),
        sa.Column("signed_head", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ceremony")),
    )


def _ceremony_message() -> None:
    op.create_table(
        "ceremony_message",
        sa.Column("ceremony", sa.LargeBinary(length=32), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("message", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["ceremony"], ["ceremony.id"], name=op.f("fk_ceremony_message_ceremony")),
        sa.PrimaryKeyConstraint("ceremony", "number", name=op.f("pk_ceremony_message")),
    )


def _ceremony_fork() -> None:
    op.create_table(
        "ceremony_fork",
        sa.Column("ceremony", sa.LargeBinary(length=32), nullable=False),
        sa.Column("fork", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["ceremony"], ["ceremony.id"], name=op.f("fk_ceremony_fork_ceremony")),
        sa.PrimaryKeyConstraint("ceremony", name=op.f("pk_ceremony_fork")),
    )


def _ceremony_own_message() -> None:
    op.create_table(
        "ceremony_own_message",
        sa.Column("ceremony", sa.LargeBinary(length=32), nullable=False),
        sa.Column("kind", sa.String(length=80), nullable=False),
        sa.Column("message", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["ceremony"], ["ceremony.id"], name=op.f("fk_ceremony_own_message_ceremony")),
        sa.PrimaryKeyConstraint("ceremony", "kind", name=op.f("pk_ceremony_own_message")),
    )


def _release_record() -> None:
    op.create_table(
        "release_record",
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("receipt_id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("ticket_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("signed_ticket", sa.LargeBinary(), nullable=True),
        sa.Column("release_evidence", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("epoch", "number", name=op.f("pk_release_record")),
        sa.UniqueConstraint("digest", name=op.f("uq_release_record_digest")),
    )
    op.create_index(op.f("ix_release_record_receipt_id"), "release_record", ["receipt_id"], unique=False)


def _release_instance() -> None:
    op.create_table(
        "release_instance",
        sa.Column("right_id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("instance", sa.LargeBinary(length=32), nullable=False),
        sa.PrimaryKeyConstraint("right_id", "instance", name=op.f("pk_release_instance")),
    )


def _audit_budget() -> None:
    op.create_table(
        "audit_budget",
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("spent", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("epoch", name=op.f("pk_audit_budget")),
    )


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
    op.create_index(op.f("ix_seen_receipt_envelope_hash"), "seen_receipt", ["envelope_hash"], unique=False)
    op.create_index("ix_seen_receipt_number", "seen_receipt", ["operator", "seq"], unique=False)


def _archived_envelope() -> None:
    op.create_table(
        "archived_envelope",
        sa.Column("envelope_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("archived_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("envelope_hash", name=op.f("pk_archived_envelope")),
    )


def _light_audit() -> None:
    op.create_table(
        "light_audit",
        sa.Column("receipt_id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("deadline", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=80), nullable=False),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.Column("signature", sa.LargeBinary(), nullable=True),
        sa.Column("opening", sa.LargeBinary(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("receipt_id", name=op.f("pk_light_audit")),
    )
    op.create_index(op.f("ix_light_audit_state"), "light_audit", ["state"], unique=False)


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
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("batch_first_seq", sa.BigInteger(), nullable=True),
        sa.Column("issued_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_issued_receipt")),
        sa.UniqueConstraint("receipt_id", name=op.f("uq_issued_receipt_receipt_id")),
    )
    op.create_index(op.f("ix_issued_receipt_batch_first_seq"), "issued_receipt", ["batch_first_seq"], unique=False)


def _drafted_answer() -> None:
    op.create_table(
        "drafted_answer",
        sa.Column("operator", sa.String(length=42), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("receipts", sa.Integer(), nullable=False),
        sa.Column("anchor_by", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("operator", name=op.f("pk_drafted_answer")),
    )


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
