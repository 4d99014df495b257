"""Encapsulates a chosen message with ML-KEM-768 (FIPS 203). Key generation and decapsulation are in `bytewise.crypto.hpke`.

The usual library draws the message itself and does not return it. Here the message follows from the content of the envelope. An
enclave that opened an envelope can therefore encapsulate again, and see whether the sender gave every shard the right part
(`bytewise.crypto.hybrid`). The message lives as long as one envelope. Only the library handles secrets that live longer, which
are the decapsulation keys.
"""

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.suites import KEM_KEY_BYTES
from bytewise.protocol.units import Blob

Polynomials = NDArray[np.int64]
"""Coefficients modulo q. The last two axes have 128 and 2 elements: the pairs of coefficients of X^2i and X^(2i+1), or the 128
residues of the number-theoretic transform, which have two coefficients each."""

CIPHERTEXT_BYTES = 1088
MESSAGE_BYTES = 32

_Q, _K = 3329, 3
_ROOT = 17
_DU, _DV = 10, 4
_SAMPLED_BYTES = 768
"""Bytes of one draw. They give 512 candidates, of which 416 on average are below q. A polynomial needs 256 of them; if there are
fewer, more bytes are drawn."""


@dataclass(frozen=True, slots=True)
class Encapsulated:
    """Result of an encapsulation."""

    secret: bytes = field(repr=False)
    """Shared secret of 32 bytes, from which the AEAD key is derived."""
    ciphertext: Blob
    """1,088 bytes, from which the shard recovers the secret."""


class _Key(NamedTuple):
    """An encapsulation key in the form that the arithmetic needs."""

    vector: Polynomials
    matrix: Polynomials
    """The public matrix, transposed."""
    digest: bytes


def verify_key(key: bytes) -> bytes:
    """Returns the encapsulation key if it passes the checks of FIPS 203, 7.2. Otherwise raises `MalformedValue`."""
    _parsed(key)
    return key


def encapsulate(key: bytes, message: bytes) -> Encapsulated:
    """Runs `ML-KEM.Encaps_internal` (algorithm 17). The result depends only on the key and on the message.

    `message`: 32 bytes, uniform and secret. Raises `MalformedValue` if the key or the length of the message is wrong.
    """
    if len(message) != MESSAGE_BYTES:
        raise MalformedValue("ML-KEM message", f"{len(message)} bytes")
    parsed = _parsed(key)
    expanded = hashlib.sha3_512(message + parsed.digest).digest()
    return Encapsulated(expanded[:32], Blob(_encrypt(parsed, message, expanded[32:])))


def _encrypt(key: _Key, message: bytes, randomness: bytes) -> bytes:
    """Runs `K-PKE.Encrypt` (algorithm 14)."""
    noise = _centred(randomness, 2 * _K + 1)
    transformed = _transform(noise[:_K])
    u = (_inverse(_products(key.matrix, transformed)) + noise[_K : 2 * _K]) % _Q
    bit_values = _bits(message, 1).reshape(128, 2) * ((_Q + 1) // 2)
    v = (_inverse(_products(key.vector, transformed)) + noise[2 * _K] + bit_values) % _Q
    return _packed(_compressed(u, _DU), _DU) + _packed(_compressed(v, _DV), _DV)


@lru_cache(maxsize=256)
def _parsed(key: bytes) -> _Key:
    if len(key) != KEM_KEY_BYTES:
        raise MalformedValue("ML-KEM-768 key", f"{len(key)} bytes")
    vector, rho = _bits(key[:-32], 12).reshape(_K, 128, 2), key[-32:]
    if (vector >= _Q).any():
        raise MalformedValue("ML-KEM-768 key", "a coefficient is not below q")
    rows = [[_uniform(rho + bytes((row, column))) for column in range(_K)] for row in range(_K)]
    return _Key(vector, np.array(rows), hashlib.sha3_256(key).digest())


def _uniform(seed: bytes) -> Polynomials:
    """Runs `SampleNTT` (algorithm 7). The seed is public."""
    size, found = 0, np.empty(0, np.int64)
    while len(found) < 256:
        size += _SAMPLED_BYTES
        triples = np.frombuffer(hashlib.shake_128(seed).digest(size), np.uint8).astype(np.int64).reshape(-1, 3)
        low = triples[:, 0] + 256 * (triples[:, 1] % 16)
        high = triples[:, 1] // 16 + 16 * triples[:, 2]
        candidates = np.stack((low, high), axis=1).ravel()
        found = candidates[candidates < _Q]
    return found[:256].reshape(128, 2)


def _centred(randomness: bytes, count: int) -> Polynomials:
    """Returns `count` noise polynomials: `SamplePolyCBD` (algorithm 8) over `PRF`, both with eta 2, for the numbers 0 to `count`
    - 1."""
    drawn = b"".join(hashlib.shake_256(randomness + bytes((number,))).digest(128) for number in range(count))
    values: Polynomials = _bits(drawn, 1).reshape(-1, 4) @ np.array((1, 1, -1, -1))
    return values.reshape(count, 128, 2)


def _products(rows: Polynomials, vector: Polynomials) -> Polynomials:
    """Multiplies vectors in the transformed ring and adds up the products over the axis of length `_K`.

    In each residue, X^2 equals a fixed power of the root (`_POWERS`).
    """
    a, b, c, d = rows[..., 0], rows[..., 1], vector[..., 0], vector[..., 1]
    constant = a * c % _Q + b * d % _Q * _POWERS
    return np.stack((constant.sum(axis=-2), (a * d + b * c).sum(axis=-2)), axis=-1) % _Q


def _transform(polynomials: Polynomials) -> Polynomials:
    """Runs `NTT` (algorithm 9) by its definition.

    It evaluates the even and the odd half of a polynomial at 128 powers of the root.
    """
    return _FORWARD @ polynomials % _Q


def _inverse(residues: Polynomials) -> Polynomials:
    return _BACKWARD @ residues % _Q


def _compressed(values: Polynomials, bits: int) -> Polynomials:
    return ((values << bits) + _Q // 2) // _Q % (1 << bits)


def _bits(data: bytes, width: int) -> Polynomials:
    """Runs `ByteDecode` (algorithm 6): returns the integers of `width` bits."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").reshape(-1, width)
    return bits.astype(np.int64) @ (1 << np.arange(width))


def _packed(values: Polynomials, width: int) -> bytes:
    """Runs `ByteEncode` (algorithm 5): returns the bytes of integers of `width` bits."""
    bits = (values.reshape(-1, 1) >> np.arange(width)) & 1
    return np.packbits(bits.astype(np.uint8), bitorder="little").tobytes()


def _reversed(index: int) -> int:
    return int(f"{index:07b}"[::-1], 2)


_EXPONENTS = [2 * _reversed(index) + 1 for index in range(128)]
_POWERS = np.array([pow(_ROOT, exponent, _Q) for exponent in _EXPONENTS])
_FORWARD = np.array([[pow(_ROOT, exponent * power, _Q) for power in range(128)] for exponent in _EXPONENTS])
_BACKWARD = np.array(
    [[pow(_ROOT, -exponent * power, _Q) * pow(128, -1, _Q) % _Q for exponent in _EXPONENTS] for power in range(128)]
)
