"""Moves the money of an ended dispute: everybody but the seats at once, seats in steps (`Settlement.sol`).

A dispute's end costs the same whatever its committees were; anybody settles their seats afterwards. Stake here is native: what
is slashed is in the pot at once.
"""

from dataclasses import replace

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import CONVICTIONS, PAID, Pot, Split, split, wanted_advance
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import Digest
from tests.reference import checks
from tests.reference.accounting import Accounting
from tests.reference.seat_outcomes import paid_seats, penalty, standing
from tests.reference.state import Account, Court, Dispute


def end(court: Court, found: Dispute) -> Court:
    """Slash, split and pay, as the dispute's verdict says."""
    p, books, account = court.params_of(found), court.books, found.account
    verdict, operator = found.verdict, found.claim.operator
    seats = 0 if verdict is Verdict.DRAW else paid_seats(found)
    slashed = 0
    if verdict in CONVICTIONS:
        books, slashed = books.slash(found.id, operator, account.operator_locked, p.money.slash_amount)
    else:
        books = books.free(operator, account.operator_locked)
    won = found.appealed not in (Verdict.NONE, verdict)
    pot = Pot(account.bond, account.appeal_bond, account.advanced, slashed, seats, won, found.challenger.knew)
    books, more = books.advance(found.id, wanted_advance(verdict, pot, p))
    pot = replace(pot, advanced=pot.advanced + more)
    books, account = _paid(books, found, pot, split(verdict, pot, p))
    settled = replace(found, account=account, settled_seats=(0,) * len(found.rounds))
    return replace(court, books=books).put(settled)


def settle_seats(court: Court, dispute: Digest, round_number: int, count: int) -> Court:
    """Pay or charge up to `count` seats of a round from its first unsettled one; `NoProgress` if none is left."""
    found = checks.in_phase(court, dispute, Phase.FINAL)
    checks.new(0 < round_number <= len(found.rounds), f"round {round_number}", "no such round")
    one, first = found.rounds[round_number - 1], found.settled_seats[round_number - 1]
    # A draw that was given up seats nobody.
    holders = one.holders if one.drawn else ()
    seats = holders[first : first + count]
    checks.new(bool(seats), f"round {round_number}", "no seat is left to settle")
    books, account, money = court.books, found.account, court.params_of(found).money
    for holder in seats:
        of = standing(found, one, holder)
        if holder is not None and of in PAID:
            books = books.credit(dispute, holder, account.per_seat)
        elif holder is not None:
            books, taken = books.slash(dispute, holder, 0, penalty(of, money))
            books = books.burn(dispute, taken)
            account = replace(account, penalties=account.penalties + taken)
    settled = (*found.settled_seats[: round_number - 1], first + len(seats), *found.settled_seats[round_number:])
    return replace(court, books=books).put(replace(found, account=account, settled_seats=settled))


def _paid(books: Accounting, found: Dispute, pot: Pot, parts: Split) -> tuple[Accounting, Account]:
    """Everybody but the seats has its money; theirs stays in the pot, the rest is burned."""
    to_challenger = parts.bond_back + parts.alpha
    books = books.credit(found.id, found.challenger.account, to_challenger)
    if found.account.appellant is not None:
        books = books.credit(found.id, found.account.appellant, parts.to_appellant)
    books = books.credit(found.id, found.claim.operator, parts.to_operator).repay(found.id, parts.repaid)
    to_verifiers = parts.per_seat * pot.seats
    given = to_challenger + parts.to_appellant + parts.to_operator + to_verifiers + parts.repaid
    burned = pot.total - given
    account = replace(
        found.account, advanced=pot.advanced, slashed=pot.slashed, per_seat=parts.per_seat, to_challenger=to_challenger,
        to_appellant=parts.to_appellant, to_operator=parts.to_operator, to_verifiers=to_verifiers, repaid=parts.repaid,
        burned=burned, ended=True,
    )  # fmt: skip
    return books.burn(found.id, burned), account
