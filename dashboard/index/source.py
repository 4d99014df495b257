"""What the indexer needs of a chain: blocks, events, and the state of the contracts at a block."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from bytewise.protocol.units import Address, Digest


class ChainHeader(NamedTuple):
    """A block of the chain."""

    number: int
    hash: Digest
    parent: Digest
    timestamp: int


class ChainEvent(NamedTuple):
    """One decoded event. Texts have no byte that a database refuses."""

    contract: str
    """Name of the contract, as the artifacts name it. A contract at EigenLayer has its own name."""
    address: Address
    name: str
    values: Mapping[str, Any]
    """Arguments by name: integers, bools, bytes, text, and lists and mappings of these."""
    block: int
    block_hash: Digest
    place: int
    """Position in the block."""
    transaction: Digest


class EventSource(Protocol):
    """The chain of one network."""

    def head(self, tag: str) -> ChainHeader:
        """The newest block with a tag: latest, safe or finalized. `Unavailable` if the node has none."""
        ...

    def headers(self, numbers: Sequence[int]) -> list[ChainHeader | None]:
        """Canonical blocks at these heights, in order; None where the chain is shorter."""
        ...

    def events(self, first: int, last: int, trees: Collection[str]) -> list[ChainEvent]:
        """Events of the network's contracts, and of these stake trees, in a closed range of blocks; in chain order."""
        ...

    def check_logs(self, blocks: Sequence[ChainHeader], events: Sequence[ChainEvent], trees: Collection[str]) -> None:
        """Compares the events of whole blocks with the blocks' own commitments. `Unavailable` names a block with other logs."""
        ...


class StateSource(Protocol):
    """Views of the contracts at one block, for the self-check. Structs are mappings with the contracts' own names."""

    def view(self, contract: str, function: str, *arguments: Any) -> Any:
        """Result of a view."""
        ...

    def view_at(self, address: str, contract: str, function: str, *arguments: Any) -> Any:
        """Result of a view of a contract of which there are several: a stake tree."""
        ...

    def views(self, calls: Sequence[tuple[str, str, tuple[Any, ...]]]) -> list[Any]:
        """Results of several views (contract, function, arguments) in one round trip."""
        ...
