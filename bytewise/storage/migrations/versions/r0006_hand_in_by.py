"""An act of the outbox may say until when it is worth handing in. Those of before wait as long as any."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Adds the column; there is no way down, a database is restored from its backup."""
    op.add_column("outbox", sa.Column("hand_in_by", sa.BigInteger(), nullable=False, server_default="0"))
