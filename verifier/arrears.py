"""Penalties of unanswered demands that found too little stake: the rest is taken once the operator has stake again."""

from collections.abc import Iterator, Mapping
from functools import partial

from bytewise.ports import ChainView
from bytewise.protocol.actions import Expire
from bytewise.protocol.decide import MovePolicy, is_my_turn
from bytewise.protocol.demands import DemandKind, DemandRecord, DemandState
from bytewise.protocol.docket import Docket
from bytewise.protocol.units import Address, Digest
from verifier.refusals import Refusals


class Arrears:
    """Demands that ended in vain, for as long as they are known: asked of the chain now and then, and ended once more."""

    def __init__(self, chain: ChainView, first_block: int, me: Address, moves: MovePolicy) -> None:
        self._chain = chain
        self._first_block = first_block
        self._me = me
        self._moves = moves
        self._refusals = Refusals()

    def step(self, docket: Docket, known: Mapping[Digest, DemandRecord]) -> Iterator[Expire]:
        """What the chain would take now: ours, for a share is ours; in turns also others', whose maker may not want it taken."""
        self._refusals.begin()
        mine = is_my_turn(docket, self._moves)
        for subject, each in known.items():
            punished = each.state is DemandState.EXPIRED and each.kind is not DemandKind.ENVELOPE
            if docket.paused or not punished or not (each.by == self._me or mine):
                continue
            ask = partial(self._chain.expiry_refused, self._me, subject, docket.number)
            if not self._refusals.is_refused(subject, ask, docket):
                # Each time is an act of its own: the one before is in the outbox for good.
                yield Expire(subject, self._chain.times_ended(subject, self._first_block, docket.number))
