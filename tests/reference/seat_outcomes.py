"""What each seat is worth when its dispute is over, and what that costs it."""

from bytewise.protocol.court.params import Money
from bytewise.protocol.court.settlement import PAID, SeatOutcome
from bytewise.protocol.court.tally import WORKED
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest
from tests.reference.state import Dispute, Round, VoteRecord

WITHOUT_ANSWER = frozenset({Verdict.DRAW, Verdict.REFUNDED})
"""Ends in which nobody is right, and nobody is charged. A refund pays work; a draw pays nobody."""


def standing(found: Dispute, one: Round, holder: Address | None) -> SeatOutcome:
    """What the seats of a holder in one round are worth under the dispute's final verdict."""
    if holder is None or not one.drawn:
        return SeatOutcome.NONE
    word = one.words.get(holder, VoteRecord())
    if found.verdict in WITHOUT_ANSWER:
        return SeatOutcome.WORKED if word.said is not None and word.said.outcome in WORKED else SeatOutcome.NEUTRAL
    if word.said is None:
        # Under a root each seat may be bound, and have seen what others say.
        bound = word.commitment != ZERO_DIGEST or one.roots
        return SeatOutcome.NOT_REVEALED if bound else SeatOutcome.ABSENT
    if word.said.outcome is Outcome.CANNOT_EXECUTE:
        return SeatOutcome.ABSENT
    if word.said.outcome is Outcome.NO_KEY:
        return SeatOutcome.ABSENT if _opened_later(found, one) else SeatOutcome.NEUTRAL
    return SeatOutcome.RIGHT if word.said.group in _right_groups(found, one) else SeatOutcome.WRONG


def paid_seats(found: Dispute) -> int:
    """Seats of all rounds that the final verdict pays."""
    return sum(standing(found, one, holder) in PAID for one in found.rounds for holder in one.holders)


def penalty(of: SeatOutcome, money: Money) -> int:
    """Wei of one seat."""
    rates = {
        SeatOutcome.ABSENT: money.absent_penalty,
        SeatOutcome.NOT_REVEALED: money.no_reveal_penalty,
        SeatOutcome.WRONG: money.wrong_penalty,
    }
    return rates.get(of, 0)


def _opened_later(found: Dispute, one: Round) -> bool:
    """Whether a later committee had the key and decided by what it opened."""
    before = any(one is each for each in found.rounds[: max(0, found.decided_in - 1)])
    return before and found.verdict in (Verdict.UPHELD, Verdict.OVERTURNED, Verdict.INVALID)


def _right_groups(found: Dispute, one: Round) -> set[Digest]:
    """The largest group of the round that says what the verdict says: seats with another round digest did not do the work."""
    keys = {found.key, found.second_key} - {ZERO_DIGEST}
    return {one.count.largest[key] for key in keys if key in one.count.largest}
