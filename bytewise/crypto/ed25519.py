"""Verifies Ed25519 signatures by one strict rule. The capsule's page applies the same rule (`chain/capsule/page/src/ed25519.js`).

Libraries differ on keys and signatures that no honest signer makes ("Taming the many EdDSAs", Chalkias et al., 2020). The rule
(ADR-001) therefore decides these cases. The key must be in canonical form and not of small order. The equation has no cofactor:
[s]B - [k]A encodes to R.
"""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

KEY_BYTES = 32
_PRIME = 2**255 - 19
_SMALL_Y = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
"""The y coordinate of two of the four points of order 8."""
_SMALL_ORDER = frozenset({0, 1, _PRIME - 1, _SMALL_Y, _PRIME - _SMALL_Y})
"""The y coordinates of all eight points whose order divides 8."""


def verify_ed25519(key: bytes, signature: bytes, message: bytes) -> None:
    """Checks that the key signed the message.

    Raises `ValueError` if the key does not have 32 bytes, is of small order or is not in canonical form. Everybody can sign under
    a key of small order. If a key had two forms, its signer could deny one of them. Raises `InvalidSignature` for a wrong
    signature, and for every signature under a key that is no point of the curve.
    """
    y = int.from_bytes(key, "little") & (2**255 - 1)
    if len(key) != KEY_BYTES or y >= _PRIME or y in _SMALL_ORDER:
        raise ValueError("the Ed25519 key is not in canonical form, or of small order")
    # OpenSSL compares encodings: no cofactor, R in canonical form, s below the order of the group.
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except InvalidSignature:
        raise InvalidSignature("the Ed25519 signature is wrong") from None
