"""Constants and formats of the EigenDA proxy's REST interface (api/proxy/servers/rest), and the certificates of our store.

The formats are sizes, status codes, encoding 0 and locators. To clients a certificate is opaque, whether EigenDA or our store
made it.
"""

import enum
import re
from typing import NamedTuple

from bytewise.protocol import digests
from bytewise.protocol.errors.actors import BadCertificate
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Digest

MAX_BODY_BYTES = 16 * 2**20
"""Size in bytes of the largest request body that the proxy accepts."""
MAX_PAYLOAD_BYTES = (524_288 - 1) * 31
"""Size in bytes of the largest payload. A blob of 16 MiB has 524,288 symbols of 32 bytes. One symbol is the header, and each
other symbol has 31 bytes of payload."""
VERSION_V3 = 0x02
VERSION_V4 = 0x03
"""Version byte of a certificate of version 4. The byte is one less than the version."""
MAX_CERTIFICATE_BYTES = 8 * 1024
"""Size in bytes of the largest certificate. Clients send certificates in URLs. Real certificates have 1 to 3 kB."""

STANDARD = "standard"
_LOCATOR = re.compile(r"eigenda:standard:0x((?:[0-9a-f]{2})+)")
_SYMBOL = 32


class ReplyClass(enum.Enum):
    """Classes of a proxy's answers. The class says what the client must do next (design section 5)."""

    OK = "ok"
    CALLER_ERROR = "caller error"
    BAD_CERTIFICATE = "bad certificate"
    RETRY = "retry"
    FAIL_OVER = "fail over"


class ProxyRefusal(NamedTuple):
    """Body of a 418 answer. Its status has one of four values: 1 (certificate does not parse), 2 (too old), 3 (invalid on the
    chain), 4 (blob does not decode)."""

    status: int
    message: str


def classify(status: int) -> ReplyClass:
    """Returns the class of a proxy's answer by its HTTP status.

    A proxy answers 400 to a call that it finds malformed. A proxy also answers 500 if it did not find a blob, so 500 proves
    nothing. Any other redirection or refusal (404, 408, 413, …) comes from an ingress while the proxy is away, so the client
    tries again.
    """
    if status == 200:
        return ReplyClass.OK
    if status == 400:
        return ReplyClass.CALLER_ERROR
    if status == 418:
        return ReplyClass.BAD_CERTIFICATE
    if status == 503:
        return ReplyClass.FAIL_OVER
    return ReplyClass.RETRY


def locator_of(certificate: bytes) -> str:
    """Returns the locator of a certificate in standard mode. The first byte of the certificate must be its version."""
    return f"eigenda:{STANDARD}:0x{certificate.hex()}"


def certificate_of(locator: str) -> bytes:
    """Returns the certificate in a locator, without asking a proxy.

    Raises `BadCertificate` if the text does not contain a certificate of a version that a proxy accepts as input. A proxy would
    answer 400 to such a certificate, and the error would look like our own.
    """
    if len(locator) > 2 * MAX_CERTIFICATE_BYTES:
        raise BadCertificate(locator[:40], "too long")
    found = _LOCATOR.fullmatch(locator)
    certificate = bytes.fromhex(found.group(1)) if found else b""
    if len(certificate) < 2 or certificate[0] not in (VERSION_V3, VERSION_V4):
        raise BadCertificate(locator[:40], "not a locator of a known certificate version")
    return certificate


def encode_payload(payload: bytes) -> bytes:
    """Returns a payload in EigenDA's encoding 0. A header symbol with the length comes first. Each further symbol of 32 bytes
    has 31 bytes of payload. Padding makes the number of symbols a power of two."""
    header = b"\x00\x00" + len(payload).to_bytes(4, "big") + bytes(26)
    body = b"".join(b"\x00" + payload[at : at + 31].ljust(31, b"\x00") for at in range(0, len(payload), 31))
    symbols = (len(header) + len(body)) // _SYMBOL
    return (header + body).ljust((1 << (symbols - 1).bit_length()) * _SYMBOL, b"\x00")


# Certificates of our store: a version byte, then an RLP list of (magic, keccak256 of the payload, length, 16 random bytes).
# Because of the random bytes, two certificates of one payload differ, as two certificates of EigenDA do.


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
