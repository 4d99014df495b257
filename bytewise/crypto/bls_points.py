"""Computes with points of BLS12-381 in the encoding of `bytewise.crypto.bls`, by means of `py_ecc`.

Import this module inside the function that uses it. `py_ecc` computes tables for half a second when it is imported, and most
processes never sign a certificate.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from py_ecc.bls.g2_primitives import pubkey_to_G1, signature_to_G2, subgroup_check
from py_ecc.bls.hash_to_curve import hash_to_G2
from py_ecc.fields import optimized_bls12_381_FQ as Fq
from py_ecc.fields import optimized_bls12_381_FQ2 as Fq2
from py_ecc.optimized_bls12_381.optimized_curve import (
    G1,
    Z1,
    Z2,
    add,
    b,
    b2,
    curve_order,
    field_modulus,
    is_inf,
    is_on_curve,
    multiply,
    neg,
    normalize,
)
from py_ecc.optimized_bls12_381.optimized_pairing import final_exponentiate, pairing

from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Digest, digest

ORDER = curve_order
"""Order of the groups G1 and G2."""

_FIELD_BYTES = 64
_KEY_SIZE, _SIGNATURE_SIZE = 2 * _FIELD_BYTES, 4 * _FIELD_BYTES


def key_of(scalar: int) -> bytes:
    """Returns the generator of G1 times a scalar: the public key of a secret."""
    return encode_point(multiply(G1, scalar))


def hash_to_curve(message: Digest, tag: bytes, scalar: int = 1) -> bytes:
    """Hashes a message of 32 bytes to a point of G2 (RFC 9380), and returns this point times a scalar."""
    return encode_point(multiply(_hashed(message, tag), scalar))


def sum_of_keys(parts: Iterable[tuple[bytes, int]]) -> bytes:
    """Returns the sum of points of G1, each times its factor.

    Raises `MalformedValue` for a point outside the group, or a factor below 1.
    """
    total = Z1
    for key, times in parts:
        total = add(total, multiply(point_of_g1(key), _positive(times)))
    return encode_point(total)


def sum_of_signatures(parts: Iterable[tuple[bytes, int]]) -> bytes:
    """Returns the sum of points of G2, each times its factor. Raises `MalformedValue` as `sum_of_keys` does."""
    total = Z2
    for signature, times in parts:
        total = add(total, multiply(point_of_g2(signature), _positive(times)))
    return encode_point(total)


def verifies(key: bytes, message: Digest, signature: bytes, tag: bytes) -> bool:
    """Returns whether the key's owner signed the message. Raises `MalformedValue` for an invalid point, or a key at infinity."""
    signer, given = point_of_g1(key), point_of_g2(signature)
    if is_inf(signer):
        raise MalformedValue("BLS key", "infinity")
    # e(key, hash) = e(generator, signature), as one product with one final exponentiation.
    left = pairing(_hashed(message, tag), signer, final_exponentiate=False)
    right = pairing(given, neg(G1), final_exponentiate=False)
    return bool(final_exponentiate(left * right) == type(left).one())


def difference_of_keys(added: Iterable[bytes], subtracted: Iterable[bytes]) -> bytes:
    """Returns the sum of the `added` points of G1 minus the `subtracted` points. Each input is compressed to 48 bytes.

    Raises `MalformedValue` for bytes that are not a point.
    """
    total = Z1
    for key in added:
        total = add(total, _decompressed("BLS key", 48, pubkey_to_G1, key))
    for key in subtracted:
        total = add(total, neg(_decompressed("BLS key", 48, pubkey_to_G1, key)))
    return encode_point(total)


def expand_signature(signature: bytes) -> bytes:
    """Converts a point of G2 from the compressed form of 96 bytes to 256 bytes. Raises `MalformedValue` if it is not a point."""
    return encode_point(_decompressed("BLS signature", 96, signature_to_G2, signature))


def _decompressed(what: str, size: int, function: Any, data: bytes) -> Any:
    if len(data) != size:
        raise MalformedValue(what, f"{len(data)} bytes instead of {size}")
    try:
        return function(data)
    except (ValueError, AssertionError):
        raise MalformedValue(what, "no compressed point") from None


def encode_point(point: Any) -> bytes:
    """Returns the bytes of a point of `py_ecc`, of G1 or G2."""
    if is_inf(point):
        return bytes(_SIGNATURE_SIZE if isinstance(point[0], Fq2) else _KEY_SIZE)
    numbers = [part for each in normalize(point) for part in (each.coeffs if isinstance(each, Fq2) else (each,))]
    return b"".join(int(number).to_bytes(_FIELD_BYTES) for number in numbers)


def point_of_g1(key: bytes) -> Any:
    """Decodes a point of G1 for `py_ecc`. Raises `MalformedValue` if it is not in the group."""
    x, y = _numbers("BLS key", key, _KEY_SIZE)
    return Z1 if x == y == 0 else _of_the_group("BLS key", (Fq(x), Fq(y), Fq(1)), b)


def point_of_g2(signature: bytes) -> Any:
    """Decodes a point of G2 for `py_ecc`. Raises `MalformedValue` if it is not in the group."""
    x0, x1, y0, y1 = _numbers("BLS signature", signature, _SIGNATURE_SIZE)
    if x0 == x1 == y0 == y1 == 0:
        return Z2
    return _of_the_group("BLS signature", (Fq2([x0, x1]), Fq2([y0, y1]), Fq2([1, 0])), b2)


def _hashed(message: Digest, tag: bytes) -> Any:
    function: Any = sha256  # the library's annotation asks for a hash object, its code for the constructor
    return hash_to_G2(digest(message), tag, function)


def _positive(times: int) -> int:
    if times < 1:
        raise MalformedValue("seats", str(times))
    return times


def _numbers(what: str, data: bytes, size: int) -> list[int]:
    if len(data) != size:
        raise MalformedValue(what, f"{len(data)} bytes instead of {size}")
    numbers = [int.from_bytes(data[i : i + _FIELD_BYTES]) for i in range(0, size, _FIELD_BYTES)]
    if max(numbers) >= field_modulus:
        raise MalformedValue(what, "a coordinate is not below the field's modulus")
    return numbers


def _of_the_group(what: str, point: Any, constant: Any) -> Any:
    if not is_on_curve(point, constant):
        raise MalformedValue(what, "not on the curve")
    if not subgroup_check(point):
        raise MalformedValue(what, "outside the subgroup")
    return point
