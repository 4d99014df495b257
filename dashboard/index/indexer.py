"""Copies the chain into the index: adds blocks, removes blocks that a reorganisation replaced, and stops if a final block was
replaced.

One `step` does a bounded amount of work in one transaction. So a process may be killed at any point, and the next process
continues there.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from bytewise.ports import Clock
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import Digest
from bytewise.service import metrics, telemetry
from bytewise.storage.index.store import Finality, IndexedBlock, IndexedEvent, IndexWriter
from dashboard.index import court, money, receipts, registry
from dashboard.index.fold import HANDLERS, ChainEvent, Moment, plain, subject_of

BLOCKS_PER_STEP = 2_000
"""Most blocks that one transaction adds up to the finalized block. Many public nodes refuse a larger range in `eth_getLogs`."""
NEW_BLOCKS_PER_STEP = 64
"""Most blocks that one transaction adds above the finalized block. There the indexer reads every header."""
HEADERS_PER_READ = 64

PARTS = (court, money, receipts, registry)
"""Modules with handlers. This module imports them so that they register their handlers."""


class ChainHeader(NamedTuple):
    """Header of a block, with the fields that the indexer needs."""

    number: int
    hash: Digest
    parent: Digest
    timestamp: int


class EventSource(Protocol):
    """Interface to the blocks and events of one network's chain."""

    def head(self, tag: str) -> ChainHeader:
        """Returns the newest block with a tag: latest, safe or finalized. Raises `Unavailable` if the node has no such block."""
        ...

    def headers(self, numbers: Sequence[int]) -> list[ChainHeader | None]:
        """Returns the canonical blocks with these numbers, in the same order. An entry is None where the chain is shorter."""
        ...

    def events(self, first: int, last: int, trees: Collection[str]) -> list[ChainEvent]:
        """Returns the events of the network's contracts and of the stake trees `trees`, from block `first` to block `last`
        inclusive, in chain order."""
        ...

    def check_logs(self, blocks: Sequence[ChainHeader], events: Sequence[ChainEvent], trees: Collection[str]) -> None:
        """Compares the events of whole blocks with the bloom filters and receipts roots of the blocks. Raises `Unavailable` with
        the block's number if a block has other logs."""
        ...


class Progress(NamedTuple):
    """Result of one step of the indexer."""

    tip: int
    """Number of the newest indexed block."""
    head: int
    """Number of the chain's newest block."""
    events: int
    """Number of events that were added."""
    rolled_back: int
    """Number of indexed blocks that were removed because the chain replaced them; 0 without a reorganisation."""

    @property
    def is_done(self) -> bool:
        """True if the index has the chain's newest block."""
        return self.tip >= self.head


