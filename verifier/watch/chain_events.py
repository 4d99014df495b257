"""Readers that keep events of the chain in memory.

`EventFollower` is the progress of one reader. It knows which blocks are new, and which blocks must be read again. `EventCounter`
counts how often an event happened for each key. It reads blocks that are `SETTLED_BLOCKS` old only once, however many parts of
the node ask for the counts.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from bytewise.ports import BlockView
from bytewise.protocol.decisions.snapshot import Snapshot
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


K = TypeVar("K", bound=Hashable)

SETTLED_BLOCKS = 64
"""Number of newest blocks whose events are counted again each time. Counts of older blocks are kept, until a reorganisation that
is deeper starts the count anew."""
BLOCKS_PER_READ = 20_000
"""Blocks that are read before the progress is kept. If a first count fails, the next count continues from there."""


class EventCounter(Generic[K]):
    """A counter of events by key. `read` returns the keys of the events in a range of blocks, both ends included. Counting begins
    at `first_block`, and nothing is read before the first question."""

    def __init__(self, chain: BlockView, read: Callable[[int, int], Iterable[K]], first_block: int) -> None:
        self._chain = chain
        self._read = read
        self._settled = EventFollower(chain, first_block, "counter")
        """Progress of the count: the blocks before it are counted for good."""
        self._counted: Counter[K] = Counter()
        self._recent: Counter[K] = Counter()
        self._as_of: Digest | None = None

    def times(self, key: K, snapshot: Snapshot) -> int:
        """Returns how often the event with this key happened up to the snapshot's block. Errors of the chain pass through."""
        self._follow(snapshot)
        return self._counted[key] + self._recent[key]

    def known(self, snapshot: Snapshot) -> tuple[K, ...]:
        """Returns all keys with an event up to the snapshot's block, oldest first."""
        self._follow(snapshot)
        return tuple(dict.fromkeys((*self._counted, *self._recent)))

    def _follow(self, snapshot: Snapshot) -> None:
        if self._as_of == snapshot.block_hash:
            return
        if self._settled.is_reset():
            self._counted.clear()
        while (start := self._settled.next_block) <= snapshot.number - SETTLED_BLOCKS:
            end = min(start + BLOCKS_PER_READ - 1, snapshot.number - SETTLED_BLOCKS)
            block_hash = self._chain.block_hash(end)
            self._counted.update(self._read(start, end))
            self._settled.mark_read(end, block_hash)
        self._recent = Counter(self._read(start, snapshot.number) if start <= snapshot.number else ())
        self._as_of = snapshot.block_hash
