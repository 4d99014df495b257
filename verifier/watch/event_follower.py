"""The progress of a reader that keeps events of the chain in memory. It knows which blocks are new, and when blocks must be read
again."""

from bytewise.ports import BlockView
from bytewise.protocol.units import Digest
from bytewise.service import telemetry

MARKS = 64
"""Most blocks that are remembered to find the last common block after a reorganisation."""


class EventFollower:
    """A record of the last blocks that one reader of events has read, with their hashes. Nothing is stored, so a start reads all
    blocks again."""

    def __init__(self, chain: BlockView, first_block: int, reader: str) -> None:
        """`reader` names the reader in the log."""
        self._chain = chain
        self._first_block = first_block
        self._reader = reader
        self._marks: list[tuple[int, Digest]] = []

    @property
    def next_block(self) -> int:
        """The first block that was not read yet."""
        return self._marks[-1][0] + 1 if self._marks else self._first_block

    def is_reset(self) -> bool:
        """Returns whether a reorganisation replaced the last block that was read. If so, the follower begins again at its first
        block, and the caller must forget the events that it has read. Errors of the chain pass through."""
        if self._is_unmoved():
            return False
        self._marks.clear()
        telemetry.log("events.reread", reader=self._reader, from_block=self.next_block)
        return True

    def is_rewound(self) -> bool:
        """Returns whether a reorganisation replaced the last block that was read. If so, the follower goes on after the last
        remembered block that both branches have. The caller must check again what it knows from later blocks."""
        if self._is_unmoved():
            return False
        while not self._is_unmoved():
            self._marks.pop()
        telemetry.log("events.reread", reader=self._reader, from_block=self.next_block)
        return True

    def _is_unmoved(self) -> bool:
        return not self._marks or self._chain.block_hash(self._marks[-1][0]) == self._marks[-1][1]

    def mark_read(self, number: int, block_hash: Digest) -> None:
        """Marks all blocks up to this one as read. The caller reads the hash before the events: if the chain reorganises in
        between, the next check then finds another hash."""
        self._marks = [*self._marks[1 - MARKS :], (number, block_hash)]
