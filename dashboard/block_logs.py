"""Checks that the logs that a node returns for a block are exactly those that the block's header commits to.

`eth_getLogs` proves nothing: a node may leave logs out, invent some or return them twice. The hash of a header covers
`logsBloom` and `receiptsRoot`. A log is invented if the bloom filter excludes its address. Where the filter admits an address,
the block's receipts must hash to the root, and they give the exact list of logs. Source: Ethereum yellow paper, sections 4.3.1
and 4.3.2 and appendix D.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.units import Address, unhex
from chain.capsule.trie import trie_of_list
from chain.client.access import Chain
from chain.client.blocks import encode_header, encode_receipt
from chain.client.rpc import hex_bytes, quantity, reading_answer

_BLOOM_BITS = 2048


class LogPlace(NamedTuple):
    """Position and address of a log, as a node reports them."""

    place: int
    """Position of the log in its block."""
    address: Address


def verify_block_logs(client: Chain, raw: Mapping[str, Any], watched: Collection[Address], given: Sequence[LogPlace]) -> None:
    """Checks that `given` are exactly the logs of the `watched` addresses in a block. Raises `TryAgain` with the difference if
    not.

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
