"""Shamir shares of a P-256 scalar, Feldman commitments, and partial decapsulation with its proof (design section 8).

The polynomial is f(z) = a_0 + a_1 z + … + a_{t-1} z^{t-1}. Shard i holds f(i). C_k = a_k G is public, so anybody can compute
Y_i = f(i)·G, the verification key of shard i. A shard's partial is D = f(i)·R. t partials give f(0)·R without anybody knowing
f(0).

A partial has a Chaum-Pedersen proof that log_G(Y_i) = log_R(D). The proof exposes a lying shard at once to the enclave, and later
to anybody who has the partial and the envelope. `prove_log` and `knows_log` make and check Schnorr proofs of knowledge of a
logarithm to base G, made non-interactive by Fiat and Shamir.
"""

from collections.abc import Mapping, Sequence
from functools import reduce

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto.curve import (
    GENERATOR,
    ORDER,
    Rng,
    challenge,
    decode_point,
    decode_scalar,
    encode_point,
    encode_scalar,
    random_scalar,
)
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import ConfigurationError, ShardLied
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.keys.epochs import Partial
from bytewise.protocol.units import Digest

MAX_SHARDS = 64
"""Most shards of an epoch. It is far above any planned number, and limits the work that a forged epoch document can cause."""


def split(secret: int, threshold: int, count: int, rng: Rng) -> tuple[dict[int, int], tuple[EccPoint, ...]]:
    """Splits a secret into shares f(1)…f(count). Returns the shares by index, and the Feldman commitments.

    Any `threshold` shares determine the secret. Raises `ConfigurationError` if threshold and count are impossible.
    """
    if not 1 <= threshold <= count <= MAX_SHARDS:
        raise ConfigurationError("shares", f"{threshold} of {count}")
    coefficients = [secret] + [random_scalar(rng) for _ in range(threshold - 1)]
    shares = {index: evaluate(coefficients, index) for index in range(1, count + 1)}
    return shares, tuple(GENERATOR * coefficient for coefficient in coefficients)


def verification_key(index: int, commitments: Sequence[EccPoint]) -> EccPoint:
    """Returns f(index)·G, the public key that the share of `index` must have, from the Feldman commitments."""
    total = commitments[-1].copy()
    for commitment in reversed(commitments[:-1]):
        total = _times(total, index) + commitment
    return total


def verify_share(index: int, share: int, commitments: Sequence[EccPoint]) -> int:
    """Returns the share if it lies on the committed polynomial.

    Otherwise raises `ConfigurationError`: the share file is wrong or old.
    """
    if not 0 < share < ORDER or GENERATOR * share != verification_key(index, commitments):
        raise ConfigurationError(f"share {index}", "does not fit the epoch's commitments")
    return share


def combine(partials: Mapping[int, EccPoint]) -> EccPoint:
    """Returns f(0)·R from the partials f(i)·R by index, by Lagrange interpolation at 0.

    The caller passes at least t verified partials. Raises `MalformedValue` if there is none, or if an index is not from 1 to
    `MAX_SHARDS`.
    """
    if not partials or not all(0 < index <= MAX_SHARDS for index in partials):
        raise MalformedValue("partials", sorted(partials))
    terms = [point * lagrange(index, tuple(partials)) for index, point in sorted(partials.items())]
    return reduce(lambda left, right: left + right, terms)


def _times(point: EccPoint, small: int) -> EccPoint:
    # The index is a public number of a few bits. The library's multiplication would take as long as for 256 bits.
    total = point.copy()
    for bit in bin(small)[3:]:
        total = total.double()
        if bit == "1":
            total += point
    return total


def combine_values(values: Mapping[int, int]) -> int:
    """Returns f(0) from the values f(i) by index.

    The caller then knows the shared secret, so never use it for shares of an epoch's key.
    """
    return sum(value * lagrange(index, tuple(values)) for index, value in values.items()) % ORDER


def lagrange(index: int, indices: Sequence[int], at: int = 0) -> int:
    """Returns the Lagrange coefficient, modulo the group order, by which the share of `index` is multiplied.

    The sum of all shares of `indices`, each times its coefficient, is the polynomial's value at `at`.
    """
    numerator = denominator = 1
    for other in indices:
        if other != index:
            numerator = numerator * (other - at) % ORDER
            denominator = denominator * (other - index) % ORDER
    return numerator * pow(denominator, -1, ORDER) % ORDER


def evaluate(coefficients: Sequence[int], at: int) -> int:
    """Returns the value of a polynomial at `at`, modulo the group order. The coefficients ascend: the constant comes first."""
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * at + coefficient) % ORDER
    return value


def prove_log(label: Label, secret: int, rng: Rng, *statement: bytes | int) -> tuple[int, int]:
    """Proves knowledge of `secret`, the logarithm of a public point to base G. Returns challenge and response.

    `statement` must contain that point. `rng` must never give the same nonce twice.
    """
    nonce = random_scalar(rng)
    e = challenge(label, *statement, encode_point(GENERATOR * nonce))
    return e, (nonce + secret * e) % ORDER


def knows_log(label: Label, point: EccPoint, e: int, f: int, *statement: bytes | int) -> bool:
    """Returns whether the proof (`e`, `f`) shows knowledge of the logarithm of `point`, for this statement."""
    witness = GENERATOR * f + -(point * e)
    # The identity has no encoding. The nonce of an honest proof is not zero, so its witness is never the identity.
    return not witness.is_point_at_infinity() and challenge(label, *statement, encode_point(witness)) == e


def prove_partial(index: int, share: int, base: EccPoint, context: Digest, rng: Rng) -> Partial:
    """Returns a shard's partial for the ephemeral point `base`, with its proof. `context` identifies the receipt."""
    point, key, nonce = base * share, GENERATOR * share, random_scalar(rng)
    e = _challenge(index, context, (key, base, point, GENERATOR * nonce, base * nonce))
    return Partial(index, encode_point(point), encode_scalar(e), encode_scalar(nonce + share * e))


def verify_partial(partial: Partial, index: int, key: EccPoint, base: EccPoint, context: Digest) -> EccPoint:
    """Returns the point D if the proof holds against `key`, the shard's verification key.

    Otherwise raises `ShardLied` with the shard's index.
    """
    if partial.index != index:
        raise ShardLied(index, f"index {partial.index}")
    try:
        point, e, f = decode_point(partial.point), decode_scalar(partial.e), decode_scalar(partial.f)
    except MalformedValue as error:
        raise ShardLied(index, str(error)) from None
    commitments = (GENERATOR * f + -(key * e), base * f + -(point * e))
    if any(commitment.is_point_at_infinity() for commitment in commitments):
        raise ShardLied(index, "degenerate proof")
    if _challenge(index, context, (key, base, point, *commitments)) != e:
        raise ShardLied(index, "proof does not hold")
    return point


def _challenge(index: int, context: Digest, points: tuple[EccPoint, ...]) -> int:
    return challenge(Label.DLEQ_CHALLENGE, index, context, *(encode_point(point) for point in points))
