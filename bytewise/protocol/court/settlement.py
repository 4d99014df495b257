"""Money of a dispute's end, one function per row of the table of design section 9 (`Settlement.sol`).

Each is arithmetic on one dispute: who gets what of bond, slash and advance. Every amount is rounded down; what nobody gets is
burned. `tests.reference.payment` moves it.
"""

import enum
from dataclasses import dataclass

from bytewise.protocol.court.params import BPS, ParamSet
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Verdict

MAX_REWARD_BPS = 8_000
"""Of a slash, to challenger and seats together: the other fifth is burned, always."""

CONVICTIONS = frozenset({Verdict.OVERTURNED, Verdict.INVALID, Verdict.UNAVAILABLE})
"""Verdicts against the operator."""


class SeatOutcome(enum.IntEnum):
    """What a seat is worth when its dispute is over, numbered as in `Types.sol`."""

    NONE = 0
    RIGHT = 1
    WORKED = 2
    NEUTRAL = 3
    ABSENT = 4
    NOT_REVEALED = 5
    WRONG = 6


PAID = frozenset({SeatOutcome.RIGHT, SeatOutcome.WORKED})
"""Seats that get the pay of a seat, which is nothing in a draw."""


@dataclass(frozen=True, slots=True)
class Pot:
    """What a dispute has when it ends."""

    bond: int
    """Of the challenger."""
    appeal_bond: int
    """Of who appealed, else 0."""
    advanced: int
    """By the treasury."""
    slashed: int
    """Taken from the operator for this end."""
    seats: int
    """Right seats of all rounds; in a refund those that worked; in a draw none."""
    appellant_won: bool
    """Whether the verdict is another than the one that was appealed."""
    knew: bool
    """Whether the challenger showed that it knew the winning answer."""

    @property
    def total(self) -> int:
        """Everything that went in."""
        return self.bond + self.appeal_bond + self.advanced + self.slashed

    @property
    def lost_appeal(self) -> int:
        """The appeal bond, if it is lost."""
        return 0 if self.appellant_won else self.appeal_bond


@dataclass(frozen=True, slots=True)
class Split:
    """Where it goes; the parts are `Pot.total`."""

    bond_back: int
    """To the challenger: this and the next."""
    alpha: int
    """For having known."""
    to_appellant: int
    """The appeal bond, back."""
    to_operator: int
    """Its share of a lost bond."""
    per_seat: int
    """To each paid seat."""
    repaid: int
    """To the treasury."""


def wanted_advance(verdict: Verdict, pot: Pot, p: ParamSet) -> int:
    """What a refund asks of the treasury beyond what it gave: fees of seats that worked."""
    return max(0, pot.seats * p.money.fee_per_seat - pot.advanced) if verdict is Verdict.REFUNDED else 0


def split(verdict: Verdict, pot: Pot, p: ParamSet) -> Split:
    """Where the money of an ended dispute goes; `MalformedValue` for a verdict that ends none."""
    if verdict is Verdict.UPHELD:
        return _upheld(pot, p)
    if verdict in CONVICTIONS:
        return _convicted(verdict, pot, p)
    if verdict is Verdict.DRAW:
        return _without_verdict(pot, p)
    if verdict is Verdict.REFUNDED:
        return _refunded(pot, p)
    raise MalformedValue("verdict", verdict.name)


def _upheld(pot: Pot, p: ParamSet) -> Split:
    """Fees from the lost bond, then the treasury its advance, then the operator its share."""
    funds = pot.bond + pot.lost_appeal + pot.advanced
    per_seat = min(p.money.fee_per_seat, funds // pot.seats) if pot.seats else 0
    remaining = funds - per_seat * pot.seats
    repaid = min(pot.advanced, remaining)
    share = (remaining - repaid) * p.shares.operator_share_bps // BPS
    return Split(0, 0, pot.appeal_bond - pot.lost_appeal, share, per_seat, repaid)


def _convicted(verdict: Verdict, pot: Pot, p: ParamSet) -> Split:
    """The bond back; α to who knew, β and fees to the right seats, at most 80 % of the slash together; then the advance."""
    alpha = 0 if verdict is Verdict.UNAVAILABLE or not pot.knew else pot.slashed * p.shares.alpha_bps // BPS
    fees = pot.seats * p.money.fee_per_seat
    due = pot.slashed * p.shares.beta_bps // BPS + fees if pot.seats else 0
    pay = min(due, pot.slashed * MAX_REWARD_BPS // BPS - alpha + pot.lost_appeal)
    used = min(pot.advanced, max(0, fees - pay))
    per_seat = (pay + used) // pot.seats if pot.seats else 0
    return Split(pot.bond, alpha, pot.appeal_bond - pot.lost_appeal, 0, per_seat, pot.advanced - used)


def _without_verdict(pot: Pot, p: ParamSet) -> Split:
    """Nobody is paid, or stalling would be: the bond comes back less the fee of one seat, which is burned (ADR-028)."""
    return Split(pot.bond - min(p.money.fee_per_seat, pot.bond), 0, pot.appeal_bond, 0, 0, pot.advanced)


def _refunded(pot: Pot, p: ParamSet) -> Split:
    """Everybody its own; who worked is paid by the treasury as far as it reached."""
    per_seat = min(p.money.fee_per_seat, pot.advanced // pot.seats) if pot.seats else 0
    return Split(pot.bond, 0, pot.appeal_bond, 0, per_seat, pot.advanced - per_seat * pot.seats)
