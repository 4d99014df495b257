"""Interface of a chain for readers and senders: one node (`rpc`), or several that must agree (`quorum`).

`ReadAheadClient` is a node whose reads are fetched many at a time.
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
"""On a chain no longer than this, all blocks are searched: it is a test chain, whose owner may have set its time back."""

# Batched reads of one node for a program that makes one read after another.

READS_PER_BATCH = 100
"""Reads in one round trip. Many nodes accept no more."""


class ReadAheadClient(ChainClient):
    """A node whose views and blocks must be fetched before they are read. Everything else is as in `ChainClient`."""

    def __init__(self, url: str, chain_id: int, timeout_s: float) -> None:
        super().__init__(url, chain_id, timeout_s)
        self._known: dict[str, Any] = {}

    def call(self, contract: str, at: Address, function: str, *arguments: Any, block: str | dict[str, Any]) -> Any:
        """Decoded result of a view. `MissingRead` before it was fetched."""
        # The key is not the encoded request: encoding the arguments costs more than the rest.
        name = f"{at}.{function}{arguments!r}@{block if isinstance(block, str) else json.dumps(block)}"
        return self._answer(name, lambda: view_read(name, View(contract, at, function, arguments), block))

    def block(self, number: int) -> Block:
        """The canonical block at a height. `MissingRead` before it was fetched."""
        found: Block = self._answer(at_number(number), lambda: block_read(number))
        return found

    def fetch(self, reads: Sequence[Read]) -> None:
        """Makes these reads. On a short chain it also reads neighbouring blocks, because a search looks at all of them."""
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
    """A chain. Blocks are named by `rpc.at_number`, `rpc.at_hash`, or a tag: latest, safe, finalized."""

    @property
    def chain_id(self) -> int:
        """EIP-155 chain id."""
        ...

    def head(self, tag: str = "latest") -> Block:
        """The newest block with this tag."""
        ...

    def block(self, number: int) -> Block:
        """The canonical block at a height."""
        ...

    def raw_block(self, number: int) -> Any:
        """The canonical block at a height as JSON-RPC gives it; None if there is none. `chain.client.blocks` checks its hash."""
        ...

    def call(self, contract: str, at: Address, function: str, *arguments: Any, block: str | dict[str, Any]) -> Any:
        """Decoded result of a view."""
        ...

    def views(self, views: Sequence[View], block: str | dict[str, Any]) -> list[Any]:
        """Decoded results of several views at one block, in one round trip."""
        ...

    def logs(self, contract: str, at: Address, events: Sequence[str], from_block: int, to_block: int) -> list[Log]:
        """Events by name in a closed range of blocks, in chain order."""
        ...

    def logs_of(self, contracts: Mapping[Address, str], from_block: int, to_block: int) -> list[Log]:
        """Known events of several contracts (address → name) in a closed range of blocks, in chain order."""
        ...

    def raw_blocks(self, numbers: Sequence[int]) -> list[Any]:
        """As `raw_block`, for several heights."""
        ...

    def codes(self, where: Sequence[Address], block: str | dict[str, Any] = "latest") -> list[bytes]:
        """Code at addresses, as of a block; empty where there is none."""
        ...

    def slot_proof(self, at: Address, slot: int, block: str | dict[str, Any]) -> SlotProof:
        """Trie nodes that prove a storage word. The reader checks them against the state root of the block."""
        ...

    def raw_receipts(self, number: int) -> Any:
        """Receipts of all transactions of the block at a height. The reader checks them against the root in its header."""
        ...

    def calldata(self, transaction: Digest) -> Calldata | None:
        """What a transaction called; None if nobody has it."""
        ...

    def balance(self, account: Address, block: str | dict[str, Any]) -> int:
        """Wei in the account."""
        ...

    def nonce(self, account: Address, block: str | dict[str, Any] = "latest") -> int:
        """Number of transactions of the account. With the tag pending it includes those that wait for a block."""
        ...

    def receipts(self, hashes: Sequence[Digest], seen: Block | None = None) -> list[Inclusion | None]:
        """Receipts of transactions, on a chain that has the block `seen`; None where there is none."""
        ...

    def estimate(self, request: Mapping[str, Any]) -> int:
        """Gas of a transaction on top of the newest block."""
        ...

    def replay(self, request: Mapping[str, Any], block: str | dict[str, Any], changed: Mapping[str, Any] | None = None) -> None:
        """Repeats a call on the state after a block, to get its revert. `changed` overrides state, by account."""
        ...

    def knows(self, transaction: Digest) -> bool:
        """Whether the nodes have the transaction, so that it need not be sent again."""
        ...

    def broadcast(self, raw: bytes) -> None:
        """Sends a signed transaction to the nodes."""
        ...


def open_chain(
    urls: Sequence[str], quorum: int, chain_id: int, timeout_s: float = DEFAULT_TIMEOUT_S,
    make: Callable[[str, int, float], ChainClient] = ChainClient,
) -> Chain:  # fmt: skip
    """The chain behind one endpoint, or behind several of which `quorum` must agree (`service.settings` checks the settings)."""
    clients = [make(url, chain_id, timeout_s) for url in urls]
    for place, each in enumerate(clients):
        each.name_place(place)
    return clients[0] if len(clients) == 1 else QuorumClient(clients, quorum)
