"""Follows the chain into the index: adds blocks, rolls back on a reorganisation, and stops if a finalized block is replaced.

One `step` does a bounded amount of work in one transaction, so that a process may be killed at any point and go on.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from bytewise.ports import Clock
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import Digest
from bytewise.service import metrics, telemetry
from bytewise.storage.index.store import Finality, IndexedBlock, IndexedEvent, IndexWriter
from dashboard.index import court, money, receipts, registry
from dashboard.index.fold import HANDLERS, Moment, plain, subject_of
from dashboard.index.source import ChainEvent, ChainHeader, EventSource

BLOCKS_PER_STEP = 2_000
"""Blocks of one transaction while the index is far behind. `eth_getLogs` of public nodes takes no more."""
NEW_BLOCKS_PER_STEP = 64
"""The same above the finalized block, where every header is read."""
HEADERS_PER_READ = 64

PARTS = (court, money, receipts, registry)
"""Modules whose handlers compute facts."""


class Progress(NamedTuple):
    """What one step did."""

    tip: int
    """Number of the newest indexed block."""
    head: int
    """Number of the chain's newest block."""
    events: int
    """Events that were added."""
    rolled_back: int
    """Blocks that were replaced; 0 without a reorganisation."""

    @property
    def is_done(self) -> bool:
        """Whether the index has the newest block."""
        return self.tip >= self.head


class Indexer:
    """The index of one network."""

    def __init__(
        self, source: EventSource, store: IndexWriter, deploy_block: int, clock: Clock, trees: Collection[str],
        checks_history: bool = False,
    ) -> None:  # fmt: skip
        """`trees`: stake trees that the address book names. With `checks_history`, logs of final blocks are compared with what
        the blocks commit to, too, which reads every header since the deployment."""
        self._source = source
        self._store = store
        self._first = deploy_block
        self._clock = clock
        self._book_trees = frozenset(trees)
        self._checks_history = checks_history

    def step(self) -> Progress:
        """Adds the next blocks; or rolls back those that the chain has no more. `Unavailable` if the node cannot tell."""
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
        """What the node says now. What was final stays final, also if the node gives no answer or names an earlier block."""
        finalized = self._number_of("finalized", head, self._store.finality().finalized)
        return Finality(self._number_of("safe", head, finalized), finalized)

    def _number_of(self, tag: str, head: ChainHeader, least: int) -> int:
        try:
            return max(least, min(self._source.head(tag).number, head.number))
        except Unavailable:
            # A young chain, or one without a beacon chain, has no such block. Or this one question failed.
            return least

    def _common(self, tip: IndexedBlock) -> int:
        """Number of the newest indexed block that the chain still has; one below the first if it has none of them."""
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
        """Adds a range of blocks: `every` block, or those with events and the last one."""
        events, trees = self._events(first, last)
        numbers = range(first, last + 1) if every else sorted({each.block for each in events} | {last})
        headers = self._headers(list(numbers))
        _check_chain(headers, events, tip if every else None)
        if every:
            self._source.check_logs(headers, events, trees)
        self._write(headers, events)
        return len(events)

    def _events(self, first: int, last: int) -> tuple[list[ChainEvent], frozenset[str]]:
        """Events of these blocks, and the stake trees that were asked."""
        trees = self._book_trees | self._store.trees()
        events = self._source.events(first, last, trees)
        added = {each.values["tree"] for each in events if (each.contract, each.name) == ("Registry", "PoolAdded")} - trees
        # A pool of these very blocks: its tree may have events in them, too, but none before the pool was added.
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
    """`TryAgain` unless events and blocks are of one chain: it may have been reorganised between two reads."""
    hashes: dict[int, Digest] = {each.number: each.hash for each in headers}
    if tip is not None:
        hashes[tip.number] = tip.hash
    broken = [each for each in headers if each.number - 1 in hashes and hashes[each.number - 1] != each.parent]
    foreign = [each for each in events if hashes.get(each.block) != each.block_hash]
    if broken or foreign:
        number = broken[0].number if broken else foreign[0].block
        raise TryAgain("chain", f"block {number} was reorganised while it was read")
