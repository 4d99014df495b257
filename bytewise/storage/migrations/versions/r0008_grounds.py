"""Release records keep on what grounds the shard decided. Those of before have none."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Adds the column; there is no way down, a database is restored from its backup."""
    op.add_column("release_record", sa.Column("grounds", sa.LargeBinary(), nullable=True))
