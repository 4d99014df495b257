"""Which bytes are a P-256 point: one encoding for each (SEC 1, 2.3.4). The arithmetic on points is in `kms`."""

from bytewise.protocol.reasons import PointFlaw

FIELD = 2**256 - 2**224 + 2**192 + 2**96 - 1
"""Prime of the field (SP 800-186, 3.2.1.3)."""

CURVE_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
"""b of y² = x³ - 3x + b (SP 800-186, 3.2.1.3)."""

POINT_BYTES = 65
"""Uncompressed encoding: 0x04, x, y."""


def point_flaw(data: bytes) -> PointFlaw | None:
    """Why the bytes are not the uncompressed encoding of a point, or are of the identity; None if they are a good point's."""
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
    # A library that reduces coordinates, or reads (0, 0) as the identity, would give one point two encodings.
    if x >= FIELD or y >= FIELD:
        return PointFlaw.ABOVE_FIELD
    if (x, y) == (0, 0):
        return PointFlaw.IDENTITY
    return PointFlaw.OFF_CURVE if (y * y - x * x * x + 3 * x - CURVE_B) % FIELD else None
