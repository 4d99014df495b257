"""Release records, instances, audit budget."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Creates the tables; there is no way down, a database is restored from its backup."""
    _release_record()
    _release_instance()
    _audit_budget()


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
