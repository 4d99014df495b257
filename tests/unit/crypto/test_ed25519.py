"""The one rule for Ed25519: what honest signers make is taken, and what libraries disagree about is refused."""

import os

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from bytewise.crypto.ed25519 import verify_ed25519
from tests.fixtures.capsule import weak_signatures as weak

MESSAGE = b"checkpoint"


def test_signatures_of_honest_keys_are_taken() -> None:
    for _ in range(20):
        secret, message = Ed25519PrivateKey.generate(), os.urandom(40)
        key, signature = secret.public_key().public_bytes_raw(), secret.sign(message)
        verify_ed25519(key, signature, message)
        for wrong in (signature[:-1], b"", signature[:32] + bytes(32), secret.sign(message + b"x")):
            with pytest.raises(InvalidSignature):
                verify_ed25519(key, wrong, message)


@pytest.mark.parametrize("multiple", range(8))
def test_key_of_small_order_is_refused_in_every_form(multiple: int) -> None:
    """OpenSSL takes a signature that anybody can make."""
    point = weak.SMALL_ORDER[multiple]
    forms = {point.y} | ({point.y + weak.P} if point.y < 19 else set())
    for key in ((y | odd << 255).to_bytes(32, "little") for y in forms for odd in ({point.x & 1} if point.x else {0, 1})):
        signature = weak.forged(point, key, MESSAGE)
        Ed25519PublicKey.from_public_bytes(key).verify(signature, MESSAGE)
        with pytest.raises(ValueError, match="small order"):
            verify_ed25519(key, signature, MESSAGE)


def test_key_in_another_form_is_refused() -> None:
    for y in range(19):
        with pytest.raises(ValueError, match="canonical form"):
            verify_ed25519((y + weak.P).to_bytes(32, "little"), bytes(64), MESSAGE)
    for key in (b"", bytes(31), bytes(33)):
        with pytest.raises(ValueError, match="canonical form"):
            verify_ed25519(key, bytes(64), MESSAGE)


def test_signatures_that_hold_with_the_cofactor_alone_are_refused() -> None:
    secret = Ed25519PrivateKey.generate()
    own = secret.public_key().public_bytes_raw()
    twisted = weak.twisted(secret.private_bytes_raw(), own, MESSAGE)
    key = weak.twisted_key(5)
    for public, signature in ((own, twisted), (key, weak.cofactored(5, key, MESSAGE))):
        assert holds_with_cofactor(public, signature)
        with pytest.raises(InvalidSignature):
            verify_ed25519(public, signature, MESSAGE)


def test_scalar_beyond_the_order_is_refused() -> None:
    secret = Ed25519PrivateKey.generate()
    signature = secret.sign(MESSAGE)
    larger = int.from_bytes(signature[32:], "little") + weak.ORDER
    with pytest.raises(InvalidSignature):
        verify_ed25519(secret.public_key().public_bytes_raw(), signature[:32] + larger.to_bytes(32, "little"), MESSAGE)


def holds_with_cofactor(key: bytes, signature: bytes) -> bool:
    """The equation of RFC 8032 times eight."""
    first, public = (
        weak.point_at(int.from_bytes(each, "little") & (2**255 - 1), each[31] >> 7) for each in (signature[:32], key)
    )
    k = weak.challenge(signature[:32], key, MESSAGE)
    left = weak.BASE.times(int.from_bytes(signature[32:], "little"))
    return left.times(8) == first.plus(public.times(k)).times(8)
