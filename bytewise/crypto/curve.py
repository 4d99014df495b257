"""P-256 points and scalars, strictly decoded (SEC 1, 2.3.3 and 2.3.4; design section 8).

The group has prime order and cofactor 1, so a decoded point that is on the curve and is not the identity has full order. Each
point has one encoding.
"""

from collections.abc import Callable
from functools import lru_cache

from Crypto.PublicKey.ECC import EccPoint

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.branches import Bug, PointFlaw
from bytewise.protocol.errors.records import MalformedPoint, MalformedValue
from bytewise.protocol.units import Blob

FIELD = 2**256 - 2**224 + 2**192 + 2**96 - 1
"""Prime of the field (SP 800-186, 3.2.1.3)."""

CURVE_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
"""The constant b in the curve equation y² = x³ - 3x + b (SP 800-186, 3.2.1.3)."""

POINT_BYTES = 65
"""Length of the uncompressed encoding: the byte 0x04, then x and y."""


def point_flaw(data: bytes) -> PointFlaw | None:
    """Returns None if the bytes are the uncompressed encoding of a point other than the identity. Otherwise returns the reason
    why they are not."""
    return _of_form(data) or _of_place(int.from_bytes(data[1:33]), int.from_bytes(data[33:POINT_BYTES]))


def _of_form(data: bytes) -> PointFlaw | None:
    if not data:
        return PointFlaw.EMPTY
    if data == b"\0":
        return PointFlaw.IDENTITY
    if data[0] in (2, 3):
        return PointFlaw.COMPRESSED
    if data[0] != 4:
        return PointFlaw.OTHER_FORM
    if len(data) < POINT_BYTES:
        return PointFlaw.SHORT
    return PointFlaw.TRAILING if len(data) > POINT_BYTES else None


def _of_place(x: int, y: int) -> PointFlaw | None:
    # A library that reduces coordinates, or reads (0, 0) as the identity, would accept two encodings of one point.
    if x >= FIELD or y >= FIELD:
        return PointFlaw.ABOVE_FIELD
    if (x, y) == (0, 0):
        return PointFlaw.IDENTITY
    return PointFlaw.OFF_CURVE if (y * y - x * x * x + 3 * x - CURVE_B) % FIELD else None


_CURVE = "p256"

ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Order of the group (SP 800-186, 3.2.1.3)."""

_GX = 0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296
_GY = 0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5

GENERATOR = EccPoint(_GX, _GY, _CURVE)
"""The standard base point G of the group."""

Rng = Callable[[int], bytes]
"""A random generator: `rng(n)` returns n random bytes."""

_MAX_DRAWS = 64
"""Most attempts to draw a scalar. A draw is outside the group order with probability 2^-32, so 64 such draws in a row mean that
the generator is broken."""


def decode_point(data: bytes) -> EccPoint:
    """Returns the point of 65 uncompressed bytes.

    Raises `MalformedPoint`, which carries the reason, for any other bytes and for the identity.
    """
    flaw = point_flaw(data)
    if flaw is not None:
        raise MalformedPoint("P-256 point", f"{len(data)} bytes, {flaw}", flaw)
    return EccPoint(int.from_bytes(data[1:33]), int.from_bytes(data[33:POINT_BYTES]), _CURVE)


def encode_point(point: EccPoint) -> Blob:
    """Returns the 65 uncompressed bytes of a point. Raises `MalformedPoint` for the identity, which has no such encoding."""
    if point.is_point_at_infinity():
        raise MalformedPoint("P-256 point", "identity", PointFlaw.IDENTITY)
    return Blob(b"\x04" + int(point.x).to_bytes(32, "big") + int(point.y).to_bytes(32, "big"))


def decode_scalar(data: bytes) -> int:
    """Returns the integer of 32 big-endian bytes. Zero is allowed.

    Raises `MalformedValue` for another number of bytes, or if the integer is not below the group order.
    """
    if len(data) != 32:
        raise MalformedValue("P-256 scalar", f"{len(data)} bytes, not 32")
    value = int.from_bytes(data)
    if value >= ORDER:
        raise MalformedValue("P-256 scalar", "not below the group order")
    return value


def encode_scalar(value: int) -> Blob:
    """Returns the 32 big-endian bytes of a scalar, reduced modulo the group order."""
    return Blob((value % ORDER).to_bytes(32, "big"))


def random_scalar(rng: Rng) -> int:
    """Draws a uniform non-zero scalar by rejection sampling. Raises `Bug` if the generator gives none."""
    for _ in range(_MAX_DRAWS):
        value = int.from_bytes(rng(32))
        if 0 < value < ORDER:
            return value
    raise Bug("random generator gives no scalar")


@lru_cache(maxsize=1)
def second_generator() -> EccPoint:
    """Returns Ḡ, the second generator of TDH2. Nobody knows its logarithm to base G.

    Labelled hashes are tried in order as x coordinates. The first hash that lies on the curve is the x coordinate of the point.
    Its y coordinate is even.
    """
    for counter in range(256):
        x = int.from_bytes(digests.labelled(Label.TDH2_POINT, counter))
        square = (x * x * x - 3 * x + CURVE_B) % FIELD
        # FIELD ≡ 3 mod 4, so this power is a square root if there is one.
        y = pow(square, (FIELD + 1) // 4, FIELD)
        if x < FIELD and y * y % FIELD == square:
            return EccPoint(x, y if y % 2 == 0 else FIELD - y, _CURVE)
    raise Bug("no second generator")


def challenge(label: Label, *parts: bytes | int) -> int:
    """Returns a Fiat-Shamir challenge: a labelled hash modulo the group order. Its bias of 2^-32 does not harm soundness."""
    return int.from_bytes(digests.labelled(label, *parts)) % ORDER
