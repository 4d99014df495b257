"""Block headers as the chain hashes them: the proof that `RandaoSource` asks for (design section 13; docs/adr/082)."""

from collections.abc import Iterator, Mapping
from typing import Any

import rlp

from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors import MalformedValue, TryAgain
from bytewise.protocol.units import Blob, digest
from chain.client.access import Chain
from chain.client.rpc import hex_bytes, quantity, reading_answer

_QUANTITIES = frozenset(
    ("difficulty", "number", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas", "blobGasUsed", "excessBlobGas")
)
"""Fields that are integers; RLP writes those without leading zeros, and all others as they are."""

_FIELDS = (
    "parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom", "difficulty", "number",
    "gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "nonce",
)  # fmt: skip
"""What every header has, in the order of its hash."""

_LATER_FIELDS = (
    "baseFeePerGas", "withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot", "requestsHash",
    "blockAccessListHash",
)  # fmt: skip
"""What upgrades appended, oldest first: a header has those up to some point."""


def header_rlp(client: Chain, number: int) -> Blob:
    """The header of block `number`, whose keccak256 is the block's hash.

    `TryAgain` if the node has no such block, or if what it says does not hash to its hash: a broken answer, or a header with
    fields of an upgrade that this version does not know.
    """
    raw = client.raw_block(number)
    if raw is None:
        raise TryAgain("chain", f"no block {number}")
    with reading_answer(f"header of block {number}"):
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
