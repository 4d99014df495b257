"""BLS12-381 signatures of verdict certificates: keys in G1, signatures in G2, points in the encoding of EIP-2537.

The suite is `BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_`, over 32-byte EIP-712 digests. A point is encoded as its coordinates,
each of 64 bytes, big-endian, c0 before c1; infinity is all zero. The running time of `bytewise.crypto.bls_points` depends on the
secret. Sign only where nobody else can measure the time.
"""

from collections.abc import Iterable, Sequence
from typing import NewType

from eth_utils.crypto import keccak

from bytewise.crypto import bls_points
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.records.statements import Possession
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.units import Address, Digest, hex0x

PublicKey = NewType("PublicKey", bytes)
"""A point of G1, 128 bytes."""

BlsSignature = NewType("BlsSignature", bytes)
"""A point of G2, 256 bytes."""

MESSAGE_TAG, POSSESSION_TAG = b"BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_", b"BLS_POP_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_"
"""Domain separation tags of message signatures and of proofs of possession."""


class BlsSigner:
    """A verifier's secret key for certificates. Its text form shows only the hash of the public key."""

    def __init__(self, secret: bytes) -> None:
        """Takes the secret: 32 bytes, big-endian, from 1 to the group's order - 1. Raises `ConfigurationError` for any other."""
        scalar = int.from_bytes(secret)
        if len(secret) != 32 or not 0 < scalar < bls_points.ORDER:
            raise ConfigurationError("BLS key", "no scalar of the group in 32 bytes")
        self._scalar = scalar
        self.public_key = PublicKey(bls_points.key_of(scalar))

    def __repr__(self) -> str:
        return f"BlsSigner({hex0x(key_hash(self.public_key))})"

    def sign(self, message: Digest) -> BlsSignature:
        """Signs the digest of a finding."""
        return self._signed(message, MESSAGE_TAG)

    def prove_possession(self, domain: Domain, account: Address) -> BlsSignature:
        """Returns the proof of possession that the contract `BlsKeys` at `domain` requires of `account` for this key."""
        return self._signed(possession_digest(domain, account, self.public_key), POSSESSION_TAG)

    def _signed(self, message: Digest, tag: bytes) -> BlsSignature:
        return BlsSignature(bls_points.hash_to_curve(message, tag, self._scalar))


def key_hash(key: PublicKey) -> Digest:
    """Returns the hash that names a key on the chain."""
    return Digest(keccak(key))


def possession_digest(domain: Domain, account: Address, key: PublicKey) -> Digest:
    """Returns the EIP-712 digest that a proof of possession signs."""
    return typed_digest(domain, Possession(account, key_hash(key)))


def hash_to_curve(message: Digest, tag: bytes) -> bytes:
    """Hashes a message of 32 bytes to a point of G2 (RFC 9380)."""
    return bls_points.hash_to_curve(message, tag)


def aggregate(parts: Iterable[tuple[BlsSignature, int]]) -> BlsSignature:
    """Returns the sum of signatures, each multiplied by its signer's number of seats.

    Raises `MalformedValue` for a signature outside the group.
    """
    return BlsSignature(bls_points.sum_of_signatures(parts))


def committee_key(parts: Iterable[tuple[PublicKey, int]]) -> PublicKey:
    """Returns the sum of keys, each multiplied by its owner's number of seats.

    Raises `MalformedValue` for a key outside the group.
    """
    return PublicKey(bls_points.sum_of_keys(parts))


def check_signature(key: PublicKey, message: Digest, signature: BlsSignature) -> None:
    """Checks the signature of one signer, or an aggregate under the sum of its keys.

    Raises `BadSignature` for a wrong signature, and `MalformedValue` for an invalid point.
    """
    _check(key, message, signature, MESSAGE_TAG)


def check_sync_signature(
    members: Sequence[bytes], total: bytes, signed: Sequence[bool], message: Digest, signature: bytes
) -> None:
    """Checks the aggregate signature of a sync committee of the beacon chain, whose points are in compressed form.

    `signed` says which members signed. `total` is the sum of all members' keys, from the beacon state. The key of the signers is
    the sum of their keys, or `total` minus the keys of the other members, whichever needs fewer keys. The beacon chain checked
    the keys when their validators joined. Raises the errors of `check_signature`.
    """
    present = [key for key, has_signed in zip(members, signed, strict=True) if has_signed]
    absent = [key for key, has_signed in zip(members, signed, strict=True) if not has_signed]
    parts = (present, ()) if len(present) < len(absent) else ((total,), absent)
    key = PublicKey(bls_points.difference_of_keys(*parts))
    _check(key, message, BlsSignature(bls_points.expand_signature(signature)), MESSAGE_TAG)


def check_possession(domain: Domain, account: Address, key: PublicKey, proof: BlsSignature) -> None:
    """Checks a proof of possession as the contract `BlsKeys` does at registration. Raises the errors of `check_signature`."""
    _check(key, possession_digest(domain, account, key), proof, POSSESSION_TAG)


def point_words(point: bytes) -> tuple[bytes, ...]:
    """Splits a point into the 32-byte words that a contract call takes."""
    return tuple(point[i : i + 32] for i in range(0, len(point), 32))


def _check(key: PublicKey, message: Digest, signature: BlsSignature, tag: bytes) -> None:
    if not bls_points.verifies(key, message, signature, tag):
        raise BadSignature("BLS signature", f"key {hex0x(key_hash(key))}", "another key or over another message")
