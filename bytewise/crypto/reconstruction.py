"""The paper's mode: shards release shares, and the enclave rebuilds the private key, uses it once and erases it.

Only rebuilt epochs use this mode; an epoch's number says whether it is one (ADR-040). A share is good for every envelope of its
epoch, not for one receipt, so the key of such an epoch has no other use. The enclave rebuilds the key in a process that ends
after one envelope (`enclave.key_rebuilder`). The process overwrites the buffers of shares and key. Everything else in its memory,
including the secret that opens the shards' answers, is gone when the process ends.

Python's integers and bytes cannot be erased, and libraries copy their arguments. Here a secret is therefore 32 bytes,
big-endian, in a `bytearray`. Every intermediate value is one byte, a carry or a point. This arithmetic is slower than a library,
but fast enough for a few calls a job. Its running time is not constant.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto import hpke
from bytewise.crypto.curve import GENERATOR, ORDER
from bytewise.crypto.shares import lagrange
from bytewise.protocol.errors.actors import ShardLied
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Blob, Digest

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


@dataclass(frozen=True, slots=True)
class TransportKey:
    """The key pair of one job. Shards seal their answers to its public key."""

    secret: bytes = field(repr=False)
    """Secret scalar, 32 bytes."""
    public: Blob
    """Public key, a 65-byte point."""


def open_key_share(sealed: bytes, to: TransportKey, info: Digest, index: int, verification_key: EccPoint) -> bytearray:
    """Opens the share that shard `index` sealed under `info` (`keys.epochs.share_info`). The caller must erase the returned
    buffer.

    Raises `MalformedValue` if the share was not sealed to this key under this info, and `ShardLied` if the share does not fit the
    epoch's public commitments.
    """
    share = bytearray(SCALAR_BYTES)
    try:
        hpke.open_from_transport_into(to.secret, to.public, info, sealed, share)
        if not is_canonical(share) or multiply_point(GENERATOR, share) != verification_key:
            raise ShardLied(index, "its share does not fit the epoch's commitments")
    except (MalformedValue, ShardLied):
        erase(share)
        raise
    return share


def multiply_by_key(point: EccPoint, shares: Mapping[int, bytearray]) -> EccPoint:
    """Rebuilds the private key x from t verified shares, and returns x · `point`. Erases key and shares before it returns."""
    key = interpolate(shares)
    try:
        return multiply_point(point, key)
    finally:
        erase(key, *shares.values())
