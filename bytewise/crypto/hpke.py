"""HPKE (RFC 9180) with DHKEM(P-256, HKDF-SHA256) in the modes base and PSK. The Diffie-Hellman point is an argument.

Libraries compute this point from the private key and do not show it. In a threshold opening nobody has the private key; the
opener has only the point that `t` shards computed together.
"""

import hashlib
import hmac
from dataclasses import dataclass, field

from Crypto.PublicKey.ECC import EccPoint
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from bytewise.crypto.curve import (
    GENERATOR,
    POINT_BYTES,
    Rng,
    decode_point,
    decode_scalar,
    encode_point,
    point_flaw,
    random_scalar,
)
from bytewise.protocol.errors.records import MalformedPoint, MalformedValue
from bytewise.protocol.units import Blob

_KDF_ID = 0x0001
DHKEM_P256, ML_KEM_768 = 0x0010, 0x0041
"""KEM ids, from RFC 9180 table 2 and from the registry of HPKE."""
AES_128_GCM, AES_256_GCM = 0x0001, 0x0002
"""AEAD ids of RFC 9180 table 5. The network uses 2; 1 exists because the RFC's own P-256 vectors use it."""
_KEY_BYTES = {AES_128_GCM: 16, AES_256_GCM: 32}
_NONCE_BYTES, _TAG_BYTES = 12, 16
_TRANSPORT = Suite(KEM.P256, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
_TO_SHARD = Suite(KEM.MLKEM768, KDF.HKDF_SHA256, AEAD.AES_256_GCM)

KEM_SEED_BYTES = 64
"""Length of a decapsulation key of ML-KEM-768 in its short form: the seeds d and z, which FIPS 203 allows to be stored."""


@dataclass(frozen=True, slots=True)
class Psk:
    """A pre-shared key and its name."""

    value: bytes = field(repr=False)
    """Uniform and secret, 32 bytes; empty for mode base."""
    id: bytes
    """Public name of the key. The key schedule binds it."""


NO_PSK = Psk(b"", b"")


class Context:
    """Key and base nonce of one HPKE context. Each context encrypts exactly one message, so the nonce needs no counter."""

    __slots__ = ("base_nonce", "key")

    def __init__(self, key: bytes, base_nonce: bytes) -> None:
        self.key = key
        self.base_nonce = base_nonce

    def seal(self, plaintext: bytes, aad: bytes = b"") -> bytes:
        """Encrypts the context's one message. Returns ciphertext and tag."""
        return AESGCM(self.key).encrypt(self.base_nonce, plaintext, aad)

    def open(self, ciphertext: bytes, aad: bytes = b"") -> bytes | None:
        """Decrypts the context's one message. Returns None if the tag is wrong."""
        try:
            return AESGCM(self.key).decrypt(self.base_nonce, ciphertext, aad)
        except InvalidTag:
            return None

    def open_into(self, ciphertext: bytes, buffer: bytearray) -> bool:
        """Decrypts the context's one message into `buffer`, which must have the plaintext's length. No other copy remains.
        Returns False if the tag is wrong."""
        try:
            AESGCM(self.key).decrypt_into(self.base_nonce, ciphertext, None, buffer)
        except InvalidTag:
            return False
        finally:
            _overwrite_scratch(len(buffer))
        return True


def _overwrite_scratch(size: int) -> None:
    """Decrypts zeros of the same size, which overwrites what the last decryption left in memory.

    With AVX-512, OpenSSL leaves the last block of a plaintext on the stack of the thread that decrypted it. The next decryption
    overwrites this block.
    """
    zeros = AESGCM(bytes(16))
    zeros.decrypt_into(bytes(12), zeros.encrypt(bytes(12), bytes(size), None), None, bytearray(size))


def shared_secret(dh_point: EccPoint, enc: bytes, public_key: bytes) -> bytes:
    """Returns `ExtractAndExpand(dh, enc ‖ pkRm)` of RFC 9180, 4.1, where dh is the x coordinate of `dh_point`."""
    suite = b"KEM" + DHKEM_P256.to_bytes(2, "big")
    secret = encode_point(dh_point)[1:33]
    prk = _labeled_extract(suite, b"", b"eae_prk", secret)
    return _labeled_expand(suite, prk, b"shared_secret", enc + public_key, 32)


def key_schedule(secret: bytes, info: bytes, aead: int = AES_256_GCM, psk: Psk = NO_PSK, kem: int = DHKEM_P256) -> Context:
    """Runs `KeySchedule` of RFC 9180, 5.1. The mode is PSK if `psk` is not empty, else base."""
    suite = b"HPKE" + b"".join(i.to_bytes(2, "big") for i in (kem, _KDF_ID, aead))
    psk_id_hash = _labeled_extract(suite, b"", b"psk_id_hash", psk.id)
    info_hash = _labeled_extract(suite, b"", b"info_hash", info)
    context = (b"\x01" if psk.value else b"\x00") + psk_id_hash + info_hash
    prk = _labeled_extract(suite, secret, b"secret", psk.value)
    return Context(
        _labeled_expand(suite, prk, b"key", context, _KEY_BYTES[aead]),
        _labeled_expand(suite, prk, b"base_nonce", context, _NONCE_BYTES),
    )


def transport_keypair(rng: Rng) -> tuple[bytes, Blob]:
    """Draws a fresh transport key. Returns the 32-byte secret scalar and the 65-byte public point."""
    scalar = random_scalar(rng)
    return scalar.to_bytes(32, "big"), encode_point(GENERATOR * scalar)


def seal_to_transport(public_key: bytes, info: bytes, plaintext: bytes) -> Blob:
    """Seals a message to a transport key with HPKE. Raises `MalformedPoint` if the key is not a valid point."""
    flaw = point_flaw(public_key)
    if flaw is not None:
        raise MalformedPoint("transport key", f"{len(public_key)} bytes, {flaw}", flaw)
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), public_key)
    return Blob(_TRANSPORT.encrypt(plaintext, key, info=info))


