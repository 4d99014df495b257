"""Journal, protection, outbox, duties, cursors."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Creates the tables; there is no way down, a database is restored from its backup."""
    _lock_row()
    _journal()
    _protected_vote()
    _lane()
    _outbox()
    _outbox_attempt()
    _duty()
    _cursor_block()


def _lock_row() -> None:
    op.create_table(
        "lock_row",
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_lock_row")),
    )


def _journal() -> None:
    op.create_table(
        "journal",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=80), nullable=False),
        sa.Column("subject", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("previous", sa.LargeBinary(length=32), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_journal")),
        sa.UniqueConstraint("digest", name=op.f("uq_journal_digest")),
    )


def _protected_vote() -> None:
    op.create_table(
        "protected_vote",
        sa.Column("dispute", sa.LargeBinary(length=32), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("voter", sa.String(length=42), nullable=False),
        sa.Column("said", sa.LargeBinary(length=32), nullable=False),
        sa.Column("vote", sa.LargeBinary(), nullable=False),
        sa.Column("quote", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("dispute", "round", "voter", name=op.f("pk_protected_vote")),
    )


def _lane() -> None:
    op.create_table(
        "lane",
        sa.Column("chain_id", sa.String(length=80), nullable=False),
        sa.Column("account", sa.String(length=42), nullable=False),
        sa.Column("next_nonce", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(length=80), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("leased_until", sa.BigInteger(), nullable=False),
        sa.Column("stopped", sa.String(length=80), nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "account", name=op.f("pk_lane")),
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
