"""Interfaces through which the indexer reads a chain: blocks, events, and the state of the contracts at one block."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from bytewise.protocol.units import Address, Digest


class ChainHeader(NamedTuple):
    """Header of a block, with the fields that the indexer needs."""

    number: int
    hash: Digest
    parent: Digest
    timestamp: int


class ChainEvent(NamedTuple):
    """One decoded event. Its texts contain only characters that a database accepts."""

    contract: str
    """Name of the contract, as in the contract artifacts. The stake contract at EigenLayer is `EigenLayerStake`."""
    address: Address
    name: str
    values: Mapping[str, Any]
    """Arguments by name: integers, bools, bytes, text, and lists and mappings of these."""
    block: int
    block_hash: Digest
    place: int
    """Position of the event in its block."""
    transaction: Digest


class EventSource(Protocol):
    """Interface to the blocks and events of one network's chain."""

    def head(self, tag: str) -> ChainHeader:
        """Returns the newest block with a tag: latest, safe or finalized. Raises `Unavailable` if the node has no such block."""
        ...

    def headers(self, numbers: Sequence[int]) -> list[ChainHeader | None]:
        """Returns the canonical blocks with these numbers, in the same order. An entry is None where the chain is shorter."""
        ...

    def events(self, first: int, last: int, trees: Collection[str]) -> list[ChainEvent]:
        """Returns the events of the network's contracts and of the stake trees `trees`, from block `first` to block `last`
        inclusive, in chain order."""
        ...

    def check_logs(self, blocks: Sequence[ChainHeader], events: Sequence[ChainEvent], trees: Collection[str]) -> None:
        """Compares the events of whole blocks with the bloom filters and receipts roots of the blocks. Raises `Unavailable` with
        the block if one has other logs."""
        ...


class StateSource(Protocol):
    """Interface to the contracts' views at one block, which the self-check reads. A struct is a mapping with the contract's own
    names."""

    def view(self, contract: str, function: str, *arguments: Any) -> Any:
        """Returns the result of a contract's view function."""
        ...

    def view_at(self, address: str, contract: str, function: str, *arguments: Any) -> Any:
        """Returns the result of a view function of the contract at `address`. It is for stake trees, because a network has
        several of them."""
        ...

    def views(self, calls: Sequence[tuple[str, str, tuple[Any, ...]]]) -> list[Any]:
        """Returns the results of several view calls, each as (contract, function, arguments), in one round trip."""
        ...
