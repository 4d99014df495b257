"""An operator's own record of stake at EigenLayer, without which it cannot post (ADR 152)."""

from typing import Protocol

from bytewise.protocol.units import Address
from verifier.stake.stake_record import OwnRecord, RecordChain


class Recorder(Protocol):
    """The part of a sender that is used."""

    def sync_stake(self, account: Address, block: int) -> None:
        """Has the stake source record an account's stake, in the place of its record of that block."""
        ...


class OwnStake:
    """Looks at the own record now and then, and has it made anew in time."""

    def __init__(self, chain: RecordChain, sender: Recorder, first_block: int, operator: Address) -> None:
        self._chain = chain
        self._sender = sender
        self._operator = operator
        self._record = OwnRecord(chain, first_block, operator)

    def step(self) -> None:
        """What is due, once however often it is decided."""
        head = self._chain.head()
        if head < self._record.next_look:
            return
        for due in self._record.step(self._chain.docket(self._operator, head)):
            self._sender.sync_stake(due.account, due.block)
