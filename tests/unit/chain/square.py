"""A network that three endpoints show, each of which a test can make a liar."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bytewise.protocol.address_book import Network
from bytewise.protocol.units import Digest
from chain.client.artifacts import View
from chain.client.quorum import QuorumClient
from chain.client.rpc import ChainClient, at_hash, at_number
from tests.anvil import CHAIN_ID, Anvil, running_anvil
from tests.devnet import deployed, signer, word
from tests.unit.chain.fronts import Change, Front, fronts, gone, lies, refuses

WORD = "0x" + "11" * 32
ACCOUNT = signer(1).address


class HandClock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Square:
    """A network that three endpoints show, and clients that want two of them to agree."""

    def __init__(self, anvil: Anvil, endpoints: list[Front]) -> None:
        self.anvil, self.endpoints, self.alone = anvil, endpoints, anvil.client
        self.network: Network = deployed(anvil)
        # The book begins with the block before the first of its transactions.
        block = anvil.rpc("eth_getBlockByNumber", hex(self.network.deploy_block + 1), False)
        self.transaction = Digest(bytes.fromhex(block["transactions"][0][2:]))
        anvil.automine(False)
        self.clock = HandClock()
        self.chain = self.client()

    def client(self, count: int = 3) -> QuorumClient:
        """A client that has not heard anything yet."""
        return QuorumClient([ChainClient(each.url, CHAIN_ID, 5.0) for each in self.endpoints[:count]], 2, self.clock)

    def honest_again(self) -> "Square":
        """Nobody lies, and nobody was heard yet."""
        for each in self.endpoints:
            each.change, each.refused = None, frozenset()
        self.clock = HandClock()
        self.chain = self.client()
        self.anvil.mine()
        return self

    def everything(self, chain: Any) -> list[object]:
        """One read of each kind at one block."""
        where, number = self.network.addresses, self.alone.head().number
        stake = View("StakeVault", where.stake_vault, "stakeAt", (ACCOUNT, 1))
        return [
            chain.block(number), chain.head(), chain.head("finalized").number,
            chain.call("Lens", where.lens, "money", block=at_number(number)),
            chain.call("Lens", where.lens, "money", block=at_hash(chain.block(number).hash)),
            chain.call("Lens", where.lens, "money", block="latest"),
            chain.logs("Registry", where.registry, ["VerifierJoined", "OperatorRegistered"], 0, number),
            chain.balance(ACCOUNT, at_number(number)), chain.nonce(ACCOUNT), chain.nonce(ACCOUNT, at_number(number - 1)),
            chain.views([View("Lens", where.lens, "money"), stake], at_number(number)),
            chain.receipts([self.transaction, word("none")]), chain.knows(self.transaction), chain.knows(word("none")),
        ]  # fmt: skip


@contextmanager
def standing() -> Iterator[Square]:
    """The network, with its endpoints."""
    with running_anvil() as anvil, fronts(anvil, 3) as endpoints:
        yield Square(anvil, endpoints)


def changed(**fields: Any) -> Any:
    return lambda result: result and result | fields


LIES: dict[str, Change] = {
    "another hash of every block": lies("eth_getBlockByNumber", changed(hash=WORD)),
    "another time of every block": lies("eth_getBlockByNumber", changed(timestamp="0x7")),
    "other results of views": lies("eth_call", lambda result: "0x" + "00" * 31 + "07" + (result or "")[66:]),
    "no events": lies("eth_getLogs", lambda result: []),
    "a balance": lies("eth_getBalance", lambda result: "0x7"),
    "a count of transactions": lies("eth_getTransactionCount", lambda result: "0x77"),
    "failures": lies("eth_getTransactionReceipt", changed(status="0x0")),
    "receipts in other blocks": lies("eth_getTransactionReceipt", changed(blockHash=WORD)),
    "no receipts": lies("eth_getTransactionReceipt", lambda result: None),
    "a head far ahead": lies("eth_getBlockByNumber", changed(number="0xffffff")),
    "nothing at all": gone,
    "refusals of views": refuses("eth_call"),
    "broken results of views": lies("eth_call", lambda result: None),
}
