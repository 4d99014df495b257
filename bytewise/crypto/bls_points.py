"""Computes with points of BLS12-381 in the encoding of `bytewise.crypto.bls`, by means of `py_arkworks_bls12381`.

The library encodes a point as its coordinates, each of 48 bytes, big-endian, c0 before c1. Here each has 16 zero bytes before it.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from py_arkworks_bls12381 import GT, G1Point, G2Point, Scalar

from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Digest, digest

ORDER = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
"""Order of the groups G1 and G2 (RFC 9380, section 8.8)."""

_FIELD_BYTES, _PADDED_BYTES = 48, 64
_MODULUS = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB

_Point = TypeVar("_Point", G1Point, G2Point)


def key_of(scalar: int) -> bytes:
    """Returns the generator of G1 times a scalar: the public key of a secret."""
    return _encoded(G1Point() * Scalar.from_be_bytes(scalar.to_bytes(32)))


def hash_to_curve(message: Digest, tag: bytes, scalar: int = 1) -> bytes:
    """Hashes a message of 32 bytes to a point of G2 (RFC 9380), and returns this point times a scalar."""
    return _encoded(G2Point.hash_to_curve(digest(message), tag) * Scalar.from_be_bytes(scalar.to_bytes(32)))


def sum_of_keys(parts: Iterable[tuple[bytes, int]]) -> bytes:
    """Returns the sum of points of G1, each times its factor.

    Raises `MalformedValue` for a point outside the group, or a factor below 1.
    """
    return _encoded(sum((_key(key) * _positive(times) for key, times in parts), G1Point.identity()))


def sum_of_signatures(parts: Iterable[tuple[bytes, int]]) -> bytes:
    """Returns the sum of points of G2, each times its factor. Raises `MalformedValue` as `sum_of_keys` does."""
    return _encoded(sum((_signature(each) * _positive(times) for each, times in parts), G2Point.identity()))


def verifies(key: bytes, message: Digest, signature: bytes, tag: bytes) -> bool:
    """Returns whether the key's owner signed the message. Raises `MalformedValue` for an invalid point, or a key at infinity."""
    signer, given = _key(key), _signature(signature)
    if signer == G1Point.identity():
        raise MalformedValue("BLS key", "infinity")
    # e(key, hash) = e(generator, signature), as one product with one final exponentiation.
    return GT.pairing_check([signer, -G1Point()], [G2Point.hash_to_curve(digest(message), tag), given])


def difference_of_keys(added: Iterable[bytes], subtracted: Iterable[bytes]) -> bytes:
    """Returns the sum of the `added` points of G1 minus the `subtracted` points. Each input is compressed to 48 bytes.

    Raises `MalformedValue` for bytes that are not a point of the group.
    """
    total = sum((_decompressed("BLS key", G1Point.from_compressed_bytes, 48, key) for key in added), G1Point.identity())
    return _encoded(sum((-_decompressed("BLS key", G1Point.from_compressed_bytes, 48, key) for key in subtracted), total))


def expand_signature(signature: bytes) -> bytes:
    """Converts a point of G2 from the compressed form of 96 bytes to 256 bytes.

    Raises `MalformedValue` for bytes that are not a point of the group.
    """
    return _encoded(_decompressed("BLS signature", G2Point.from_compressed_bytes, 96, signature))


def _encoded(point: G1Point | G2Point) -> bytes:
    raw = point.to_xy_bytes_be()
    return b"".join(raw[i : i + _FIELD_BYTES].rjust(_PADDED_BYTES, b"\0") for i in range(0, len(raw), _FIELD_BYTES))


def _key(data: bytes) -> G1Point:
    return _decoded("BLS key", G1Point.from_xy_bytes_unchecked_be, 2, data)


def _signature(data: bytes) -> G2Point:
    return _decoded("BLS signature", G2Point.from_xy_bytes_unchecked_be, 4, data)


def _decoded(what: str, function: Callable[[bytes], _Point], coordinates: int, data: bytes) -> _Point:
    if len(data) != coordinates * _PADDED_BYTES:
        raise MalformedValue(what, f"{len(data)} bytes instead of {coordinates * _PADDED_BYTES}")
    numbers = [int.from_bytes(data[i : i + _PADDED_BYTES]) for i in range(0, len(data), _PADDED_BYTES)]
    if max(numbers) >= _MODULUS:
        raise MalformedValue(what, "a coordinate is not below the field's modulus")
    try:
        point = function(b"".join(number.to_bytes(_FIELD_BYTES) for number in numbers))
    except ValueError:
        raise MalformedValue(what, "not on the curve") from None
    if not point.is_in_subgroup():
        raise MalformedValue(what, "outside the subgroup")
    return point


def _decompressed(what: str, function: Callable[[bytes], _Point], size: int, data: bytes) -> _Point:
    if len(data) != size:
        raise MalformedValue(what, f"{len(data)} bytes instead of {size}")
    try:
        point = function(data)
    except ValueError:
        raise MalformedValue(what, "no compressed point of the group") from None
    # The library takes other bytes for infinity, too.
    if point.to_compressed_bytes() != data:
        raise MalformedValue(what, "another encoding of the point")
    return point


def _positive(times: int) -> Scalar:
    if times < 1:
        raise MalformedValue("seats", str(times))
    return Scalar(times)