def open_from_transport(secret: bytes, info: bytes, sealed: bytes) -> bytes:
    """Opens a message that was sealed to this transport key.

    Raises `MalformedValue` if the bytes were not sealed to this key under this `info`, or were altered.
    """
    key = ec.derive_private_key(int.from_bytes(secret), ec.SECP256R1())
    if len(sealed) < POINT_BYTES:
        raise MalformedValue("sealed message", "truncated")
    try:
        return bytes(_TRANSPORT.decrypt(sealed, key, info=info))
    except (InvalidTag, ValueError):
        raise MalformedValue("sealed message", "does not open") from None


def open_from_transport_into(secret: bytes, public_key: bytes, info: bytes, sealed: bytes, buffer: bytearray) -> None:
    """Opens a sealed message into `buffer`, which must have the message's length. The buffer is then the only copy.

    Needs both halves of the transport key. Raises `MalformedValue` as `open_from_transport` does.
    """
    if len(sealed) != POINT_BYTES + len(buffer) + _TAG_BYTES:
        raise MalformedValue("sealed message", f"{len(sealed)} bytes")
    enc = sealed[:POINT_BYTES]
    dh = decode_point(enc) * decode_scalar(secret)
    if not key_schedule(shared_secret(dh, enc, public_key), info).open_into(sealed[POINT_BYTES:], buffer):
        raise MalformedValue("sealed message", "does not open")


def kem_key(seed: bytes) -> Blob:
    """Returns the 1,184-byte encapsulation key that belongs to a seed of `KEM_SEED_BYTES`."""
    return Blob(MLKEM768PrivateKey.from_seed_bytes(seed).public_key().public_bytes_raw())


def open_with_kem(seed: bytes, info: bytes, sealed: bytes) -> bytes | None:
    """Opens a message that was sealed to a shard's ML-KEM-768 key (`key_schedule` with `ML_KEM_768`).

    Returns None if it does not open.
    """
    try:
        return bytes(_TO_SHARD.decrypt(sealed, MLKEM768PrivateKey.from_seed_bytes(seed), info=info))
    except (InvalidTag, ValueError):
        return None


def _labeled_extract(suite: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
    # HKDF-Extract with an empty salt uses HashLen zeros (RFC 5869, 2.2); HMAC pads an empty key to the same.
    return hmac.digest(salt, b"HPKE-v1" + suite + label + ikm, hashlib.sha256)


def _labeled_expand(suite: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
    # One block of HKDF-Expand is enough: no output of these suites is longer than 32 bytes.
    full = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(prk, full + b"\x01", hashlib.sha256)[:length]
