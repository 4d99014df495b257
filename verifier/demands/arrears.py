"""Penalties of unanswered demands that found too little stake: the rest is taken once the operator has stake again."""

from functools import partial

from bytewise.ports import ChainView
from bytewise.protocol.decisions.actions import Expire
from bytewise.protocol.decisions.disputes import MovePolicy, is_my_turn
from bytewise.protocol.decisions.snapshot import Docket
from bytewise.protocol.errors import Fault, Unavailable
from bytewise.protocol.units import Address, Digest
from bytewise.service import telemetry
from verifier.demands.demand_index import DemandBook
from verifier.stake.refusals import Refusals
from verifier.watch.event_counter import Tally

PAID = "AlreadyPunished"
"""The chain's reason once a penalty was taken in full."""


class Arrears:
    """Demands that ended in vain, until their penalty is paid: asked of the chain now and then, and ended once more."""

    def __init__(self, chain: ChainView, book: DemandBook, first_block: int, me: Address, moves: MovePolicy) -> None:
        self._chain = chain
        self._book = book
        self._times = Tally(chain, chain.expired, first_block)
        self._me = me
        self._moves = moves
        self._refusals = Refusals()

    def step(self, docket: Docket) -> tuple[Expire, ...]:
        """What the chain would take now: ours, for a share is ours; in turns also others', whose maker may not want it taken."""
        self._refusals.begin()
        if docket.paused:
            return ()
        mine = is_my_turn(docket, self._moves)
        due = (subject for subject, each in self._book.unpaid.items() if each.by == self._me or mine)
        found = (self._end(subject, docket) for subject in self._refusals.in_turn(due))
        return tuple(each for each in found if each is not None)

    def _end(self, subject: Digest, docket: Docket) -> Expire | None:
        try:
            if self._refusals.is_refused(subject, partial(self._ask, subject, docket), docket):
                return None
            # Each time is an act of its own: the one before is in the outbox for good.
            return Expire(subject, self._times.times(subject, docket))
        except (Fault, Unavailable) as error:
            # One that cannot be counted now keeps back no other.
            telemetry.count("bytewise_arrears_failures_total", error=type(error).__name__)
            telemetry.log_error("arrears.not_tried", error, subject=subject)
            return None

    def _ask(self, subject: Digest, docket: Docket) -> str | None:
        why = self._chain.expiry_refused(self._me, subject, docket.number)
        if why is not None and PAID in why:
            self._book.note_paid(subject)
        return why
