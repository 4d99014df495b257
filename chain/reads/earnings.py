"""Earnings and losses of an account in a network, by reason, from the events of the ledger.

A bond is listed when it is paid and again when it comes back, so a returned bond does not change the net amount.
"""

import enum
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from bytewise.protocol.digests import keccak256_abi
from bytewise.protocol.units import Address
from chain.client.rpc import reading_answer
from chain.reads.history import CourtHistory, LedgerEvent


class TakenFrom(enum.IntEnum):
    """Reasons why an account paid into a pot, with the numbers of `ILedger.Source`. A seat's penalty has SLASH, too."""

    NONE = 0
    BOND = 1
    APPEAL_BOND = 2
    DEMAND_BOND = 3
    SLASH = 4
    PENALTY = 5
    ADVANCE = 6
    FEE = 7


class CreditReason(enum.IntEnum):
    """Reasons why an account was credited, with the numbers of `ILedger.Reason`."""

    NONE = 0
    BOND_BACK = 1
    CHALLENGER_SHARE = 2
    SEAT_PAY = 3
    OPERATOR_SHARE = 4
    REPORT = 5
    DEMAND_ANSWERED = 6
    BOUNTY = 7


class Earnings(NamedTuple):
    """Amounts of one account in wei, summed by reason in lower case."""

    credited: dict[str, int]
    """Amounts that the ledger credited, withdrawn or not."""
    paid: dict[str, int]
    """Amounts that the account paid: bonds, fees, slashes, and `seat_penalty` for seats that voted wrong or not at all."""

    @property
    def net_wei(self) -> int:
        """All credits minus all payments."""
        return sum(self.credited.values()) - sum(self.paid.values())


def earnings(history: CourtHistory, account: Address, from_block: int, to_block: int) -> Earnings:
    """Sums up the credits and payments of an account over a closed range of blocks.

    The range must begin at the network's deployment. A seat's penalty is recognised by the bond of its dispute, which an earlier
    block may have.

    The fee of a batch counts as paid by its operator. A seat's penalty that EigenLayer refused at first and paid later counts as
    a slash, because the ledger's event then does not name the dispute.
    """
    operators = list(reversed(history.batch_operators(from_block, to_block)))
    movements = history.movements(from_block, to_block)
    pots = penalty_pots(movements)
    credited: Counter[str] = Counter()
    paid: Counter[str] = Counter()
    for each in movements:
        values = each.values
        with reading_answer(each.event):
            if each.event == "Taken":
                payer = operators.pop() if values["from"] == history.fee_market else values["from"]
                if payer == account:
                    reason = "seat_penalty" if values["ref"] in pots else TakenFrom(values["source"]).name.lower()
                    paid[reason] += values["amount"]
            elif each.event == "Credited" and values["account"] == account:
                credited[CreditReason(values["reason"]).name.lower()] += values["amount"]
            elif each.event == "CreditedEach" and account in values["accounts"]:
                times = list(values["accounts"]).count(account)
                credited[CreditReason(values["reason"]).name.lower()] += times * values["amount"]
    return Earnings(dict(credited), dict(paid))


def penalty_pots(movements: Sequence[LedgerEvent]) -> frozenset[bytes]:
    """Returns the ids of the pots that collect the penalties of seats, one for each dispute whose bond was taken in one of these
    movements of the ledger. `ISettlement.penaltyPot` returns the same id for the dispute."""
    disputes = [each.values["ref"] for each in movements if each.values.get("source") == TakenFrom.BOND]
    return frozenset(keccak256_abi(("string", "bytes32"), ("penalties", each)) for each in disputes)
