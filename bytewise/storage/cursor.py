"""The blocks that a log reader has finished, with hashes, so that it sees a reorganisation and rolls back (design section 2)."""

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Engine, delete, insert, select

from bytewise.protocol.errors.actors import StoreCorrupt
from bytewise.protocol.units import Digest
from bytewise.storage.engine import lock_name, read_transaction, write_transaction
from bytewise.storage.tables import CursorRow

KEPT_BLOCKS = 256
"""Most hashes kept for each reader: several epochs, far beyond the normal distance to finality."""


class BlockMark(NamedTuple):
    """A finished block."""

    number: int
    hash: Digest


class Cursor:
    """The cursor of one named log reader."""

    def __init__(self, engine: Engine, name: str, keep: int = KEPT_BLOCKS) -> None:
        self._engine = engine
        self._name = name
        self._keep = keep

    def head(self) -> BlockMark | None:
        """The newest finished block, or None at the start."""
        marks = self.marks(1)
        return marks[0] if marks else None

    def marks(self, limit: int = KEPT_BLOCKS) -> tuple[BlockMark, ...]:
        """Finished blocks, newest first."""
        query = select(CursorRow.number, CursorRow.hash).where(CursorRow.name == self._name)
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query.order_by(CursorRow.number.desc()).limit(limit))
            return tuple(BlockMark(number, Digest(hash_)) for number, hash_ in rows)

    def advance(self, number: int, block_hash: Digest) -> BlockMark:
        """Marks a block as finished. It must be above the head."""
        own = CursorRow.name == self._name
        with write_transaction(self._engine) as connection:
            lock_name(connection, f"cursor {self._name}")
            newest = connection.execute(select(CursorRow.number).where(own).order_by(CursorRow.number.desc()).limit(1)).scalar()
            if newest is not None and number <= newest:
                raise StoreCorrupt(f"cursor {self._name}", f"asked to advance from {newest} to {number}")
            connection.execute(insert(CursorRow).values(name=self._name, number=number, hash=block_hash))
            stale = select(CursorRow.number).where(own).order_by(CursorRow.number.desc()).offset(self._keep).limit(1)
            oldest = connection.execute(stale).scalar()
            if oldest is not None:
                connection.execute(delete(CursorRow).where(own, CursorRow.number <= oldest))
        return BlockMark(number, block_hash)

    def rewind(self, number: int) -> BlockMark | None:
        """Forgets every block above `number`; returns the new head."""
        with write_transaction(self._engine) as connection:
            lock_name(connection, f"cursor {self._name}")
            connection.execute(delete(CursorRow).where(CursorRow.name == self._name, CursorRow.number > number))
        return self.head()

    def common(self, hash_of: Callable[[int], Digest]) -> BlockMark | None:
        """The newest finished block that the chain still has; None if there is none. Writes nothing.

        The caller rewinds to it: first the cursor, then the rows of later blocks. Every start removes such rows, too.
        """
        return next((mark for mark in self.marks() if hash_of(mark.number) == mark.hash), None)
