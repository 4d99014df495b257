"""Performs what `protocol.decide_next` decides, where no secret and no bytes of others are needed; each act idempotently."""

from collections.abc import Callable, Sequence

from bytewise.protocol.actions import Rearm, Settle, Withdraw
from bytewise.protocol.actions_next import (
    Action,
    DrawPart,
    ExpireList,
    Finalize,
    FinishUnbond,
    OpenAlt,
    PayOut,
    ProveSeed,
    ReleaseBatch,
    SettleSeats,
)
from bytewise.protocol.units import Blob
from chain.next.reader import DocketReader
from chain.next.sending import ContractSender


class Mover:
    """Makes moves with one account's sender. `header_of` gives the header of a block (`chain.headers.header_rlp`)."""

    def __init__(self, sender: ContractSender, reader: DocketReader, header_of: Callable[[int], Blob]) -> None:
        self._sender = sender
        self._reader = reader
        self._header_of = header_of

    def perform(self, actions: Sequence[Action]) -> tuple[Action, ...]:
        """Plans every move among the actions; returns the others, which are the caller's to perform."""
        return tuple(action for action in actions if not self._moved(action))

    def _moved(self, action: Action) -> bool:
        sender = self._sender
        match action:
            case ProveSeed(block):
                sender.prove_seed(block, self._header_of(block))
            case DrawPart(dispute, round_number, first, count):
                sender.draw(dispute, round_number, first, count)
            case Rearm(dispute, round_number):
                sender.rearm(dispute, round_number)
            case Settle(dispute, round_number):
                sender.settle(dispute, round_number)
            case OpenAlt(dispute, challenger, salt):
                sender.open_alt(dispute, challenger, salt)
            case _:
                return self._paid(action)
        return True

    def _paid(self, action: Action) -> bool:
        sender = self._sender
        match action:
            case Finalize(dispute):
                sender.finalize(dispute)
            case PayOut(dispute):
                sender.pay_out(dispute)
            case SettleSeats(dispute, round_number, first, count):
                sender.settle_seats(dispute, round_number, first, count)
            case ReleaseBatch(batch_id):
                sender.release(batch_id)
            case ExpireList(batch_id):
                sender.expire(self._reader.list_subject(batch_id))
            case Withdraw(due):
                sender.withdraw(due)
            case FinishUnbond(due):
                sender.finish_unbond(due)
            case _:
                return False
        return True
