"""Keeps stake records and late penalties in order, for networks whose stake is in EigenLayer (ADR-034).

`StakeRecorder` renews the record of this account's stake in time. `StaleWeights` corrects the weight of other verifiers whose
record is too old. `RefusedSlashes` retries slashes that EigenLayer refused. `DeferredPayments` collects slashed stake once
EigenLayer pays, and distributes it once the contract has it. The stake that a dispute slashed is distributed by the action
`PayOut`.

If the network keeps stake in its own vault, all four classes find nothing to do: stake there needs no record, and the vault pays
at once and refuses nothing. Now and then they ask the chain whether that has changed.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

from bytewise.ports import BlockView, SnapshotView
from bytewise.protocol.decisions.actions import CollectReport, CollectSlash, RefreshWeight, RetrySlash, SyncStake
from bytewise.protocol.decisions.disputes import MovePolicy, is_my_turn
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.decisions.stake import StakeRecord, decide_sync, next_look
from bytewise.protocol.digests import keccak256
from bytewise.protocol.units import Address, Digest
from verifier.refusals import Refusals
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
        """Returns the action for at most one verifier of this account's pool. Each node chooses the verifier by its own place in
        the pool. So the nodes do not all send the same transaction."""
        if snapshot.number < self._next_look or not is_my_turn(snapshot, self._moves):
            return ()
        if self._chain.record_life(snapshot.number) is None:
            return ()
        found = self._chain.stale_weights(snapshot.me.pool, snapshot.number)
        others = [RefreshWeight(account, epoch_start) for account, epoch_start in found if account != self._me]
        self._next_look = snapshot.number + SETTLED_BLOCKS
        return (others[snapshot.me.place % len(others)],) if others else ()


class RefusedSlashReader(BlockView, Protocol):
    """The part of the chain that `RefusedSlashes` reads."""

    def record_life(self, block: int) -> int | None:
        """Returns the number of blocks for which a record of stake counts. Returns None if the network's own vault has the
        stake."""
        ...

    def refused_slashes(self, from_block: int, to_block: int) -> tuple[tuple[Address, Digest], ...]:
        """Returns account and reference of each slash that EigenLayer refused in these blocks, once for each refusal."""
        ...

    def retry_refused(self, account: Address, ref: Digest, block: int) -> str | None:
        """Returns the reason why a retry of a refused slash would take no stake now. Returns None if it would take stake."""
        ...


class RefusedSlashes:
    """The part of a node that retries refused slashes, which it finds by their events.

    Before a retry it asks the chain whether the retry would take stake. Implements `node.NodePart`.
    """

    def __init__(self, chain: RefusedSlashReader, first_block: int, moves: MovePolicy) -> None:
        self._chain = chain
        self._refused = EventCounter[tuple[Address, Digest]](chain, chain.refused_slashes, first_block)
        self._moves = moves
        self._refusals = Refusals()
        self._next_look = 0

    def step(self, snapshot: Snapshot) -> tuple[RetrySlash, ...]:
        """Returns the retries that would take stake now. Each call asks the chain about a few slashes, beginning with those that
        waited longest. After each refusal, the next question about the slash waits longer."""
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
    """The part of the chain that `DeferredPayments` reads."""

    def deferred_payments(self, from_block: int, to_block: int) -> tuple[tuple[int, Digest], ...]:
        """Returns the payments that the stake source could not make at once in these blocks. Each payment is a slash id, and the
        reference of the report or dispute that gets the money."""
        ...

    def collect_refused(self, who: Address, slash_id: int, block: int) -> str | None:
        """Returns the reason why the stake source would refuse to pay out a slash if account `who` asked for it. Returns None if
        it would pay."""
        ...

    def sharing_refused(self, who: Address, ref: Digest, block: int) -> str | None:
        """Returns the reason why the contract would refuse to distribute the slash of a report if account `who` asked for it.
        Returns None if it would distribute the slash."""
        ...


class DeferredPayments:
    """The part of a node that collects payments which the stake source could not make at once, and distributes them. It finds
    them by their events, and asks the chain before each action whether it would accept the action. Implements `node.NodePart`."""

    def __init__(self, chain: DeferredPaymentReader, first_block: int, me: Address, moves: MovePolicy) -> None:
        self._chain = chain
        self._deferred = EventCounter[tuple[int, Digest]](chain, chain.deferred_payments, first_block)
        self._me = me
        self._moves = moves
        self._refusals = Refusals()
        self._next_look = 0

    def step(self, snapshot: Snapshot) -> tuple[CollectSlash | CollectReport, ...]:
        """Returns the actions that the chain would accept now. They have no deadline, so events are read only every
        `SETTLED_BLOCKS` blocks."""
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
        """Returns the possible actions by subject, each with the function that asks the chain whether it would refuse the
        action."""
        known, who, block = self._deferred.known(snapshot), self._me, snapshot.number
        fetch, share = self._chain.collect_refused, self._chain.sharing_refused
        due: dict[Digest, tuple[CollectSlash | CollectReport, Callable[[], str | None]]] = {
            Digest(slash.to_bytes(32, "big")): (CollectSlash(slash), partial(fetch, who, slash, block)) for slash, _ in known
        }
        # The number of payments makes each distribution a new transaction, because the outbox never repeats an earlier one.
        for ref, payments in Counter(ref for _, ref in known).items():
            due[ref] = CollectReport(ref, payments), partial(share, who, ref, block)
        return due
