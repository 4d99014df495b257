"""Key ceremonies: plan, log, own words."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Creates the tables; there is no way down, a database is restored from its backup."""
    op.create_table(
        "ceremony",
        sa.Column("id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("plan", sa.LargeBinary(), nullable=False),
        sa.Column("seed", sa.LargeBinary(), nullable=False),
        sa.Column("ended", sa.String(length=80), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ceremony")),
    )
    _messages("ceremony_log", sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False))
    _messages("ceremony_word", sa.Column("kind", sa.String(length=80), nullable=False))


def _messages(table: str, key: sa.Column[int] | sa.Column[str]) -> None:
    op.create_table(
        table,
        sa.Column("ceremony", sa.LargeBinary(length=32), nullable=False),
        key,
        sa.Column("message", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["ceremony"], ["ceremony.id"], name=op.f(f"fk_{table}_ceremony")),
        sa.PrimaryKeyConstraint("ceremony", key.name, name=op.f(f"pk_{table}")),
    )
