"""Reads the chain of one network over JSON-RPC: blocks, events, and views of the contracts at one block.

The classes implement the interfaces that the indexer and the self-check define (`EventSource`, `StateSource`). This module also
checks that a node returns all logs of a block.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from bytewise.protocol.address_book import Network, StakeSource
from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import RpcRefused, TryAgain
from bytewise.protocol.units import Address, digest, unhex
from bytewise.service import metrics, telemetry
from bytewise.service.clock import monotonic_s
from chain.capsule.trie import trie_of_list
from chain.client.access import Chain
from chain.client.address_book import address_of
from chain.client.artifacts import CONTRACTS, View, legible
from chain.client.blocks import encode_header, encode_receipt
from chain.client.rpc import Block, at_hash, hex_bytes, quantity, reading_answer
from dashboard.index.fold import ChainEvent
from dashboard.index.indexer import ChainHeader

_TIMELOCKS = ("short_timelock", "long_timelock")
_KEPT_RAW = 256
REFUSALS = 10
"""Refusals of block receipts in a row after which events are accepted unchecked. A rate limit ends earlier."""
UNCHECKED_S = 600.0
"""Seconds for which events are then accepted unchecked, before the node is asked for receipts again."""


class ChainEvents:
    """Reader of the events and blocks of one network; implements `dashboard.index.indexer.EventSource`."""

    def __init__(self, client: Chain, network: Network) -> None:
        self._client = client
        self._names = named_contracts(network)
        self._raw: dict[bytes, Mapping[str, Any]] = {}
        self._refusals, self._unchecked_until = 0, 0.0
        metrics.INDEX_LOGS_VERIFIED.set(1)

    @property
    def verifies_logs(self) -> bool:
        """Whether `check_logs` compares events with receipts now. False for `UNCHECKED_S` seconds after the node refused because
        it has no method for block receipts, or refused `REFUSALS` times in a row."""
        return monotonic_s() >= self._unchecked_until

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
        """Compares events with the bloom filters and receipts roots of their blocks. Raises `TryAgain` if a block has other
        logs, `BrokenAnswer` if a header or a receipt is malformed, and `RpcRefused` if the node refuses for now, for example
        because of a rate limit. While `verifies_logs` is False, this method accepts all events unchecked."""
        watched = frozenset(self._watched(trees))
        for block in blocks:
            raw = self._raw.get(block.hash)
            if raw is None or not self.verifies_logs:
                continue
            given = [LogPlace(each.place, each.address) for each in events if each.block == block.number]
            try:
                verify_block_logs(self._client, raw, watched, given)
            except RpcRefused as error:
                self._refusals += 1
                if not error.is_unknown_method and self._refusals < REFUSALS:
                    raise
                self._unchecked_until = monotonic_s() + UNCHECKED_S
                metrics.INDEX_LOGS_VERIFIED.set(0)
                telemetry.log_error("index.logs_unchecked", error, do="name a node that answers eth_getBlockReceipts")
        if self.verifies_logs:
            self._refusals = 0
            metrics.INDEX_LOGS_VERIFIED.set(1)

    def _watched(self, trees: Collection[str]) -> dict[Address, str]:
        return self._names | {Address(tree): "StakeTree" for tree in trees}


class ChainState:
    """Reader of the contracts' views at one block; implements `dashboard.index.self_check.StateSource`."""

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


# --- logs of a block ---

# `eth_getLogs` proves nothing: a node may leave logs out, invent some or return them twice. The hash of a header covers
# `logsBloom` and `receiptsRoot`. A log is invented if the bloom filter excludes its address. Where the filter admits an address,
# the block's receipts must hash to the root, and they give the exact list of logs. Source: Ethereum yellow paper, sections 4.3.1
# and 4.3.2 and appendix D.

_BLOOM_BITS = 2048


class LogPlace(NamedTuple):
    """Position and address of a log, as a node reports them."""

    place: int
    """Position of the log in its block."""
    address: Address


def verify_block_logs(client: Chain, raw: Mapping[str, Any], watched: Collection[Address], given: Sequence[LogPlace]) -> None:
    """Checks that `given` are exactly the logs that the `watched` addresses have in one block. Raises `TryAgain` with the
    difference if they are not, `BrokenAnswer` if the node's header does not hash to its hash or an answer is malformed, and
    `RpcRefused` if the node refuses to return block receipts.

    `raw` is the block as JSON-RPC returns it. The caller must know that the hash of this block is right.
    """
    number = quantity(raw["number"])
    with reading_answer(f"header of block {number}"):
        encode_header(raw)
        bloom = int.from_bytes(hex_bytes(raw["logsBloom"]), "big")
    possible = {each for each in watched if _admits(bloom, unhex(each))}
    invented = {each.address for each in given} - possible
    if invented:
        raise _other_logs(number, f"the node gave a log of {min(invented)}, which the block's bloom filter excludes")
    if not possible:
        return
    have = _logs_of(client, raw, watched)
    if have != sorted(given):
        raise _other_logs(number, f"the node gave {len(given)} logs of this network, and the block's receipts have {len(have)}")


def _logs_of(client: Chain, raw: Mapping[str, Any], watched: Collection[Address]) -> list[LogPlace]:
    number = quantity(raw["number"])
    receipts = client.raw_receipts(number)
    with reading_answer(f"receipts of block {number}"):
        root, _ = trie_of_list([encode_receipt(each) for each in receipts])
        if root != hex_bytes(raw["receiptsRoot"]):
            raise _other_logs(number, "the node's receipts do not hash to the root in the block's header")
        addresses = [Address(log["address"].lower()) for each in receipts for log in each["logs"]]
    return [LogPlace(place, address) for place, address in enumerate(addresses) if address in watched]


def _other_logs(number: int, what: str) -> TryAgain:
    return TryAgain("chain", f"logs of block {number} are wrong: {what}; if it stays so, name another node")


def _admits(bloom: int, value: bytes) -> bool:
    digest = keccak256(value)
    bits = (int.from_bytes(digest[place : place + 2], "big") % _BLOOM_BITS for place in (0, 2, 4))
    return all(bloom >> bit & 1 for bit in bits)
