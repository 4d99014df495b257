"""Constants and formats of the EigenDA proxy's REST interface: sizes, status codes, encoding 0, locators
(api/proxy/servers/rest)."""

import enum
import re
from typing import NamedTuple

from bytewise.protocol.errors.actors import BadCertificate

MAX_BODY_BYTES = 16 * 2**20
"""Size in bytes of the largest request body that the proxy accepts."""
MAX_PAYLOAD_BYTES = (524_288 - 1) * 31
"""Size in bytes of the largest payload. A blob of 16 MiB has 524,288 symbols of 32 bytes. One symbol is the header, and each
other symbol has 31 bytes of payload."""
VERSION_V3 = 0x02
VERSION_V4 = 0x03
"""Version byte of a certificate of version 4. The byte is one less than the version."""
MAX_CERTIFICATE_BYTES = 8 * 1024
"""Size in bytes of the largest certificate. Certificates are sent in URLs; real ones have 1 to 3 kB."""

STANDARD = "standard"
_LOCATOR = re.compile(r"eigenda:standard:0x((?:[0-9a-f]{2})+)")
_SYMBOL = 32


class ReplyClass(enum.Enum):
    """Classes of a proxy's answers by what the client must do (design section 5)."""

    OK = "ok"
    CALLER_ERROR = "caller error"
    BAD_CERTIFICATE = "bad certificate"
    RETRY = "retry"
    FAIL_OVER = "fail over"


class ProxyRefusal(NamedTuple):
    """Body of a 418 answer. Its status is 1 (certificate does not parse), 2 (too old), 3 (invalid on the chain) or 4 (blob does
    not decode)."""

    status: int
    message: str


def classify(status: int) -> ReplyClass:
    """Returns the class of a proxy's answer by its HTTP status. A proxy also answers 500 if a blob was not found, so 500 proves
    nothing.

    A proxy answers 400 to a call that it finds malformed. Any other redirection or refusal (404, 408, 413, …) comes from an
    ingress while the proxy is away, so the client tries again.
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
    """Returns the certificate in a locator. Asks no proxy.

    Raises `BadCertificate` if the text does not contain a certificate of a version that a proxy accepts as input. A proxy would
    answer 400 to such a certificate, which would look like an error of ours.
    """
    if len(locator) > 2 * MAX_CERTIFICATE_BYTES:
        raise BadCertificate(locator[:40], "too long")
    found = _LOCATOR.fullmatch(locator)
    certificate = bytes.fromhex(found.group(1)) if found else b""
    if len(certificate) < 2 or certificate[0] not in (VERSION_V3, VERSION_V4):
        raise BadCertificate(locator[:40], "not a locator of a known certificate version")
    return certificate


def encode_payload(payload: bytes) -> bytes:
    """Returns a payload in EigenDA's encoding 0: a header symbol with the length, then 31 bytes in each symbol of 32 bytes. The
    number of symbols is padded to a power of two."""
    header = b"\x00\x00" + len(payload).to_bytes(4, "big") + bytes(26)
    body = b"".join(b"\x00" + payload[at : at + 31].ljust(31, b"\x00") for at in range(0, len(payload), 31))
    symbols = (len(header) + len(body)) // _SYMBOL
    return (header + body).ljust((1 << (symbols - 1).bit_length()) * _SYMBOL, b"\x00")
