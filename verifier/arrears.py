"""Penalties of unanswered demands that found too little stake: the rest is taken once the operator has stake again."""

from collections.abc import Mapping
from functools import partial

from bytewise.ports import ChainView
from bytewise.protocol.actions import Expire
from bytewise.protocol.decide import MovePolicy, is_my_turn
from bytewise.protocol.demands import DemandKind, DemandRecord, DemandState
from bytewise.protocol.docket import Docket
from bytewise.protocol.errors import Fault, Unavailable
from bytewise.protocol.units import Address, Digest
from bytewise.service import telemetry
from verifier.refusals import Refusals
from verifier.tally import Tally


class Arrears:
    """Demands that ended in vain, for as long as they are known: asked of the chain now and then, and ended once more."""

    def __init__(self, chain: ChainView, first_block: int, me: Address, moves: MovePolicy) -> None:
        self._chain = chain
        self._times = Tally(chain, chain.expired, first_block)
        self._me = me
        self._moves = moves
        self._refusals = Refusals()

    def step(self, docket: Docket, known: Mapping[Digest, DemandRecord]) -> tuple[Expire, ...]:
        """What the chain would take now: ours, for a share is ours; in turns also others', whose maker may not want it taken."""
        self._refusals.begin()
        if docket.paused:
            return ()
        mine = is_my_turn(docket, self._moves)
        due = (subject for subject, each in known.items() if _is_punished(each) and (each.by == self._me or mine))
        found = (self._end(subject, docket) for subject in self._refusals.in_turn(due))
        return tuple(each for each in found if each is not None)

    def _end(self, subject: Digest, docket: Docket) -> Expire | None:
        ask = partial(self._chain.expiry_refused, self._me, subject, docket.number)
        try:
            if self._refusals.is_refused(subject, ask, docket):
                return None
            # Each time is an act of its own: the one before is in the outbox for good.
            return Expire(subject, self._times.times(subject, docket))
        except (Fault, Unavailable) as error:
            # One that cannot be counted now keeps back no other.
            telemetry.count("bytewise_arrears_failures_total", error=type(error).__name__)
            telemetry.log_error("arrears.not_tried", error, subject=subject)
            return None


def _is_punished(demand: DemandRecord) -> bool:
    return demand.state is DemandState.EXPIRED and demand.kind is not DemandKind.ENVELOPE
