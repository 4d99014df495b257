"""Block headers in RLP, and reads of blocks and balances."""

import bisect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import rlp

from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, Blob, Digest, digest
from chain.client.access import SHORT_CHAIN_BLOCKS, Chain
from chain.client.rpc import Block, at_number, hex_bytes, quantity, reading_answer

# Block headers as the chain hashes them: the proof that `RandaoSource` takes (design section 13; ADR-029).

_QUANTITIES = frozenset(
    ("difficulty", "number", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas", "blobGasUsed", "excessBlobGas")
)
"""Header fields that are integers. RLP writes them without leading zeros, and all other fields unchanged."""

_FIELDS = (
    "parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom", "difficulty", "number",
    "gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "nonce",
)  # fmt: skip
"""Fields that every header has, in the order in which they are hashed."""

_LATER_FIELDS = (
    "baseFeePerGas", "withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot", "requestsHash",
    "blockAccessListHash",
)  # fmt: skip
"""Fields that upgrades appended, oldest first. An older header lacks the fields of later upgrades."""


def header_rlp(client: Chain, number: int) -> Blob:
    """Reads the header of block `number` in RLP, whose keccak256 is the block's hash.

    Raises `TryAgain` if the node has no such block, or if the fields do not hash to the block's hash. The reason is then a
    broken answer, or a header field of an upgrade that this version does not know.
    """
    raw = client.raw_block(number)
    if raw is None:
        raise TryAgain("chain", f"no block {number}")
    with reading_answer(f"header of block {number}"):
        return encode_header(raw)


def encode_header(raw: Mapping[str, Any]) -> Blob:
    """Encodes a block's header in RLP. Raises `MalformedValue` unless it hashes to the block's hash. Call it inside
    `reading_answer`."""
    header = Blob(rlp.encode(list(_items(raw))))
    if keccak256(header) != digest(hex_bytes(raw["hash"])):
        raise MalformedValue("header", "its fields do not hash to its hash")
    return header


def _items(raw: Mapping[str, Any]) -> Iterator[bytes]:
    for name in _FIELDS:
        yield _item(name, raw[name])
    for name in _LATER_FIELDS:
        if raw.get(name) is None:
            return
        yield _item(name, raw[name])


def _item(name: str, value: Any) -> bytes:
    if name not in _QUANTITIES:
        return hex_bytes(value)
    number = quantity(value)
    return number.to_bytes((number.bit_length() + 7) // 8)


def encode_receipt(raw: Mapping[str, Any]) -> Blob:
    """Encodes a transaction's receipt in the form that the block's receipt trie contains (EIP-2718). Call this function
    inside `reading_answer`."""
    logs = [[hex_bytes(each["address"]), [hex_bytes(t) for t in each["topics"]], hex_bytes(each["data"])] for each in raw["logs"]]
    status, gas = quantity(raw["status"]), quantity(raw["cumulativeGasUsed"])
    body = Blob(rlp.encode([status, gas, hex_bytes(raw["logsBloom"]), logs]))
    kind = quantity(raw.get("type", "0x0"))
    return Blob(bytes([kind]) + body) if kind else body


TAGS = ("latest", "safe", "finalized")
"""Tags that `BlockReader.head` may follow: the newest block, the newest justified block, or the newest finalized block (beacon
chain)."""


class BlockReader:
    """A reader of blocks and balances of one chain. `tag` selects the finality of `head`: latest, safe or finalized."""

    def __init__(self, client: Chain, tag: str = "latest") -> None:
        if tag not in TAGS:
            raise ConfigurationError("chain", f"no finality is called {tag}: there are {', '.join(TAGS)}")
        self.client = client
        self._tag = tag
        self._times: dict[int, int] = {}

    def head(self) -> int:
        """Reads the number of the newest block at the configured finality."""
        return self.client.head(self._tag).number

    def block(self, number: int) -> Block:
        """Reads the canonical block at a height."""
        return self.client.block(number)

    def block_hash(self, number: int) -> Digest:
        """Reads the hash of the canonical block at a height."""
        return self.client.block(number).hash

    def numbers_at(self, timestamp: int, block: int) -> Sequence[int]:
        """Finds the numbers of the blocks with this time, up to a block.

        There is at most one on Ethereum, more on chains with several blocks a second. It reads only headers, which every node
        has for all blocks.
        """
        if block <= SHORT_CHAIN_BLOCKS:
            return [number for number in range(block + 1) if self._time(number) == timestamp]
        return range(self._first_from(timestamp, block), self._first_from(timestamp + 1, block))

    def balance(self, account: Address, block: int) -> int:
        """Reads the balance of an account in wei, at a block. Money in contracts does not count."""
        return self.client.balance(account, at_number(block))

    def _first_from(self, timestamp: int, block: int) -> int:
        return bisect.bisect_left(range(block + 1), timestamp, key=self._time)

    def _time(self, number: int) -> int:
        # Keep the time: one run of a command repeats the search for many records.
        if number not in self._times:
            self._times[number] = self.client.block(number).timestamp
        return self._times[number]
