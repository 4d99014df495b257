"""Receipts are found by their operator's number: two of one number are equivocation."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Adds the index; there is no way down, a database is restored from its backup."""
    op.create_index("ix_seen_receipt_number", "seen_receipt", ["operator", "seq"])
