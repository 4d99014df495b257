"""Interface of a chain for readers and senders: one node (`rpc`), or several nodes that must agree (`quorum`).

`ReadAheadClient` is a client of one node that fetches many reads at a time.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from bytewise.ports import MissingRead
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.units import Address, Digest
from chain.client.artifacts import Log, View
from chain.client.quorum import QuorumClient
from chain.client.rpc import (
    DEFAULT_TIMEOUT_S,
    Block,
    Calldata,
    ChainClient,
    Inclusion,
    Read,
    SlotProof,
    at_number,
    block_read,
    view_read,
)

SHORT_CHAIN_BLOCKS = 2_000
"""A search by time looks at all blocks up to this height. A chain that is not longer is a test chain, and its owner may have set
its time back."""

# Batched reads of one node for a program that makes one read after another.

READS_PER_BATCH = 100
"""Largest number of reads in one round trip. Many nodes accept no more."""


class ReadAheadClient(ChainClient):
    """A client of one node. Its methods `call` and `block` return only what `fetch` has fetched. All other methods are those of
    `ChainClient`."""

    def __init__(self, url: str, chain_id: int, timeout_s: float) -> None:
        super().__init__(url, chain_id, timeout_s)
        self._known: dict[str, Any] = {}

    def call(self, contract: str, at: Address, function: str, *arguments: Any, block: str | dict[str, Any]) -> Any:
        """Returns the decoded result of a view that `fetch` has fetched. Raises `MissingRead` if `fetch` has not."""
        # The key is not the encoded request, because encoding the arguments takes longer than the rest of this method.
        name = f"{at}.{function}{arguments!r}@{block if isinstance(block, str) else json.dumps(block)}"
        return self._answer(name, lambda: view_read(name, View(contract, at, function, arguments), block))

    def block(self, number: int) -> Block:
        """Returns the canonical block at a height that `fetch` has fetched. Raises `MissingRead` if `fetch` has not."""
        found: Block = self._answer(at_number(number), lambda: block_read(number))
        return found

    def fetch(self, reads: Sequence[Read]) -> None:
        """Fetches these reads, and stores the result or the error of each. For a block below `SHORT_CHAIN_BLOCKS` it also fetches
        the neighbouring blocks, because a search on a short chain looks at all of them."""
        wanted = {each.name: each for read in reads for each in (read, *_neighbours(read)) if each.name not in self._known}
        todo, answers = list(wanted.values()), list[Any]()
        try:
            for start in range(0, len(todo), READS_PER_BATCH):
                answers += self.read_many(todo[start : start + READS_PER_BATCH])
        except Unavailable as error:
            # No further round trip: it would wait as long as the failed one.
            answers += [error] * (len(todo) - len(answers))
        self._known |= zip([each.name for each in todo], answers, strict=True)

    def _answer(self, name: str, read: Callable[[], Read]) -> Any:
        if name not in self._known:
            raise MissingRead(self, read())
        answer = self._known[name]
        if isinstance(answer, BytewiseError):
            raise answer
        return answer


def _neighbours(read: Read) -> list[Read]:
    if read.number is None or read.number >= SHORT_CHAIN_BLOCKS:
        return []
    first = read.number - read.number % READS_PER_BATCH
    return [block_read(number) for number in range(first, first + READS_PER_BATCH)]


class Chain(Protocol):
    """The interface to read from a chain and to send to it. A block is named by `rpc.at_number`, by `rpc.at_hash`, or by a tag:
    latest, safe, finalized."""

    @property
    def chain_id(self) -> int:
        """EIP-155 chain id."""
        ...

    def head(self, tag: str = "latest") -> Block:
        """Reads the newest block with this tag."""
        ...

    def block(self, number: int) -> Block:
        """Reads the canonical block at a height."""
        ...

    def raw_block(self, number: int) -> Any:
        """Reads the canonical block at a height, in the form of JSON-RPC. Returns None if there is none. `chain.client.blocks`
        checks its hash."""
        ...

    def call(self, contract: str, at: Address, function: str, *arguments: Any, block: str | dict[str, Any]) -> Any:
        """Calls a view at a block, and returns its decoded result."""
        ...

    def views(self, views: Sequence[View], block: str | dict[str, Any]) -> list[Any]:
        """Calls several views at one block in one round trip, and returns their decoded results."""
        ...

    def logs(self, contract: str, at: Address, events: Sequence[str], from_block: int, to_block: int) -> list[Log]:
        """Reads the named events of one contract in a closed range of blocks, in chain order."""
        ...

    def logs_of(self, contracts: Mapping[Address, str], from_block: int, to_block: int) -> list[Log]:
        """Reads the known events of several contracts (address → name) in a closed range of blocks, in chain order."""
        ...

    def raw_blocks(self, numbers: Sequence[int]) -> list[Any]:
        """Reads the canonical blocks at several heights, each as `raw_block` does."""
        ...

    def codes(self, where: Sequence[Address], block: str | dict[str, Any] = "latest") -> list[bytes]:
        """Reads the code at these addresses as of a block. An address without code has empty bytes."""
        ...

    def slot_proof(self, at: Address, slot: int, block: str | dict[str, Any]) -> SlotProof:
        """Reads trie nodes that prove a storage word. The caller checks them against the state root of the block."""
        ...

    def raw_receipts(self, number: int) -> Any:
        """Reads the receipts of all transactions of the block at a height. The caller checks them against the root in the
        block's header."""
        ...

    def calldata(self, transaction: Digest) -> Calldata | None:
        """Reads address and calldata of a transaction. Returns None if no node has it."""
        ...

    def balance(self, account: Address, block: str | dict[str, Any]) -> int:
        """Reads the balance of an account in wei."""
        ...

    def nonce(self, account: Address, block: str | dict[str, Any] = "latest") -> int:
        """Reads the number of transactions that an account has sent. With the tag pending it includes those that wait for a
        block."""
        ...

    def receipts(self, hashes: Sequence[Digest], seen: Block | None = None) -> list[Inclusion | None]:
        """Reads the receipts of transactions, on a chain that has the block `seen`. A transaction without receipt has None."""
        ...

    def estimate(self, request: Mapping[str, Any]) -> int:
        """Returns the gas that a transaction needs on top of the newest block."""
        ...

    def replay(self, request: Mapping[str, Any], block: str | dict[str, Any], changed: Mapping[str, Any] | None = None) -> None:
        """Repeats a call on the state after a block, to find out why it reverts. `changed` overrides parts of the state, by
        account."""
        ...

    def knows(self, transaction: Digest) -> bool:
        """Returns whether the nodes have the transaction, so that it need not be sent again."""
        ...

    def broadcast(self, raw: bytes) -> None:
        """Sends a signed transaction to the nodes."""
        ...


def open_chain(
    urls: Sequence[str], quorum: int, chain_id: int, timeout_s: float = DEFAULT_TIMEOUT_S,
    make: Callable[[str, int, float], ChainClient] = ChainClient,
) -> Chain:  # fmt: skip
    """Opens a chain through one endpoint, or through several of which `quorum` must agree (`service.settings` checks the
    settings)."""
    clients = [make(url, chain_id, timeout_s) for url in urls]
    for place, each in enumerate(clients):
        each.name_place(place)
    return clients[0] if len(clients) == 1 else QuorumClient(clients, quorum)
