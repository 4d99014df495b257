"""Shards keep what the scribe of a ceremony signed: the end of its log, and the first other log that it showed."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Adds column and table; there is no way down, a database is restored from its backup."""
    op.add_column("ceremony", sa.Column("log_end", sa.LargeBinary(), nullable=True))
    op.create_table(
        "ceremony_fork",
        sa.Column("ceremony", sa.LargeBinary(length=32), nullable=False),
        sa.Column("fork", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["ceremony"], ["ceremony.id"], name=op.f("fk_ceremony_fork_ceremony")),
        sa.PrimaryKeyConstraint("ceremony", name=op.f("pk_ceremony_fork")),
    )
