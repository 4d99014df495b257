"""Reads the chain of one network over JSON-RPC. The classes implement the interfaces of `dashboard.index.source`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bytewise.protocol.address_book import Network, StakeSource
from bytewise.protocol.errors.actors import RpcRefused
from bytewise.protocol.units import Address, digest
from bytewise.service import telemetry
from chain.client.access import Chain
from chain.client.address_book import address_of
from chain.client.artifacts import CONTRACTS, View, legible
from chain.client.rpc import Block, at_hash, hex_bytes, quantity, reading_answer
from dashboard.block_logs import LogPlace, verify_block_logs
from dashboard.index.source import ChainEvent, ChainHeader

_TIMELOCKS = ("short_timelock", "long_timelock")
_KEPT_RAW = 256


class ChainEvents:
    """Reader of the events and blocks of one network; implements `dashboard.index.source.EventSource`."""

    def __init__(self, client: Chain, network: Network) -> None:
        self._client = client
        self._names = named_contracts(network)
        self._raw: dict[bytes, Mapping[str, Any]] = {}
        self._can_check = True

    def head(self, tag: str) -> ChainHeader:
        """Returns the newest block with a tag: latest, safe or finalized."""
        return _header(self._client.head(tag))

    def headers(self, numbers: Sequence[int]) -> list[ChainHeader | None]:
        """Returns the canonical blocks with these numbers, in the same order. An entry is None where the chain is shorter."""
        raws = self._client.raw_blocks(numbers)
        with reading_answer("eth_getBlockByNumber"):
            found = [None if raw is None else _raw_header(raw) for raw in raws]
        if len(self._raw) > _KEPT_RAW:
            self._raw = {}
        self._raw |= {each.hash: raw for each, raw in zip(found, raws, strict=True) if each is not None}
        return found

    def events(self, first: int, last: int, trees: Collection[str]) -> list[ChainEvent]:
        """Returns the events of the network's contracts and of the stake trees `trees`, from block `first` to block `last`."""
        names = self._watched(trees)
        logs = self._client.logs_of(names, first, last)
        return [
            ChainEvent(
                names[log.contract], log.contract, log.event, _legible(log.values), log.block, log.block_hash, log.place,
                log.transaction,
            )
            for log in logs
        ]  # fmt: skip

    def check_logs(self, blocks: Sequence[ChainHeader], events: Sequence[ChainEvent], trees: Collection[str]) -> None:
        """Compares events with the bloom filters and receipts roots of their blocks. If a node returns no block receipts, its
        events are accepted unchecked, and this is logged once."""
        watched = frozenset(self._watched(trees))
        for block in blocks:
            raw = self._raw.get(block.hash)
            if raw is None or not self._can_check:
                continue
            given = [LogPlace(each.place, each.address) for each in events if each.block == block.number]
            try:
                verify_block_logs(self._client, raw, watched, given)
            except RpcRefused as error:
                self._can_check = False
                telemetry.log_error("index.logs_unchecked", error, do="name a node that answers eth_getBlockReceipts")

    def _watched(self, trees: Collection[str]) -> dict[Address, str]:
        return self._names | {Address(tree): "StakeTree" for tree in trees}


class ChainState:
    """Reader of the contracts' views at one block; implements `dashboard.index.source.StateSource`."""

    def __init__(self, client: Chain, network: Network, block_hash: bytes) -> None:
        self._client = client
        self._network = network
        self._at = at_hash(digest(block_hash))

    def view(self, contract: str, function: str, *arguments: Any) -> Any:
        """Returns the result of a contract's view function."""
        return self._client.call(contract, address_of(self._network, contract), function, *arguments, block=self._at)

    def view_at(self, address: str, contract: str, function: str, *arguments: Any) -> Any:
        """Returns the result of a view function of the contract at `address`."""
        return self._client.call(contract, Address(address), function, *arguments, block=self._at)

    def views(self, calls: Sequence[tuple[str, str, tuple[Any, ...]]]) -> list[Any]:
        """Returns the results of several view calls, each as (contract, function, arguments), in one round trip."""
        asked = [View(contract, address_of(self._network, contract), function, given) for contract, function, given in calls]
        return self._client.views(asked, self._at) if asked else []


def named_contracts(network: Network) -> dict[Address, str]:
    """Returns the names of all contracts whose events are indexed, by address."""
    at_eigenlayer = network.stake is StakeSource.EIGENLAYER
    names = [name for name in CONTRACTS if name not in ("StakeTree", "TimelockController", "Lens", "Keeper")]
    found = {address_of(network, name): name for name in names}
    if at_eigenlayer:
        found[network.addresses.stake_vault] = "EigenLayerStake"
    found |= {getattr(network.addresses, name): "TimelockController" for name in _TIMELOCKS}
    return found | {pool.tree: "StakeTree" for pool in network.pools}


def _header(block: Block) -> ChainHeader:
    return ChainHeader(block.number, block.hash, block.parent, block.timestamp)


def _raw_header(raw: Mapping[str, Any]) -> ChainHeader:
    own, parent = (digest(hex_bytes(raw[name])) for name in ("hash", "parentHash"))
    return ChainHeader(quantity(raw["number"]), own, parent, quantity(raw["timestamp"]))


def _legible(value: Any) -> Any:
    """Returns the value with text that every database accepts: bytes that are not UTF-8 become `\\\\xff`."""
    if isinstance(value, str):
        return legible(value)
    if isinstance(value, Mapping):
        return {name: _legible(each) for name, each in value.items()}
    return tuple(map(_legible, value)) if isinstance(value, tuple) else value
