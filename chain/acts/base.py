"""What all acts of `chain` share: addresses, and deadlines of the protocol clock as the sender counts them."""

from typing import Any

from bytewise.protocol.address_book import Network
from bytewise.protocol.units import Address, Digest
from bytewise.storage.outbox import Item
from chain.acts.planner import Planner
from chain.client.address_book import address_of
from chain.client.rpc import at_hash
from chain.sending.sender import TransactionSender


class Acts(Planner):
    """Acts of one account on one network."""

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
    ) -> Item:
        """Plans a call; `deadline` on the protocol clock, 0 for none; `within_s` as in `_plan`."""
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
        """Unix seconds at which the protocol clock shows `deadline` if no pause comes; one that does makes us give up early."""
        client = self.transactions.client
        head = client.head()
        clock: int = client.call("Guardian", self._at("Guardian"), "clock", block=at_hash(head.hash))
        return deadline + head.timestamp - clock
