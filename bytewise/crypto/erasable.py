"""Arithmetic on secret scalars in buffers that can be overwritten, for rebuilding a key.

Python's integers and bytes cannot be erased, and libraries copy their arguments. Here a secret is 32 bytes, big-endian, in a
`bytearray`; every intermediate value is one byte, a carry or a point. The code is slower than a library but fast enough for a few
calls a job. Its running time is not constant.
"""

from collections.abc import Mapping

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto.curve import GENERATOR, ORDER
from bytewise.crypto.shares import lagrange

SCALAR_BYTES = 32
_ORDER = ORDER.to_bytes(SCALAR_BYTES)


def erase(*buffers: bytearray) -> None:
    """Overwrites the buffers with zeros in place."""
    for buffer in buffers:
        buffer[:] = bytes(len(buffer))


def is_canonical(scalar: bytearray) -> bool:
    """Returns whether the scalar has 32 bytes and is below the group order."""
    if len(scalar) != SCALAR_BYTES:
        return False
    less, borrow = _minus_order(scalar)
    erase(less)
    return bool(borrow)


def multiply_point(point: EccPoint, scalar: bytearray) -> EccPoint:
    """Returns the point times the scalar. The Montgomery ladder does the same additions and doublings for every scalar."""
    low, high = GENERATOR.point_at_infinity(), point.copy()
    for byte in scalar:
        for shift in range(7, -1, -1):
            if byte >> shift & 1:
                low += high
                high.double()
            else:
                high += low
                low.double()
    return low


def interpolate(shares: Mapping[int, bytearray]) -> bytearray:
    """Returns f(0) modulo the group order, in a buffer that the caller must erase.

    `shares` maps each index i to the canonical share f(i).
    """
    total = bytearray(SCALAR_BYTES)
    for index, share in shares.items():
        term = _times_public(share, lagrange(index, tuple(shares)))
        _add(total, term)
        erase(term)
    return total


def _times_public(secret: bytearray, factor: int) -> bytearray:
    total = bytearray(SCALAR_BYTES)
    for bit in bin(factor)[2:]:
        _add(total, total)
        if bit == "1":
            _add(total, secret)
    return total


def _add(total: bytearray, other: bytearray) -> None:
    """Replaces `total` by `total` + `other` modulo the group order. Both must be below the group order."""
    carry = 0
    for i in reversed(range(SCALAR_BYTES)):
        value = total[i] + other[i] + carry
        total[i], carry = value & 0xFF, value >> 8
    less, borrow = _minus_order(total)
    if carry >= borrow:
        total[:] = less
    erase(less)


def _minus_order(value: bytearray) -> tuple[bytearray, int]:
    """Returns `value` minus the group order, modulo 2^256, and a borrow: 1 if the difference is negative, else 0."""
    less, borrow = bytearray(SCALAR_BYTES), 0
    for i in reversed(range(SCALAR_BYTES)):
        digit = value[i] - _ORDER[i] - borrow
        less[i], borrow = digit & 0xFF, digit < 0
    return less, int(borrow)
