"""What EigenLayer refused to slash is taken once it may be (ADR 152); a vault of the network's own refuses nothing."""

from functools import partial
from typing import Protocol

from bytewise.ports import ChainView
from bytewise.protocol.decisions.actions_of_stake import RetrySlash
from bytewise.protocol.decisions.disputes import MovePolicy, is_my_turn
from bytewise.protocol.decisions.snapshot import Docket
from bytewise.protocol.digests import keccak256
from bytewise.protocol.units import Address, Digest
from verifier.stake.refusals import Refusals
from verifier.watch.event_counter import SETTLED_BLOCKS, Tally


class SlashChain(ChainView, Protocol):
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
    """Slashes that were refused, by their events. The chain is asked now and then what it would take. A `node.Part`."""

    def __init__(self, chain: SlashChain, first_block: int, moves: MovePolicy) -> None:
        self._chain = chain
        self._refused = Tally[tuple[Address, Digest]](chain, chain.refused_slashes, first_block)
        self._moves = moves
        self._refusals = Refusals()
        self._next_look = 0

    def step(self, docket: Docket) -> tuple[RetrySlash, ...]:
        """A few at each look, those that were asked about longest ago first; what is refused again is left alone for longer."""
        if docket.number < self._next_look or not is_my_turn(docket, self._moves):
            return ()
        if self._chain.record_life(docket.number) is None:
            return ()
        self._refusals.begin()
        due = {_name(*each): each for each in self._refused.known(docket)}
        found = tuple(
            RetrySlash(*due[name], self._refused.times(due[name], docket))
            for name in self._refusals.in_turn(due)
            if not self._refusals.is_refused(name, partial(self._chain.retry_refused, *due[name], docket.number), docket)
        )
        self._next_look = docket.number + SETTLED_BLOCKS
        return found


def _name(account: Address, ref: Digest) -> Digest:
    return Digest(keccak256(bytes.fromhex(account[2:]) + ref))