class Indexer:
    """Writer of one network's index. Each step of it is bounded and brings the index closer to the chain."""

    def __init__(
        self, source: EventSource, store: IndexWriter, deploy_block: int, clock: Clock, trees: Collection[str],
        checks_history: bool = False,
    ) -> None:  # fmt: skip
        """`trees` are the stake trees that the address book names. With `checks_history`, the indexer compares the logs of final
        blocks, too, with the bloom filters and receipts roots of these blocks. This reads every header since the deployment."""
        self._source = source
        self._store = store
        self._first = deploy_block
        self._clock = clock
        self._book_trees = frozenset(trees)
        self._checks_history = checks_history

    def step(self) -> Progress:
        """Removes indexed blocks that the chain no longer has, then adds the next blocks. Raises `Unavailable` if the node
        cannot answer now, and `ConfigurationError` if a final block was replaced."""
        head = self._source.head("latest")
        finality = self._finality(head)
        tip = self._store.tip()
        replaced = 0
        if tip is not None:
            kept = self._common(tip)
            replaced = tip.number - kept
            if replaced:
                self._roll_back(kept, tip)
                tip = self._store.tip()
        first = self._first if tip is None else tip.number + 1
        added = self._extend(first, head, finality, tip) if first <= head.number else 0
        self._note(finality, head)
        newest = self._store.tip()
        return Progress(newest.number if newest else first - 1, head.number, added, replaced)

    def _finality(self, head: ChainHeader) -> Finality:
        """Returns the finality that the node reports now. A final block stays final, even if the node does not answer or names
        an earlier one."""
        finalized = self._number_of("finalized", head, self._store.finality().finalized)
        return Finality(self._number_of("safe", head, finalized), finalized)

    def _number_of(self, tag: str, head: ChainHeader, least: int) -> int:
        try:
            return max(least, min(self._source.head(tag).number, head.number))
        except Unavailable:
            # A young chain, or a chain without a beacon chain, has no such block. Or this one request failed.
            return least

    def _common(self, tip: IndexedBlock) -> int:
        """Returns the number of the newest indexed block that the chain still has. If the chain has no indexed block, returns
        the number before the deployment block."""
        below: int | None = None
        while True:
            known = self._store.blocks(1 if below is None else HEADERS_PER_READ, below)
            if not known:
                return self._first - 1
            found = self._source.headers([each.number for each in known])
            for mine, theirs in zip(known, found, strict=True):
                if theirs is not None and theirs.hash == mine.hash:
                    return mine.number
            below = known[-1].number

    def _roll_back(self, number: int, tip: IndexedBlock) -> None:
        finalized = min(self._store.finality().finalized, tip.number)
        if number < finalized:
            raise ConfigurationError(
                "chain",
                f"block {finalized} was final and is replaced: the node is on another chain, or the chain's finality broke. "
                "Compare the node with others; to follow this chain all the same, name an empty index database",
            )
        gone = self._store.rollback(number)
        metrics.REORG_DEPTH.observe(tip.number - number)
        telemetry.log("index.rolled_back", block=number, replaced_blocks=tip.number - number, removed_events=gone)

    def _extend(self, first: int, head: ChainHeader, finality: Finality, tip: IndexedBlock | None) -> int:
        settled = min(finality.finalized, head.number)
        if first <= settled and not self._checks_history:
            last = min(first + BLOCKS_PER_STEP - 1, settled)
            return self._add(first, last, tip, every=False)
        return self._add(first, min(first + NEW_BLOCKS_PER_STEP - 1, head.number), tip, every=True)

    def _add(self, first: int, last: int, tip: IndexedBlock | None, every: bool) -> int:
        """Adds a range of blocks and returns how many events they have. With `every`, it stores every block; otherwise only the
        blocks with events and the last block."""
        events, trees = self._events(first, last)
        numbers = range(first, last + 1) if every else sorted({each.block for each in events} | {last})
        headers = self._headers(list(numbers))
        _check_chain(headers, events, tip if every else None)
        if every:
            self._source.check_logs(headers, events, trees)
        self._write(headers, events)
        return len(events)

    def _events(self, first: int, last: int) -> tuple[list[ChainEvent], frozenset[str]]:
        """Returns the events of these blocks, and the stake trees that were watched."""
        trees = self._book_trees | self._store.trees()
        events = self._source.events(first, last, trees)
        added = {each.values["tree"] for each in events if (each.contract, each.name) == ("Registry", "PoolAdded")} - trees
        # A pool was added in these blocks. Its tree may have events here too, but none before the pool was added.
        return (self._source.events(first, last, trees | added), trees | added) if added else (events, trees)

    def _headers(self, numbers: Sequence[int]) -> list[ChainHeader]:
        found: list[ChainHeader] = []
        for start in range(0, len(numbers), HEADERS_PER_READ):
            for number, header in zip(
                numbers[start:], self._source.headers(numbers[start : start + HEADERS_PER_READ]), strict=False
            ):
                if header is None:
                    raise TryAgain("chain", f"the node has no block {number} that it had a moment ago")
                found.append(header)
        return found

    def _write(self, headers: Sequence[ChainHeader], events: Sequence[ChainEvent]) -> None:
        times = {each.number: each.timestamp for each in headers}
        with self._store.writing() as block:
            block.add([IndexedBlock(*each) for each in headers], [_stored(each) for each in events])
            for event in events:
                block.facts.block = event.block
                HANDLERS.apply(Moment(block.facts, event, times[event.block]))
        for event in events:
            _count(event)

    def _note(self, finality: Finality, head: ChainHeader) -> None:
        self._store.note(finality, head.number, self._clock.now())
        metrics.HEAD_BLOCK.set(head.number)


def _count(event: ChainEvent) -> None:
    if (event.contract, event.name) == ("Disputes", "Finalized"):
        metrics.VERDICTS.labels(verdict=Verdict(event.values["verdict"]).name.lower()).inc()
    elif event.name == "Slashed":
        metrics.SLASHED.inc(event.values["taken"])


def _stored(event: ChainEvent) -> IndexedEvent:
    return IndexedEvent(
        event.block, event.place, event.transaction, event.contract, event.address, event.name, subject_of(event),
        plain(event.values),
    )  # fmt: skip


def _check_chain(headers: Sequence[ChainHeader], events: Sequence[ChainEvent], tip: IndexedBlock | None) -> None:
    """Raises `TryAgain` unless events and blocks belong to one chain, because the chain may be reorganised between two reads."""
    hashes: dict[int, Digest] = {each.number: each.hash for each in headers}
    if tip is not None:
        hashes[tip.number] = tip.hash
    broken = [each for each in headers if each.number - 1 in hashes and hashes[each.number - 1] != each.parent]
    foreign = [each for each in events if hashes.get(each.block) != each.block_hash]
    if broken or foreign:
        number = broken[0].number if broken else foreign[0].block
        raise TryAgain("chain", f"block {number} was reorganised while it was read")
