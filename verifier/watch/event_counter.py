"""Counts events of the chain by key. Each block is read once, however many parts ask."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from bytewise.ports import BlockView
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.units import Digest
from bytewise.service import telemetry

K = TypeVar("K", bound=Hashable)

SETTLED_BLOCKS = 64
"""Blocks behind the head after which counts are kept. Younger blocks are read again each time. A reorganisation that is deeper
starts the count anew."""
BLOCKS_PER_READ = 20_000
"""Blocks read before the progress is stored. If a first count fails, the next one continues from there."""


class EventCounter(Generic[K]):
    """Counts the keys that `read` returns for a closed range of blocks, from `first_block` on. It reads nothing until it is
    asked."""

    def __init__(self, chain: BlockView, read: Callable[[int, int], Iterable[K]], first_block: int) -> None:
        self._chain = chain
        self._read = read
        self._first_block = first_block
        self._counted: Counter[K] = Counter()
        self._last: tuple[int, Digest] | None = None
        """The last block whose events are counted for good."""
        self._recent: Counter[K] = Counter()
        self._as_of: Digest | None = None

    def times(self, key: K, snapshot: Snapshot) -> int:
        """How often the event happened up to the snapshot's block. Errors of the chain pass through."""
        self._follow(snapshot)
        return self._counted[key] + self._recent[key]

    def known(self, snapshot: Snapshot) -> tuple[K, ...]:
        """All keys with an event up to the snapshot's block, oldest first."""
        self._follow(snapshot)
        return tuple(dict.fromkeys((*self._counted, *self._recent)))

    def _follow(self, snapshot: Snapshot) -> None:
        if self._as_of == snapshot.block_hash:
            return
        if self._last is not None and self._chain.block_hash(self._last[0]) != self._last[1]:
            telemetry.log("events.reread", from_block=self._first_block)
            self._counted.clear()
            self._last = None
        start = self._first_block if self._last is None else self._last[0] + 1
        while start <= snapshot.number - SETTLED_BLOCKS:
            end = min(start + BLOCKS_PER_READ - 1, snapshot.number - SETTLED_BLOCKS)
            # Read the hash before the events: if the chain reorganises between the two reads, the next look finds another hash.
            last = end, self._chain.block_hash(end)
            self._counted.update(self._read(start, end))
            self._last, start = last, end + 1
        self._recent = Counter(self._read(start, snapshot.number) if start <= snapshot.number else ())
        self._as_of = snapshot.block_hash
