"""Distribution of money at the end of a dispute. Each row of the table in design section 9 has its function (`Settlement.sol`).

The functions compute the parts of bond, slash and advance for each party. All amounts are rounded down, and the remainder is
burned. `tests.reference.payment` applies the result to accounts.
"""

import enum
from dataclasses import dataclass
from typing import NamedTuple

from bytewise.protocol.court.params import BPS, ParamSet
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import Address, Digest

MAX_REWARD_BPS = 8_000
"""Largest share of a slash, in 1/10,000, that goes to challenger and seats together. At least a fifth is always burned."""

CONVICTIONS = frozenset({Verdict.OVERTURNED, Verdict.INVALID, Verdict.UNAVAILABLE})
"""Verdicts against the operator."""


class SeatOutcome(enum.IntEnum):
    """Treatment of a seat at the end of its dispute, numbered as in `Types.sol`."""

    NONE = 0
    RIGHT = 1
    WORKED = 2
    NEUTRAL = 3
    ABSENT = 4
    NOT_REVEALED = 5
    WRONG = 6


PAID = frozenset({SeatOutcome.RIGHT, SeatOutcome.WORKED})
"""Outcomes of seats that are paid. In a DRAW the pay is zero."""


class SeatSettledEvent(NamedTuple):
    """Event: seats of one holder with one outcome were paid or charged together. Amounts are wei for all these seats."""

    dispute: Digest
    round: int
    voter: Address
    seat_mask: int
    standing: SeatOutcome
    pay: int
    penalty: int
    block: int


@dataclass(frozen=True, slots=True)
class Pot:
    """The money of a dispute when it ends, in wei."""

    bond: int
    """Bond that the challenger paid."""
    appeal_bond: int
    """Bond that the appellant paid, or 0."""
    advanced: int
    """Amount that the treasury advanced."""
    slashed: int
    """Amount slashed from the operator in this dispute."""
    seats: int
    """Number of seats to pay. After a verdict these are the seats that voted with it. After a refund these are the seats that
    worked. After a DRAW there are none."""
    appellant_won: bool
    """Whether the final verdict differs from the appealed one."""
    knew: bool
    """Whether the challenger showed that it had known the winning answer."""

    @property
    def total(self) -> int:
        """Sum of all amounts that were paid in."""
        return self.bond + self.appeal_bond + self.advanced + self.slashed

    @property
    def lost_appeal(self) -> int:
        """The appeal bond if it is lost, else 0."""
        return 0 if self.appellant_won else self.appeal_bond


@dataclass(frozen=True, slots=True)
class Split:
    """The distribution of a dispute's money, in wei. The parts and the burned remainder add up to `Pot.total`."""

    bond_back: int
    """Bond that the challenger gets back."""
    alpha: int
    """Reward of a challenger that knew the winning answer."""
    to_appellant: int
    """Appeal bond that the appellant gets back."""
    to_operator: int
    """The operator's share of a lost bond."""
    per_seat: int
    """Pay of each paid seat."""
    repaid: int
    """Amount that the treasury gets back."""


def wanted_advance(verdict: Verdict, pot: Pot, p: ParamSet) -> int:
    """Returns the wei that the treasury must add in a refund: the fees of the seats that worked, minus the amount that the
    treasury advanced before. Returns 0 if the verdict is not REFUNDED."""
    return max(0, pot.seats * p.money.fee_per_seat - pot.advanced) if verdict is Verdict.REFUNDED else 0


def split(verdict: Verdict, pot: Pot, p: ParamSet) -> Split:
    """Returns how the money of an ended dispute is distributed. Raises `MalformedValue` for a verdict that ends no dispute."""
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
    """Splits the money after UPHELD.

    The lost bond pays the seats first, then the treasury's advance, then the operator's share.
    """
    funds = pot.bond + pot.lost_appeal + pot.advanced
    per_seat = min(p.money.fee_per_seat, funds // pot.seats) if pot.seats else 0
    remaining = funds - per_seat * pot.seats
    repaid = min(pot.advanced, remaining)
    share = (remaining - repaid) * p.shares.operator_share_bps // BPS
    return Split(0, 0, pot.appeal_bond - pot.lost_appeal, share, per_seat, repaid)


def _convicted(verdict: Verdict, pot: Pot, p: ParamSet) -> Split:
    """Splits the money after a conviction. The challenger gets its bond back, and α if it knew the answer.

    The seats that were right get β and fees. These and α together take at most 80 % of the slash, plus a lost appeal bond. The
    treasury's advance pays fees that this does not cover, and the rest of the advance goes back to the treasury.
    """
    alpha = 0 if verdict is Verdict.UNAVAILABLE or not pot.knew else pot.slashed * p.shares.alpha_bps // BPS
    fees = pot.seats * p.money.fee_per_seat
    due = pot.slashed * p.shares.beta_bps // BPS + fees if pot.seats else 0
    pay = min(due, pot.slashed * MAX_REWARD_BPS // BPS - alpha + pot.lost_appeal)
    used = min(pot.advanced, max(0, fees - pay))
    per_seat = (pay + used) // pot.seats if pot.seats else 0
    return Split(pot.bond, alpha, pot.appeal_bond - pot.lost_appeal, 0, per_seat, pot.advanced - used)


def _without_verdict(pot: Pot, p: ParamSet) -> Split:
    """Splits the money after DRAW. No seat is paid, because stalling must not be profitable.

    The challenger gets its bond back, minus the fee of one seat, which is burned (ADR-032).
    """
    return Split(pot.bond - min(p.money.fee_per_seat, pot.bond), 0, pot.appeal_bond, 0, 0, pot.advanced)


def _refunded(pot: Pot, p: ParamSet) -> Split:
    """Splits the money after a refund. Challenger and appellant get their bonds back.

    The treasury pays the seats that worked, as far as its advance reaches.
    """
    per_seat = min(p.money.fee_per_seat, pot.advanced // pot.seats) if pot.seats else 0
    return Split(pot.bond, 0, pot.appeal_bond, 0, per_seat, pot.advanced - per_seat * pot.seats)
