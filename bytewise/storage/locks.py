"""Being alone in a transaction: a locked row per name on PostgreSQL; on SQLite every writer is alone already."""

from sqlalchemy import Connection, select

from bytewise.storage.engine import insert_if_absent
from bytewise.storage.tables_core import LockRow


def alone(connection: Connection, name: str) -> None:
    """Waits until this transaction, a `writing` one, is the only one inside `name`, until it ends."""
    if connection.dialect.name == "sqlite":
        return
    insert_if_absent(connection, LockRow, name=name)
    connection.execute(select(LockRow.name).where(LockRow.name == name).with_for_update()).one()
