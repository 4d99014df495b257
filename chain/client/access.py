"""Interface of a chain for readers and senders, whether one node answers (`rpc`) or several must agree (`quorum`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from bytewise.protocol.units import Address, Digest
from chain.client.artifacts import Log, View
from chain.client.quorum import QuorumClient
from chain.client.rpc import DEFAULT_TIMEOUT_S, Block, ChainClient, Inclusion


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

    def codes(self, where: Sequence[Address], block: str | dict[str, Any] = "latest") -> list[bytes]:
        """Code at addresses, as of a block; empty where there is none."""
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
        """Whether the transaction need not be handed in again."""
        ...

    def broadcast(self, raw: bytes) -> None:
        """Hands in a signed transaction."""
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
