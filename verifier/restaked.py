"""Stake that EigenLayer holds: our own is recorded in time, and what it refused to slash is taken once it may be (ADR 152).

A vault of the network's own needs neither, and then nothing is asked but once.
"""

from functools import partial
from typing import Protocol

from bytewise.ports import ChainView
from bytewise.protocol.actions_of_stake import RetrySlash, SyncStake
from bytewise.protocol.decide import MovePolicy, is_my_turn
from bytewise.protocol.decide_stake import StakeRecord, decide_sync, next_look
from bytewise.protocol.digests import keccak256
from bytewise.protocol.docket import Docket
from bytewise.protocol.units import Address, Digest
from verifier.refusals import Refusals
from verifier.tally import SETTLED_BLOCKS, Tally


class RestakedChain(ChainView, Protocol):
    """What this part reads beside."""

    def record_life(self, block: int) -> int | None:
        """Blocks for which a record of stake counts; None where a vault of the network's own holds the stake."""
        ...

    def stake_records(self, account: Address, from_block: int, to_block: int) -> tuple[tuple[int, int], ...]:
        """Block and wei of each record of an account in these blocks."""
        ...

    def recordable(self, account: Address, block: int) -> int:
        """Wei that a record of the account would show if it were made now."""
        ...

    def refused_slashes(self, from_block: int, to_block: int) -> tuple[tuple[Address, Digest], ...]:
        """Account and reference of each slash that EigenLayer refused in these blocks, once for each time."""
        ...

    def retry_refused(self, account: Address, ref: Digest, block: int) -> str | None:
        """Why a slash that EigenLayer refused would take nothing now either; None if it would."""
        ...


class RestakedStake:
    """Our own record, and slashes that are due. The chain is looked at now and then. A `node.Part`."""

    def __init__(self, chain: RestakedChain, first_block: int, me: Address, moves: MovePolicy) -> None:
        self._chain = chain
        self._records = Tally[tuple[int, int]](chain, partial(chain.stake_records, me), first_block)
        self._refused = Tally[tuple[Address, Digest]](chain, chain.refused_slashes, first_block)
        self._me = me
        self._moves = moves
        self._refusals = Refusals()
        self._next_look = 0

    def step(self, docket: Docket) -> tuple[SyncStake | RetrySlash, ...]:
        """What is due now. A pause stops neither: records grow old by blocks, and EigenLayer knows no pause of ours."""
        if docket.number < self._next_look:
            return ()
        life = self._chain.record_life(docket.number)
        if life is None:
            return ()
        found: list[SyncStake | RetrySlash] = [*self._record(docket, life), *self._retries(docket)]
        self._next_look = next_look(docket.number, life, SETTLED_BLOCKS)
        return tuple(found)

    def _record(self, docket: Docket, life: int) -> tuple[SyncStake, ...]:
        block, wei = (self._records.known(docket) or ((0, 0),))[-1]
        held = self._chain.recordable(self._me, docket.number)
        due = decide_sync(docket.number, self._me, StakeRecord(block, wei, held, life))
        return () if due is None else (due,)

    def _retries(self, docket: Docket) -> tuple[RetrySlash, ...]:
        """A few at each look, those that were asked about longest ago first; what is refused again is left alone for longer."""
        if not is_my_turn(docket, self._moves):
            return ()
        self._refusals.begin()
        due = {_name(*each): each for each in self._refused.known(docket)}
        return tuple(
            RetrySlash(*due[name], self._refused.times(due[name], docket))
            for name in self._refusals.in_turn(due)
            if not self._refusals.is_refused(name, partial(self._chain.retry_refused, *due[name], docket.number), docket)
        )


def _name(account: Address, ref: Digest) -> Digest:
    return Digest(keccak256(bytes.fromhex(account[2:]) + ref))
