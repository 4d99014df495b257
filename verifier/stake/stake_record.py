"""Renews the record of an account's own stake at EigenLayer in time, and takes the weight of others whose record is too old
(ADR-030).

A vault of the network's own needs no record. The chain is then asked only now and then whether that has changed.
"""

from functools import partial
from typing import Protocol

from bytewise.ports import BlockView, SnapshotView
from bytewise.protocol.decisions.actions import RefreshWeight, SyncStake
from bytewise.protocol.decisions.disputes import MovePolicy, is_my_turn
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.decisions.stake import StakeRecord, decide_sync, next_look
from bytewise.protocol.units import Address, Digest
from verifier.watch.event_counter import SETTLED_BLOCKS, EventCounter


class StakeRecordReader(BlockView, SnapshotView, Protocol):
    """The part of the chain that is read here."""

    def record_life(self, block: int) -> int | None:
        """Blocks for which a record of stake counts; None if a vault of the network's own holds the stake."""
        ...

    def stake_records(self, account: Address, from_block: int, to_block: int) -> tuple[tuple[int, int], ...]:
        """Block and wei of each record of the account in these blocks."""
        ...

    def recordable(self, account: Address, block: int) -> int:
        """Wei that a record of the account would show if it were made now."""
        ...


class StakeRecorder:
    """Renews the record of own stake. It finds earlier records by their events. Implements `node.NodePart`."""

    def __init__(self, chain: StakeRecordReader, first_block: int, me: Address) -> None:
        self._chain = chain
        self._records = EventCounter[tuple[int, int]](chain, partial(chain.stake_records, me), first_block)
        self._me = me
        self.next_look = 0
        """Block before which nothing is read."""

    def step(self, snapshot: Snapshot) -> tuple[SyncStake, ...]:
        """The record that is due now. Records are renewed in a pause, too, because they age by blocks."""
        number = snapshot.number
        if number < self.next_look:
            return ()
        life = self._chain.record_life(number)
        due = None if life is None else decide_sync(number, self._me, self._record(snapshot, life))
        self.next_look = number + SETTLED_BLOCKS if life is None else next_look(number, life, SETTLED_BLOCKS)
        return () if due is None else (due,)

    def _record(self, snapshot: Snapshot, life: int) -> StakeRecord:
        block, wei = (self._records.known(snapshot) or ((0, 0),))[-1]
        return StakeRecord(block, wei, self._chain.recordable(self._me, snapshot.number), life)


class StaleWeightReader(Protocol):
    """The part of the chain that `StaleWeights` reads."""

    def record_life(self, block: int) -> int | None:
        """Blocks for which a record of stake counts; None if a vault of the network's own holds the stake."""
        ...

    def stale_weights(self, pool: Digest, block: int) -> tuple[tuple[Address, int], ...]:
        """Verifiers of a pool that weigh in the next stake epoch, too, although no stake of theirs counts any more. With each the
        first block of the running epoch."""
        ...


class StaleWeights:
    """Has the registry read the stake of verifiers again whose record is too old: the tree keeps their weight until then.
    Implements `node.NodePart`."""

    def __init__(self, chain: StaleWeightReader, me: Address, moves: MovePolicy) -> None:
        self._chain = chain
        self._me = me
        self._moves = moves
        self._next_look = 0

    def step(self, snapshot: Snapshot) -> tuple[RefreshWeight, ...]:
        """At most one verifier of the own pool at a look, another one for each place in the pool."""
        if snapshot.number < self._next_look or not is_my_turn(snapshot, self._moves):
            return ()
        if self._chain.record_life(snapshot.number) is None:
            return ()
        found = self._chain.stale_weights(snapshot.me.pool, snapshot.number)
        others = [RefreshWeight(account, epoch_start) for account, epoch_start in found if account != self._me]
        self._next_look = snapshot.number + SETTLED_BLOCKS
        return (others[snapshot.me.place % len(others)],) if others else ()
