"""Release records keep the ticket that they name. Those of before have none."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Adds the column; there is no way down, a database is restored from its backup."""
    op.add_column("release_record", sa.Column("right", sa.LargeBinary(), nullable=True))
