"""BLS12-381 signatures of verdict certificates: keys in G1, signatures in G2, points in the encoding of EIP-2537.

The suite is `BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_`, over 32-byte EIP-712 digests. A point is its coordinates, each of 64
bytes, big-endian, c0 before c1; infinity is all zero. `py_ecc` is plain Python, and its running time depends on the secret: sign
only where nobody else can measure the time.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NewType

from eth_utils.crypto import keccak
from py_ecc.bls.ciphersuites import G2ProofOfPossession as Suite
from py_ecc.bls.g2_primitives import subgroup_check
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

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import BadSignature, MalformedValue
from bytewise.protocol.records.statements import Possession
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.units import Address, Digest, digest, hex0x

PublicKey = NewType("PublicKey", bytes)
"""A point of G1, 128 bytes."""

BlsSignature = NewType("BlsSignature", bytes)
"""A point of G2, 256 bytes."""

_FIELD_BYTES = 64
_KEY_SIZE, _SIGNATURE_SIZE = 2 * _FIELD_BYTES, 4 * _FIELD_BYTES


class BlsSigner:
    """A verifier's key for certificates; never printed."""

    def __init__(self, secret: bytes) -> None:
        """`ConfigurationError` unless the secret is 32 bytes, big-endian, from 1 to the group's order - 1."""
        scalar = int.from_bytes(secret)
        if len(secret) != 32 or not 0 < scalar < curve_order:
            raise ConfigurationError("BLS key", "no scalar of the group in 32 bytes")
        self._scalar = scalar
        self.public_key = PublicKey(_encoded(multiply(G1, scalar)))

    def __repr__(self) -> str:
        return f"BlsSigner({hex0x(key_hash(self.public_key))})"

    def sign(self, message: Digest) -> BlsSignature:
        """Signature of a finding's digest."""
        return self._signed(message, Suite.DST)

    def prove_possession(self, domain: Domain, account: Address) -> BlsSignature:
        """The proof that `BlsKeys` at `domain` requires of `account` for this key."""
        return self._signed(possession_digest(domain, account, self.public_key), Suite.POP_TAG)

    def _signed(self, message: Digest, tag: bytes) -> BlsSignature:
        return BlsSignature(_encoded(multiply(_hashed(message, tag), self._scalar)))


def key_hash(key: PublicKey) -> Digest:
    """The name of a key on-chain."""
    return Digest(keccak(key))


def possession_digest(domain: Domain, account: Address, key: PublicKey) -> Digest:
    """EIP-712 digest that a proof of possession signs."""
    return typed_digest(domain, Possession(account, key_hash(key)))


def hash_to_curve(message: Digest, tag: bytes) -> bytes:
    """RFC 9380 point of G2 for a message of 32 bytes."""
    return _encoded(_hashed(message, tag))


def aggregate(parts: Iterable[tuple[BlsSignature, int]]) -> BlsSignature:
    """Sum of signatures, each multiplied by its signer's number of seats; `MalformedValue` for a signature outside the group."""
    total = Z2
    for signature, seats in parts:
        total = add(total, multiply(_point_of_g2(signature), _seats(seats)))
    return BlsSignature(_encoded(total))


def committee_key(parts: Iterable[tuple[PublicKey, int]]) -> PublicKey:
    """Sum of keys, each multiplied by its number of seats; `MalformedValue` for a key outside the group."""
    total = Z1
    for key, seats in parts:
        total = add(total, multiply(_point_of_g1(key), _seats(seats)))
    return PublicKey(_encoded(total))


def check_signature(key: PublicKey, message: Digest, signature: BlsSignature) -> None:
    """Checks one part, or the whole, as an aggregator does. Takes about a second. `BadSignature`, or `MalformedValue` for a bad
    point."""
    _check(key, message, signature, Suite.DST)


def check_possession(domain: Domain, account: Address, key: PublicKey, proof: BlsSignature) -> None:
    """Checks what `BlsKeys` checks at registration; errors as `check_signature`."""
    _check(key, possession_digest(domain, account, key), proof, Suite.POP_TAG)


def point_words(point: bytes) -> tuple[bytes, ...]:
    """A point as an argument of a contract call."""
    return tuple(point[i : i + 32] for i in range(0, len(point), 32))


def _check(key: PublicKey, message: Digest, signature: BlsSignature, tag: bytes) -> None:
    signer, given = _point_of_g1(key), _point_of_g2(signature)
    if is_inf(signer):
        raise MalformedValue("BLS key", "infinity")
    # e(key, hash) = e(generator, signature), as one product with one final exponentiation.
    left = pairing(_hashed(message, tag), signer, final_exponentiate=False)
    right = pairing(given, neg(G1), final_exponentiate=False)
    if final_exponentiate(left * right) != type(left).one():
        raise BadSignature("BLS signature", f"key {hex0x(key_hash(key))}", "another key or over another message")


def _hashed(message: Digest, tag: bytes) -> Any:
    function: Any = sha256  # the library's annotation asks for a hash object, its code for the constructor
    return hash_to_G2(digest(message), tag, function)


def _seats(count: int) -> int:
    if count < 1:
        raise MalformedValue("seats", str(count))
    return count


def _encoded(point: Any) -> bytes:
    if is_inf(point):
        return bytes(_SIGNATURE_SIZE if isinstance(point[0], Fq2) else _KEY_SIZE)
    numbers = [part for each in normalize(point) for part in (each.coeffs if isinstance(each, Fq2) else (each,))]
    return b"".join(int(number).to_bytes(_FIELD_BYTES) for number in numbers)


def _numbers(what: str, data: bytes, size: int) -> list[int]:
    if len(data) != size:
        raise MalformedValue(what, f"{len(data)} bytes instead of {size}")
    numbers = [int.from_bytes(data[i : i + _FIELD_BYTES]) for i in range(0, size, _FIELD_BYTES)]
    if max(numbers) >= field_modulus:
        raise MalformedValue(what, "a coordinate is not below the field's modulus")
    return numbers


def _point_of_g1(key: PublicKey) -> Any:
    x, y = _numbers("BLS key", key, _KEY_SIZE)
    return Z1 if x == y == 0 else _of_the_group("BLS key", (Fq(x), Fq(y), Fq(1)), b)


def _point_of_g2(signature: BlsSignature) -> Any:
    x0, x1, y0, y1 = _numbers("BLS signature", signature, _SIGNATURE_SIZE)
    if x0 == x1 == y0 == y1 == 0:
        return Z2
    return _of_the_group("BLS signature", (Fq2([x0, x1]), Fq2([y0, y1]), Fq2([1, 0])), b2)


def _of_the_group(what: str, point: Any, constant: Any) -> Any:
    if not is_on_curve(point, constant):
        raise MalformedValue(what, "not on the curve")
    if not subgroup_check(point):
        raise MalformedValue(what, "outside the subgroup")
    return point
