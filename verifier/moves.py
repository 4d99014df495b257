"""Moves that anybody may make, and collecting what is our own: they need a sender and nothing else."""

from typing import Protocol, assert_never

from bytewise.ports import Sender
from bytewise.protocol.decisions.actions import (
    CollectReport,
    DemandAnchor,
    DemandEnvelope,
    DemandList,
    DrawPart,
    Expire,
    ExpireList,
    Finalize,
    FinishUnbond,
    OpenAlt,
    PayOut,
    Rearm,
    ReleaseBatch,
    Settle,
    SettleSeats,
    Withdraw,
)
from bytewise.protocol.decisions.actions_of_stake import CollectSlash, RetrySlash, SyncStake
from bytewise.protocol.units import Address, Digest

Move = (
    DrawPart | Rearm | Settle | OpenAlt | Finalize | PayOut | SettleSeats | ReleaseBatch | ExpireList | Expire
    | Withdraw | FinishUnbond | CollectSlash | CollectReport | SyncStake | RetrySlash
)  # fmt: skip
"""What needs nothing but the sender."""


class MoveSender(Sender, Protocol):
    """What moves send beside: what nothing runs out for."""

    def collect_slash(self, slash_id: int) -> None:
        """Has the stake source pay what a slash took."""
        ...

    def sync_stake(self, account: Address, block: int) -> None:
        """Has the stake source record an account's stake, in the place of its record of that block."""
        ...

    def retry_slash(self, account: Address, ref: Digest, times: int) -> None:
        """Takes what EigenLayer refused so many times."""
        ...

    def collect(self, ref: Digest, times: int = 0) -> None:
        """Shares what a report slashed and what has arrived since; each of the `times` is an act of its own."""
        ...


def make_move(sender: MoveSender, action: Move) -> None:
    """Sends a move, once however often it is decided."""
    match action:
        case DrawPart():
            sender.draw(action.dispute, action.round, action.first, action.count)
        case Rearm():
            sender.rearm(action.dispute, action.round)
        case Settle():
            sender.settle(action.dispute, action.round)
        case OpenAlt():
            sender.open_alt(action.dispute, action.salt)
        case Finalize():
            sender.finalize(action.dispute)
        case PayOut():
            sender.pay_out(action.dispute)
        case SettleSeats():
            sender.settle_seats(action.dispute, action.round, action.first, action.count)
        case ReleaseBatch():
            sender.release(action.batch_id)
        case ExpireList():
            sender.expire_list(action.batch_id)
        case Expire():
            sender.expire(action.subject, action.times)
        case Withdraw():
            sender.withdraw(action.credit_wei)
        case FinishUnbond():
            sender.finish_unbond(action.due_wei)
        case CollectSlash():
            sender.collect_slash(action.slash_id)
        case CollectReport():
            sender.collect(action.ref, action.payments)
        case SyncStake():
            sender.sync_stake(action.account, action.block)
        case RetrySlash():
            sender.retry_slash(action.account, action.ref, action.times)
        case _:
            assert_never(action)


def told(action: Move) -> tuple[bytes, dict[str, object]]:
    """Subject and body of a move's journal entry."""
    match action:
        case OpenAlt() | Finalize() | PayOut():
            return action.dispute, {}
        case DrawPart() | SettleSeats():
            return action.dispute, {"round": action.round, "first": action.first, "count": action.count}
        case Rearm() | Settle():
            return action.dispute, {"round": action.round}
        case ReleaseBatch() | ExpireList():
            return b"", {"batch": str(action.batch_id)}
        case Expire():
            return action.subject, {"times": action.times}
        case Withdraw():
            return b"", {"credit_wei": str(action.credit_wei)}
        case FinishUnbond():
            return b"", {"due_wei": str(action.due_wei)}
        case CollectSlash():
            return b"", {"slash": str(action.slash_id)}
        case CollectReport():
            return action.ref, {"payments": action.payments}
        case SyncStake():
            return bytes.fromhex(action.account[2:]), {"block": str(action.block)}
        case RetrySlash():
            return action.ref, {"account": action.account, "times": action.times}


def told_of_demand(action: DemandList | DemandEnvelope | DemandAnchor) -> tuple[bytes, dict[str, object]]:
    """Subject and body of a demand's journal entry."""
    bond: dict[str, object] = {"bond_wei": str(action.bond_wei)}
    if isinstance(action, DemandList):
        return b"", {"batch": str(action.batch_id), **bond}
    return action.receipt_id, bond
