"""Partial decapsulation D = f(i)·R, with a Chaum-Pedersen proof that log_G(Y_i) = log_R(D) (design section 8).

Y_i = f(i)·G is the shard's verification key. The proof exposes a lying shard at once to the enclave, and later to anybody who has
the partial and the envelope. `prove_log` and `knows_log` make and check Schnorr proofs of knowledge of a logarithm to base G,
made non-interactive by Fiat and Shamir.
"""

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
from bytewise.protocol.errors.actors import ShardLied
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.keys.epochs import Partial
from bytewise.protocol.units import Digest


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
    # The identity has no encoding. Only a forger that chose its logarithm can get it as a witness, so the proof is not honest.
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
