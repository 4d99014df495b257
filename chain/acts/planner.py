"""Acts of one account, each named by contract, function and subject, so that asking twice is one transaction."""

from typing import Any

from bytewise.protocol.units import Address
from bytewise.storage.outbox import OPEN, Intent, Item
from chain.client.artifacts import interface
from chain.sending.sender import TransactionSender


class Planner:
    """Plans acts of one account; `pump` (each tick) moves them on without waiting. `role` keeps two uses of a contract apart."""

    def __init__(self, transactions: TransactionSender, role: str) -> None:
        self.transactions = transactions
        self._role = role

    def pump(self) -> int:
        """One step for every open transaction; returns how many stay open. See `TransactionSender.pump`."""
        return self.transactions.pump()

    def find(self, contract: Address, function: str, subject: bytes) -> Item | None:
        """How far an act has come."""
        return self.transactions.outbox.find(contract, function, subject, self._role)

    def _plan(
        self,
        contract: str,
        at: Address,
        function: str,
        subject: bytes,
        arguments: tuple[Any, ...],
        value_wei: int = 0,
        deadline: int = 0,
        repeatable: bool = False,
        within_s: int = 0,
    ) -> Item:
        """`within_s` seconds of wall time, 0 for any: then what no node was given yet is dropped, unless it was planned again."""
        by = self.transactions.outbox.lane.clock.now() + within_s if within_s else 0
        calldata = interface(contract).call(function, *arguments)
        return self.transactions.plan(Intent(at, function, subject, self._role, calldata, value_wei, deadline, by), repeatable)

    def _plan_again(self, contract: str, at: Address, function: str) -> None:
        """Plans a call without arguments that may be made any number of times, unless one is on its way."""
        earlier = [item for item in self.transactions.outbox.all() if item.intent.function == function]
        if not any(item.state in OPEN for item in earlier):
            self._plan(contract, at, function, len(earlier).to_bytes(8, "big"), ())
