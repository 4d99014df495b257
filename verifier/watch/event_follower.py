"""The progress of a reader that keeps events of the chain in memory: which blocks are new, and when to read all of them again."""

from bytewise.ports import BlockView
from bytewise.protocol.units import Digest
from bytewise.service import telemetry


class EventFollower:
    """Remembers the last block that one reader of events has read, with its hash. Nothing is stored: a start reads all again."""

    def __init__(self, chain: BlockView, first_block: int, reader: str) -> None:
        """`reader` names the reader in the log."""
        self._chain = chain
        self._first_block = first_block
        self._reader = reader
        self._last: tuple[int, Digest] | None = None

    @property
    def next_block(self) -> int:
        """The first block that was not read yet."""
        return self._first_block if self._last is None else self._last[0] + 1

    def is_reset(self) -> bool:
        """Whether a reorganisation replaced the last block that was read. The follower then begins again at its first block, and
        the caller forgets the events that it has read. Errors of the chain pass through."""
        if self._last is None or self._chain.block_hash(self._last[0]) == self._last[1]:
            return False
        telemetry.log("events.reread", reader=self._reader, from_block=self._first_block)
        self._last = None
        return True

    def mark_read(self, number: int, block_hash: Digest) -> None:
        """Marks all blocks up to this one as read. Read the hash before the events: if the chain reorganises in between, the next
        check finds another hash."""
        self._last = number, block_hash
