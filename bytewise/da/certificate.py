"""Certificates of our store: a version byte, then an RLP list of (magic, keccak256 of the payload, length, 16 random bytes).

Certificates are opaque to clients, like those of EigenDA. Because of the random bytes, two certificates of one payload differ,
as two certificates of EigenDA do.
"""

from typing import NamedTuple

from bytewise.da.conventions import VERSION_V3, VERSION_V4
from bytewise.protocol import digests
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Digest

MAGIC = b"bytewise-da"
NONCE_BYTES = 16
_LONGEST = 200


class DaCertificate(NamedTuple):
    """Statement of our store that it stored these payload bytes."""

    version: int
    payload_hash: Digest
    length: int
    nonce: bytes

    def encode(self) -> bytes:
        """Returns the certificate as bytes: version byte, then RLP."""
        length = self.length.to_bytes((self.length.bit_length() + 7) // 8, "big")
        return bytes([self.version]) + _rlp_list((MAGIC, self.payload_hash, length, self.nonce))


def certify(payload: bytes, version: int, nonce: bytes) -> DaCertificate:
    """Returns a new certificate for a payload. `version` is the version byte; `nonce` must be fresh randomness."""
    return DaCertificate(version, digests.keccak256(payload), len(payload), nonce)


def parse_certificate(data: bytes) -> DaCertificate:
    """Returns the certificate that these bytes encode. Raises `MalformedValue` if they are not exactly its encoding."""
    try:
        magic, payload_hash, length, nonce = _rlp_items(data[1:])
        parsed = DaCertificate(data[0], Digest(payload_hash), int.from_bytes(length, "big"), nonce)
    except (ValueError, IndexError):
        raise MalformedValue("certificate", "not ours") from None
    sizes = (len(payload_hash), len(nonce)) == (32, NONCE_BYTES)
    if magic != MAGIC or not sizes or data[0] not in (VERSION_V3, VERSION_V4) or parsed.encode() != data:
        raise MalformedValue("certificate", "not ours")
    return parsed


def _rlp_list(items: tuple[bytes, ...]) -> bytes:
    # Ethereum yellow paper, appendix B. Items are shorter than 56 bytes; the list may be longer.
    body = b"".join(item if len(item) == 1 and item[0] < 0x80 else bytes([0x80 + len(item)]) + item for item in items)
    return bytes([0xC0 + len(body)]) + body if len(body) < 56 else bytes([0xF8, len(body)]) + body


def _rlp_items(data: bytes) -> list[bytes]:
    if not data or len(data) > _LONGEST:
        raise ValueError("size")
    at, items = (2 if data[0] == 0xF8 else 1), []
    while at < len(data):
        head = data[at]
        start, size = (at, 1) if head < 0x80 else (at + 1, head - 0x80)
        if size >= 56:
            raise ValueError("long item")
        items.append(data[start : start + size])
        at = start + size
    return items
