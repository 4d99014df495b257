"""Slashed stake that arrives late: collected from EigenLayer once it pays, and distributed once it is in its pot (ADR-030).

`RefusedSlashes` retries what EigenLayer refused to slash. A vault of the network's own pays at once and refuses nothing, so
both find nothing there. `PayOut` distributes what a dispute slashed.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

from bytewise.ports import BlockView
from bytewise.protocol.decisions.actions import CollectReport, CollectSlash, RetrySlash
from bytewise.protocol.decisions.disputes import MovePolicy, is_my_turn
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.digests import keccak256
from bytewise.protocol.units import Address, Digest
from verifier.stake.refusals import Refusals
from verifier.watch.event_counter import SETTLED_BLOCKS, EventCounter


class RefusedSlashReader(BlockView, Protocol):
    """What this part reads beside."""

    def record_life(self, block: int) -> int | None:
        """None where a vault of the network's own holds the stake."""
        ...

    def refused_slashes(self, from_block: int, to_block: int) -> tuple[tuple[Address, Digest], ...]:
        """Account and reference of each slash that EigenLayer refused in these blocks, once for each time."""
        ...

    def retry_refused(self, account: Address, ref: Digest, block: int) -> str | None:
        """Why a slash that EigenLayer refused would take nothing now either; None if it would."""
        ...


class RefusedSlashes:
    """Slashes that were refused, by their events. The chain is asked now and then what it would take. A `node.NodePart`."""

    def __init__(self, chain: RefusedSlashReader, first_block: int, moves: MovePolicy) -> None:
        self._chain = chain
        self._refused = EventCounter[tuple[Address, Digest]](chain, chain.refused_slashes, first_block)
        self._moves = moves
        self._refusals = Refusals()
        self._next_look = 0

    def step(self, snapshot: Snapshot) -> tuple[RetrySlash, ...]:
        """A few at each look, those that were asked about longest ago first; what is refused again is left alone for longer."""
        if snapshot.number < self._next_look or not is_my_turn(snapshot, self._moves):
            return ()
        if self._chain.record_life(snapshot.number) is None:
            return ()
        self._refusals.begin()
        due = {_name(*each): each for each in self._refused.known(snapshot)}
        found = tuple(
            RetrySlash(*due[name], self._refused.times(due[name], snapshot))
            for name in self._refusals.in_turn(due)
            if not self._refusals.is_refused(name, partial(self._chain.retry_refused, *due[name], snapshot.number), snapshot)
        )
        self._next_look = snapshot.number + SETTLED_BLOCKS
        return found


def _name(account: Address, ref: Digest) -> Digest:
    return Digest(keccak256(bytes.fromhex(account[2:]) + ref))


class DeferredPaymentReader(BlockView, Protocol):
    """What this part reads beside."""

    def deferred_payments(self, from_block: int, to_block: int) -> tuple[tuple[int, Digest], ...]:
        """Payments that the stake source could not make at once in these blocks: slash id, and reference of the report or dispute
        that gets the money."""
        ...

    def collect_refused(self, who: Address, slash_id: int, block: int) -> str | None:
        """Why the stake source would not pay what a slash took, asked by `who`; None if it would."""
        ...

    def sharing_refused(self, who: Address, ref: Digest, block: int) -> str | None:
        """Why the chain would not share what a report slashed, asked by `who`; None if it would."""
        ...


class DeferredPayments:
    """Payments that were deferred, by their events. The chain is asked now and then what it would take. A `node.NodePart`."""

    def __init__(self, chain: DeferredPaymentReader, first_block: int, me: Address, moves: MovePolicy) -> None:
        self._chain = chain
        self._deferred = EventCounter[tuple[int, Digest]](chain, chain.deferred_payments, first_block)
        self._me = me
        self._moves = moves
        self._refusals = Refusals()
        self._next_look = 0

    def step(self, snapshot: Snapshot) -> tuple[CollectSlash | CollectReport, ...]:
        """What the chain would take now. Nothing runs out for it: events are looked for once in `SETTLED_BLOCKS` blocks."""
        if snapshot.paused or snapshot.number < self._next_look or not is_my_turn(snapshot, self._moves):
            return ()
        self._refusals.begin()
        due = self._due(snapshot)
        found = tuple(
            action
            for name in self._refusals.in_turn(due)
            for action, ask in (due[name],)
            if not self._refusals.is_refused(name, ask, snapshot)
        )
        self._next_look = snapshot.number + SETTLED_BLOCKS
        return found

    def _due(self, snapshot: Snapshot) -> dict[Digest, tuple[CollectSlash | CollectReport, Callable[[], str | None]]]:
        """What may be due, by name, and how the chain is asked about it."""
        known, who, block = self._deferred.known(snapshot), self._me, snapshot.number
        fetch, share = self._chain.collect_refused, self._chain.sharing_refused
        due: dict[Digest, tuple[CollectSlash | CollectReport, Callable[[], str | None]]] = {
            Digest(slash.to_bytes(32, "big")): (CollectSlash(slash), partial(fetch, who, slash, block)) for slash, _ in known
        }
        # A later payment to the same pot is shared by an act of its own: the one before is in the outbox for good.
        for ref, payments in Counter(ref for _, ref in known).items():
            due[ref] = CollectReport(ref, payments), partial(share, who, ref, block)
        return due
