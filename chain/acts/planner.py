"""Base classes that plan transactions: they find contract addresses, and convert deadlines of the protocol clock to Unix seconds
of chain time."""

from typing import Any

from bytewise.protocol.address_book import Network
from bytewise.protocol.units import Address, Digest
from bytewise.storage.outbox import OPEN, Intent, OutboxItem
from chain.client.address_book import address_of
from chain.client.artifacts import interface
from chain.client.rpc import at_hash
from chain.sending.sender import TransactionSender


class TransactionPlanner:
    """Plans transactions of one account. Contract, function, subject and role identify each transaction.

    `pump`, called each tick, moves every open transaction one step on without waiting. `role` names the use that this program
    makes of the account, so that two uses of one contract have different transactions.
    """

    def __init__(self, transactions: TransactionSender, role: str) -> None:
        self.transactions = transactions
        self._role = role

    def pump(self) -> int:
        """Takes one step for every open transaction and returns how many stay open. See `TransactionSender.pump`."""
        return self.transactions.pump()

    def find(self, contract: Address, function: str, subject: bytes) -> OutboxItem | None:
        """Returns the planned transaction of this contract, function and subject. Returns None if none was planned."""
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
    ) -> OutboxItem:
        """Plans a transaction that must be sent within `within_s` seconds of wall time. 0 means no limit.

        After that time the transaction is dropped, unless a node has it or the caller has planned it again. `deadline` is in Unix
        seconds of chain time, 0 for none. `TransactionSender.plan` explains `repeatable`.
        """
        by = self.transactions.outbox.lease.clock.now() + within_s if within_s else 0
        calldata = interface(contract).call(function, *arguments)
        return self.transactions.plan(Intent(at, function, subject, self._role, calldata, value_wei, deadline, by), repeatable)

    def _plan_again(self, contract: str, at: Address, function: str) -> None:
        """Plans a call without arguments, unless the same call is on its way. Such a call may be repeated any number of
        times."""
        earlier = [
            item for item in self.transactions.outbox.all() if (item.intent.contract, item.intent.function) == (at, function)
        ]
        if not any(item.state in OPEN for item in earlier):
            # The number of rows cannot be used: housekeeping deletes old ones.
            following = max((int.from_bytes(item.intent.subject) + 1 for item in earlier), default=0)
            self._plan(contract, at, function, following.to_bytes(8, "big"), ())


class NetworkPlanner(TransactionPlanner):
    """Plans transactions of one account on one network."""

    def __init__(self, transactions: TransactionSender, network: Network, role: str) -> None:
        super().__init__(transactions, role)
        self._network = network

    def _act(
        self,
        contract: str,
        function: str,
        subject: bytes,
        arguments: tuple[Any, ...],
        value_wei: int = 0,
        deadline: int = 0,
        repeatable: bool = False,
        within_s: int = 0,
    ) -> OutboxItem:
        """Plans a call of one of the network's contracts. `deadline` is a time of the protocol clock, or 0 for none. `_plan`
        explains `within_s`."""
        until = self._wall(deadline) if deadline else 0
        return self._plan(contract, self._at(contract), function, subject, arguments, value_wei, until, repeatable, within_s)

    def _again(self, contract: str, function: str) -> None:
        self._plan_again(contract, self._at(contract), function)

    def _view(self, dispute: Digest) -> dict[str, Any]:
        where = ("Lens", self._at("Lens"), "disputeView")
        view: dict[str, Any] = self.transactions.client.call(*where, dispute, block="latest")
        return view

    def _at(self, contract: str) -> Address:
        return address_of(self._network, contract)

    def _wall(self, deadline: int) -> int:
        """Returns the Unix seconds of chain time at which the protocol clock shows `deadline`, if no pause comes before.

        If a pause comes before, the protocol clock shows `deadline` later, and the transaction is dropped too early.
        """
        client = self.transactions.client
        head = client.head()
        clock: int = client.call("Guardian", self._at("Guardian"), "clock", block=at_hash(head.hash))
        return deadline + head.timestamp - clock
