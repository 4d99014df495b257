"""Counts how often an event of the chain happened for each key. Blocks that are `SETTLED_BLOCKS` old are read only once, however
many parts of the node ask for the counts."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from bytewise.ports import BlockView
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.units import Digest
from verifier.watch.event_follower import EventFollower

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
