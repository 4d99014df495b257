"""Headers of execution blocks: the fields that a capsule reads from their RLP."""

from typing import NamedTuple

from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, Digest, digest
from chain.capsule.trie import BrokenProof, decode_list, to_integer

HISTORY = Address("0x0000f90827f1c53a10cb7a02335b175320002935")
"""The system contract that stores the hashes of the newest blocks (EIP-2935)."""
HISTORY_BLOCKS = 8191
"""Number of hashes that `HISTORY` stores. The hash of block n is in slot n modulo this number, from the next block on."""
HISTORY_CODE = Digest(bytes.fromhex("6e49e66782037c0555897870e29fa5e552daf4719552131a0abce779daec0a5d"))
"""keccak256 of the code of `HISTORY`."""

_LEAST_FIELDS = 15
"""Number of fields of the oldest headers. Later upgrades append more."""
_PARENT, _STATE, _RECEIPTS, _NUMBER, _TIME = 0, 3, 5, 8, 11


class ProvenHeader(NamedTuple):
    """A block header."""

    hash: Digest
    """keccak256 of the header."""
    parent: Digest
    """Hash of the block before."""
    state_root: Digest
    """Root of the state after the block."""
    receipts_root: Digest
    """Root of the trie of the block's transaction receipts."""
    number: int
    """Height of the block."""
    timestamp: int
    """Unix seconds."""


def header_of(raw: bytes) -> ProvenHeader | None:
    """Decodes a block header from RLP. Returns None if the bytes are no header."""
    try:
        items = decode_list(raw, _LEAST_FIELDS)
        parent, state, receipts = (digest(items[place]) for place in (_PARENT, _STATE, _RECEIPTS))
        return ProvenHeader(keccak256(raw), parent, state, receipts, to_integer(items[_NUMBER]), to_integer(items[_TIME]))
    except (BrokenProof, MalformedValue):
        return None


def is_hash_stored(number: int, head: int) -> bool:
    """Returns whether the state of block `head` stores the hash of block `number` (EIP-2935)."""
    return head - HISTORY_BLOCKS <= number < head
