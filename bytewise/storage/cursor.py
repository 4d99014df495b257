"""The blocks that a reader of chain events has finished, with their hashes.

With the hashes the reader notices a reorganisation, and goes back to the last block that the chain still has (design section 2).
"""

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Engine, delete, insert, select

from bytewise.protocol.errors.actors import StoreCorrupt
from bytewise.protocol.units import Digest
from bytewise.storage.engine import lock_name, read_transaction, write_transaction
from bytewise.storage.tables import CursorRow

KEPT_BLOCKS = 256
"""Most block hashes that are stored for each reader. They span several epochs of the chain, far more than the usual distance to
finality."""


class BlockMark(NamedTuple):
    """A block that the reader has finished."""

    number: int
    hash: Digest


class Cursor:
    """The stored progress of one reader of chain events. `name` identifies the reader."""

    def __init__(self, engine: Engine, name: str, keep: int = KEPT_BLOCKS) -> None:
        self._engine = engine
        self._name = name
        self._keep = keep

    def head(self) -> BlockMark | None:
        """Returns the newest finished block, or None if the reader has not finished any."""
        marks = self.marks(1)
        return marks[0] if marks else None

    def marks(self, limit: int = KEPT_BLOCKS) -> tuple[BlockMark, ...]:
        """Returns up to `limit` finished blocks, the newest first."""
        query = select(CursorRow.number, CursorRow.hash).where(CursorRow.name == self._name)
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query.order_by(CursorRow.number.desc()).limit(limit))
            return tuple(BlockMark(number, Digest(hash_)) for number, hash_ in rows)

    def advance(self, number: int, block_hash: Digest) -> BlockMark:
        """Stores a block as finished and returns it.

        Raises `StoreCorrupt` unless its number is above that of the newest finished block.
        """
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
        """Deletes every block above `number`. Returns the newest block that is left, or None."""
        with write_transaction(self._engine) as connection:
            lock_name(connection, f"cursor {self._name}")
            connection.execute(delete(CursorRow).where(CursorRow.name == self._name, CursorRow.number > number))
        return self.head()

    def common(self, hash_of: Callable[[int], Digest]) -> BlockMark | None:
        """Returns the newest finished block that the chain still has, or None.

        `hash_of` returns the hash that the chain has for a block number. This method writes nothing. The caller rewinds to the
        returned block: first the cursor, then the caller's own rows of later blocks. Because a crash may come between the two,
        the caller also deletes its rows of later blocks at every start.
        """
        return next((mark for mark in self.marks() if hash_of(mark.number) == mark.hash), None)
