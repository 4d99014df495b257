"""BLS12-381 signatures, and the verdict certificates that are made of them: keys in G1, signatures in G2.

The suite is `BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_`, over digests of 32 bytes. A point is encoded as in EIP-2537: its
coordinates, each of 64 bytes, big-endian, c0 before c1; infinity is all zero. The library `py_arkworks_bls12381` encodes a
coordinate in 48 bytes. The running time of this module depends on the secret. Sign only where nobody else can measure the time.

A verdict certificate is the sum of the signatures of committee members over one finding (ADR-030).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, NewType, TypeVar

from eth_utils.crypto import keccak
from py_arkworks_bls12381 import GT, G1Point, G2Point, Scalar

from bytewise.protocol.decisions.snapshot import Seat
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import BadSignature, MalformedValue
from bytewise.protocol.records.statements import Possession
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.units import Address, Digest, digest, hex0x

ORDER = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
"""Order of the groups G1 and G2 (RFC 9380, section 8.8)."""

_FIELD_BYTES, _PADDED_BYTES = 48, 64
_MODULUS = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB

_Point = TypeVar("_Point", G1Point, G2Point)

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
        if len(secret) != 32 or not 0 < scalar < ORDER:
            raise ConfigurationError("BLS key", "no scalar of the group in 32 bytes")
        self._scalar = scalar
        self.public_key = PublicKey(_encoded(G1Point() * Scalar.from_be_bytes(secret)))

    def __repr__(self) -> str:
        return f"BlsSigner({hex0x(key_hash(self.public_key))})"

    def sign(self, message: Digest) -> BlsSignature:
        """Signs a digest of 32 bytes. For a certificate it is the result of `commitments.certified_digest`."""
        return self._signed(message, MESSAGE_TAG)

    def prove_possession(self, domain: Domain, account: Address) -> BlsSignature:
        """Returns the proof of possession that the contract `BlsKeys` at `domain` requires of `account` for this key."""
        return self._signed(possession_digest(domain, account, self.public_key), POSSESSION_TAG)

    def _signed(self, message: Digest, tag: bytes) -> BlsSignature:
        return BlsSignature(hash_to_curve(message, tag, self._scalar))


def key_hash(key: PublicKey) -> Digest:
    """Returns the hash that names a key on the chain."""
    return Digest(keccak(key))


def possession_digest(domain: Domain, account: Address, key: PublicKey) -> Digest:
    """Returns the EIP-712 digest that a proof of possession signs."""
    return typed_digest(domain, Possession(account, key_hash(key)))


def hash_to_curve(message: Digest, tag: bytes, scalar: int = 1) -> bytes:
    """Hashes a message of 32 bytes to a point of G2 (RFC 9380), and returns this point times a scalar."""
    return _encoded(G2Point.hash_to_curve(digest(message), tag) * Scalar.from_be_bytes(scalar.to_bytes(32)))


def aggregate(parts: Iterable[tuple[BlsSignature, int]]) -> BlsSignature:
    """Returns the sum of signatures, each multiplied by its signer's number of seats.

    Raises `MalformedValue` for a signature outside the group, or a number of seats below 1.
    """
    return BlsSignature(_encoded(sum((_signature(each) * _positive(times) for each, times in parts), G2Point.identity())))


def committee_key(parts: Iterable[tuple[PublicKey, int]]) -> PublicKey:
    """Returns the sum of keys, each multiplied by its owner's number of seats.

    Raises `MalformedValue` for a key outside the group, or a number of seats below 1.
    """
    return PublicKey(_encoded(sum((_key(key) * _positive(times) for key, times in parts), G1Point.identity())))


def check_signature(key: PublicKey, message: Digest, signature: BlsSignature) -> None:
    """Checks the signature of one signer, or an aggregate under the sum of its keys.

    Raises `BadSignature` for a wrong signature, and `MalformedValue` for an invalid point.
    """
    _check(key, message, signature, MESSAGE_TAG)


def check_sync_signature(
    members: Sequence[bytes], total: bytes, signed: Sequence[bool], message: Digest, signature: bytes
) -> None:
    """Checks the aggregate signature of a sync committee of the beacon chain. Keys and signature are in compressed form.

    `signed` says which members signed. `total` is the sum of all members' keys, from the beacon state. The key of the signers
    is the sum of their keys. If at least half of the members signed, this sum is computed as `total` minus the keys of the other
    members, which needs fewer keys. No proof of possession is checked, because the beacon chain checked one when each validator
    joined. Raises the errors of `check_signature`, and `ValueError` if `members` and `signed` have different lengths.
    """
    present = [key for key, has_signed in zip(members, signed, strict=True) if has_signed]
    absent = [key for key, has_signed in zip(members, signed, strict=True) if not has_signed]
    parts = (present, ()) if len(present) < len(absent) else ((total,), absent)
    key = PublicKey(difference_of_keys(*parts))
    _check(key, message, BlsSignature(expand_signature(signature)), MESSAGE_TAG)


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


def check_possession(domain: Domain, account: Address, key: PublicKey, proof: BlsSignature) -> None:
    """Checks a proof of possession as the contract `BlsKeys` does at registration. Raises the errors of `check_signature`."""
    _check(key, possession_digest(domain, account, key), proof, POSSESSION_TAG)


def point_words(point: bytes) -> tuple[bytes, ...]:
    """Splits a point into the 32-byte words that a contract call takes."""
    return tuple(point[i : i + 32] for i in range(0, len(point), 32))


class BlsCertificate(NamedTuple):
    """An aggregate BLS signature over a finding, with the keys that made it. `Rounds.certify` takes it."""

    signers: int
    """Bit mask of the seats that signed."""
    keys: tuple[PublicKey, ...]
    """One key for each seat that signed, lowest seat first. A member with several seats appears several times."""
    signature: BlsSignature


def signing_mask(members: Sequence[Seat], keys: Mapping[Address, PublicKey], willing: Collection[Address]) -> int:
    """Returns the bit mask of the seats that a certificate names. Every signer signs for this whole mask
    (`commitments.certified_digest`).

    `willing` are the members whose opened votes fit their commitments under the commit root. The mask has the seats of each
    willing member that has a key and did not commit on the chain.
    """
    return sum(each.seat_mask for each in members if each.voter in willing and each.voter in keys and not each.committed)


def certificate(
    members: Sequence[Seat], keys: Mapping[Address, PublicKey], signatures: Mapping[Address, BlsSignature]
) -> BlsCertificate:
    """Combines the signatures into one certificate. Each signer must have signed for the seats of all signers (`signing_mask`).

    Raises `MalformedValue` if there is no signature, or if a signer has no key, has no seat, or committed on the chain. The
    caller must check each signature first (`bls.check_signature`), because one bad signature makes the whole certificate invalid.
    """
    strangers = signatures.keys() - {each.voter for each in members if each.voter in keys and not each.committed}
    if not signatures or strangers:
        raise MalformedValue("certificate", f"signed by {len(signatures)}, of whom may not: {sorted(strangers)}")
    signing_members = [each for each in members if each.voter in signatures]
    key_at = {seat: keys[each.voter] for each in signing_members for seat in _seats_in(each.seat_mask)}
    return BlsCertificate(
        signers=sum(each.seat_mask for each in signing_members),
        keys=tuple(key_at[seat] for seat in sorted(key_at)),
        signature=aggregate((signatures[each.voter], each.seat_mask.bit_count()) for each in signing_members),
    )


def _seats_in(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def is_signed_by_all(
    members: Sequence[Seat], keys: Mapping[Address, PublicKey], message: Digest, signatures: Mapping[Address, BlsSignature]
) -> bool:
    """Returns whether the aggregate of all these signatures is valid.

    Every signer must have a key in `keys` and seats in `members`. A call takes the time of one call of `is_signed`, and for each
    signature a tenth of that time in addition.
    """
    seats = {each.voter: each.seat_mask.bit_count() for each in members}
    try:
        whole = aggregate((signature, seats[who]) for who, signature in signatures.items())
        check_signature(committee_key((keys[who], seats[who]) for who in signatures), message, whole)
    except (BadSignature, MalformedValue):
        return False
    return True


def is_signed(key: PublicKey, message: Digest, signature: BlsSignature) -> bool:
    """Returns whether the key signed the message. It takes some 2 ms of processor time."""
    try:
        check_signature(key, message, signature)
    except (BadSignature, MalformedValue):
        return False
    return True


def _check(key: PublicKey, message: Digest, signature: BlsSignature, tag: bytes) -> None:
    signer, given = _key(key), _signature(signature)
    if signer == G1Point.identity():
        raise MalformedValue("BLS key", "infinity")
    # e(key, hash) = e(generator, signature), as one product with one final exponentiation.
    if not GT.pairing_check([signer, -G1Point()], [G2Point.hash_to_curve(digest(message), tag), given]):
        raise BadSignature("BLS signature", f"key {hex0x(key_hash(key))}", "another key or over another message")


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
    # The library also accepts other bytes as an encoding of infinity.
    if point.to_compressed_bytes() != data:
        raise MalformedValue(what, "another encoding of the point")
    return point


def _positive(times: int) -> Scalar:
    if times < 1:
        raise MalformedValue("seats", str(times))
    return Scalar(times)
