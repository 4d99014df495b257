"""Server-sent events: every event of the contracts as it is indexed, with resume, and `reorg` where blocks were replaced.

An event's id is `block.place.start of the block's hash`. A client that comes again with `Last-Event-ID` goes on after that event.
If its block was replaced, the stream says to which block the client has to go back, and sends what follows that block.

A client that asks for `reorg` alone, as pages do, learns only about the block of its last event: that it was replaced, or that it
is final.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import NamedTuple

from anyio import to_thread

from dashboard.views.records import EventLine
from dashboard.web.answers import DashboardSite
from dashboard.web.lists import event_place

POLL_S = 1.0
KEEP_ALIVE_S = 15.0
PER_READ = 100
REMEMBERED = 256
"""Most blocks whose hashes a stream remembers. If the chain replaced all of these, the stream goes back to the finalized
block."""

TYPES = {
    "BatchAnchored": "receipt.posted", "AuditPosted": "audit.finished", "DisputeOpened": "dispute.opened",
    "CommitOpened": "committee.drawn", "Committed": "vote.committed", "Revealed": "vote.cast", "Certified": "vote.certified",
    "Settled": "round.settled", "Decided": "verdict.decided", "Finalized": "verdict.final", "Slashed": "slash.executed",
    "ParamsSet": "params.changed", "Demanded": "demand.opened", "Answered": "demand.answered", "Expired": "demand.expired",
}  # fmt: skip
"""Names in the stream for events of the contracts. An event that is not in this mapping is named `chain.event`."""


class _StreamBatch(NamedTuple):
    reorg_to: int | None
    """Block to which the client has to go back; None without a reorganisation."""
    events: list[EventLine]
    is_final: bool = False
    """True if nothing for which the client waits can happen any more."""


class EventStream:
    """Stream of events for one client."""

    def __init__(self, site: DashboardSite, last_id: str | None, only_reorg: bool = False) -> None:
        self._site = site
        self._only_reorg = only_reorg
        self._marks: dict[int, str] = {}
        self._after: tuple[int, int] | None = None
        if last_id:
            block, place, start = event_place(last_id)
            self._after, self._marks[block] = (block, place), start

    def read(self) -> _StreamBatch:
        """Returns the events and replaced blocks since the last call. The call reads the index and blocks meanwhile, so it must
        run in a thread."""
        with self._site.scene() as scene:
            reorg_to = None
            if self._after is None:
                # A new client gets only events that come from now on.
                newest = scene.index.events(limit=1, descending=True)
                self._after = (newest[0].block, newest[0].place) if newest else (0, 0)
                if newest:
                    self._marks[newest[0].block] = newest[0].block_hash.hex()[:16]
            lost = [number for number, start in self._marks.items() if _start(scene.index.block_hash(number)) != start]
            if lost:
                self._marks = {number: start for number, start in self._marks.items() if number < min(lost)}
                reorg_to = max(self._marks, default=min(scene.state.finalized, min(lost) - 1))
                self._after = (reorg_to, 2**31)
            if self._only_reorg:
                return _StreamBatch(reorg_to, [], max(self._marks, default=0) <= scene.state.finalized)
            found = [scene.event(each) for each in scene.index.events(self._after, PER_READ)]
        for each in found:
            self._after = (each.block, each.place)
            self._marks[each.block] = each.block_hash[2:18]
        for number in sorted(self._marks)[:-REMEMBERED]:
            del self._marks[number]
        return _StreamBatch(reorg_to, found)


def _start(block_hash: bytes | None) -> str:
    return "" if block_hash is None else block_hash.hex()[:16]


async def frames(stream: EventStream) -> AsyncIterator[bytes]:
    """Asynchronous generator of the bytes of a stream. It ends when the client disconnects, or when nothing more can happen for
    which the client waits."""
    silent_s = 0.0
    yield b"retry: 3000\n\n"
    while True:
        batch = await to_thread.run_sync(stream.read)
        if batch.reorg_to is not None:
            yield _frame("reorg", None, json.dumps({"block": batch.reorg_to}))
        if batch.is_final:
            yield _frame("final", None, "{}")
            return
        for each in batch.events:
            yield _frame(TYPES.get(each.name, "chain.event"), each.id, each.model_dump_json())
        silent_s = 0.0 if batch.events or batch.reorg_to is not None else silent_s + POLL_S
        if silent_s >= KEEP_ALIVE_S:
            silent_s = 0.0
            yield b": keep-alive\n\n"
        if len(batch.events) < PER_READ:
            await asyncio.sleep(POLL_S)


def _frame(kind: str, event_id: str | None, data: str) -> bytes:
    name = f"id: {event_id}\n" if event_id else ""
    return f"{name}event: {kind}\ndata: {data}\n\n".encode()
