"""Quantities and identifiers, each a type of its own so that they cannot be mixed up.

`U8` to `U256` are the integers of EIP-712 messages; canonical JSON writes them as decimal strings. A plain `int` field is a
JSON number below 2^53. `Digest` is 32 bytes, `Address` lower-case 0x-hex, `Blob` any bytes (0x-hex), `Decimal` a canonical
decimal string (design section 4).
"""

import re
from fractions import Fraction
from typing import NewType

from bytewise.protocol.errors.records import MalformedValue

Digest = NewType("Digest", bytes)
Blob = NewType("Blob", bytes)
Address = NewType("Address", str)
Decimal = NewType("Decimal", str)
U8 = NewType("U8", int)
U16 = NewType("U16", int)
U32 = NewType("U32", int)
U64 = NewType("U64", int)
U256 = NewType("U256", int)

WIDTHS = {U8: 8, U16: 16, U32: 32, U64: 64, U256: 256}
"""Number of bits of each EIP-712 integer type."""

MAX_SAFE_INTEGER = 2**53 - 1
"""Largest integer that RFC 8785 (I-JSON) carries as a number."""

ZERO_DIGEST = Digest(bytes(32))
ZERO_ADDRESS = Address("0x" + "0" * 40)

_ADDRESS = re.compile(r"0x[0-9a-f]{40}")
_HEX = re.compile(r"0x(?:[0-9a-f]{2})*+")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{0,30}[1-9])?")


def digest(value: bytes) -> Digest:
    """Returns the value as a digest. Raises `MalformedValue` unless it has 32 bytes."""
    if len(value) != 32:
        raise MalformedValue("digest", f"{len(value)} bytes instead of 32")
    return Digest(bytes(value))


def address(text: str) -> Address:
    """Returns the text as an address in lower case. Raises `MalformedValue` unless it is 0x and 40 hex digits."""
    if not _ADDRESS.fullmatch(text.lower()):
        raise MalformedValue("address", f"{len(text)} characters that are not 0x and 40 hex digits")
    return Address(text.lower())


def unhex(text: str) -> bytes:
    """Decodes canonical 0x-hex. Raises `MalformedValue` unless the digits are lower-case and even in number."""
    if not _HEX.fullmatch(text):
        raise MalformedValue("hex", f"{len(text)} characters that are not 0x and pairs of lower-case hex digits")
    return bytes.fromhex(text[2:])


def hex0x(value: bytes) -> str:
    """Returns the bytes as canonical 0x-hex."""
    return "0x" + value.hex()


def decimal(text: str) -> Decimal:
    """Returns the text as a canonical decimal. Raises `MalformedValue` for any other form.

    Canonical means: no exponent, no leading or trailing zero, no plus sign, no minus zero.
    """
    if not _DECIMAL.fullmatch(text) or text == "-0":
        raise MalformedValue("decimal", f"{len(text)} characters that are no canonical decimal")
    return Decimal(text)


def fraction(value: Decimal) -> Fraction:
    """Returns the decimal as an exact rational number."""
    return Fraction(value)


def bounded(value: int, bits: int) -> int:
    """Returns the integer. Raises `MalformedValue` if it is a bool or outside 0 to 2^bits - 1."""
    if isinstance(value, bool) or not 0 <= value < 1 << bits:
        raise MalformedValue(f"uint{bits}", str(value)[:80])
    return value


def short_text(text: str) -> Digest:
    """Returns an ASCII label of 1 to 32 bytes as a bytes32, padded with zeros on the right. It is used for GPU architecture
    names.

    Raises `MalformedValue` for any other text, and for one with zero bytes.
    """
    if not 0 < len(text) <= 32 or not text.isascii() or "\0" in text:
        raise MalformedValue("short text", f"{len(text)} characters that are not 1 to 32 of ASCII")
    return Digest(text.encode().ljust(32, b"\0"))
