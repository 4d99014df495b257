"""Renews the record of this account's stake at EigenLayer in time. It also removes the weight of other verifiers whose record is
too old (ADR-034).

Stake in the network's own vault needs no record. For such a network, the chain is only asked now and then whether the stake has
moved to EigenLayer.
"""

from functools import partial
from typing import Protocol

from bytewise.ports import BlockView, SnapshotView
from bytewise.protocol.decisions.actions import RefreshWeight, SyncStake
from bytewise.protocol.decisions.disputes import MovePolicy, is_my_turn
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.decisions.stake import StakeRecord, decide_sync, next_look
from bytewise.protocol.units import Address, Digest
from verifier.watch.chain_events import SETTLED_BLOCKS, EventCounter


class StakeRecordReader(BlockView, SnapshotView, Protocol):
    """The part of the chain that `StakeRecorder` reads."""

    def record_life(self, block: int) -> int | None:
        """Returns the number of blocks for which a record of stake counts. Returns None if the network's own vault has the
        stake."""
        ...

    def stake_records(self, account: Address, from_block: int, to_block: int) -> tuple[tuple[int, int], ...]:
        """Returns the block and the wei of each record of the account that was made in these blocks."""
        ...

    def recordable(self, account: Address, block: int) -> int:
        """Returns the wei that a record of the account would show if it were made now."""
        ...


class StakeRecorder:
    """The part of a node that renews the record of this account's stake. It finds earlier records by their events. Implements
    `node.NodePart`."""

    def __init__(self, chain: StakeRecordReader, first_block: int, me: Address) -> None:
        self._chain = chain
        self._records = EventCounter[tuple[int, int]](chain, partial(chain.stake_records, me), first_block)
        self._me = me
        self.next_look = 0
        """Block at which the chain is read next."""

    def step(self, snapshot: Snapshot) -> tuple[SyncStake, ...]:
        """Returns the action that renews the record, if that is due now. A record is renewed even while the network is paused,
        because its age is counted in blocks."""
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
        """Returns the number of blocks for which a record of stake counts. Returns None if the network's own vault has the
        stake."""
        ...

    def stale_weights(self, pool: Digest, block: int) -> tuple[tuple[Address, int], ...]:
        """Returns each verifier of a pool that still has weight in the next stake epoch although its stake record no longer
        counts. The number beside the verifier is the first block of the present stake epoch."""
        ...


class StaleWeights:
    """The part of a node that corrects the weight of other verifiers whose stake record is too old.

    It makes the registry read the stake of such a verifier again. Until then, the stake tree keeps the old weight. Implements
    `node.NodePart`.
    """

    def __init__(self, chain: StaleWeightReader, me: Address, moves: MovePolicy) -> None:
        self._chain = chain
        self._me = me
        self._moves = moves
        self._next_look = 0

    def step(self, snapshot: Snapshot) -> tuple[RefreshWeight, ...]:
        """Returns the action for at most one verifier of this account's pool. Each node takes a verifier by its own place in the
        pool, so that nodes do not all send the same transaction."""
        if snapshot.number < self._next_look or not is_my_turn(snapshot, self._moves):
            return ()
        if self._chain.record_life(snapshot.number) is None:
            return ()
        found = self._chain.stale_weights(snapshot.me.pool, snapshot.number)
        others = [RefreshWeight(account, epoch_start) for account, epoch_start in found if account != self._me]
        self._next_look = snapshot.number + SETTLED_BLOCKS
        return (others[snapshot.me.place % len(others)],) if others else ()
