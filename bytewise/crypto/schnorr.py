"""Proofs that somebody knows the logarithm of a point to base G (Schnorr's, made non-interactive by Fiat and Shamir).

The challenge hashes the whole statement: who makes it says what the proof is for, or another can show it for something else.
"""

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto.curve import GENERATOR, ORDER, Rng, challenge, encode_point, random_scalar
from bytewise.protocol.digests import Label


def prove_log(label: Label, secret: int, rng: Rng, *statement: bytes | int) -> tuple[int, int]:
    """Challenge and response for `secret` times G, which the statement must contain. Never twice the same nonce of `rng`."""
    nonce = random_scalar(rng)
    e = challenge(label, *statement, encode_point(GENERATOR * nonce))
    return e, (nonce + secret * e) % ORDER


def knows_log(label: Label, point: EccPoint, e: int, f: int, *statement: bytes | int) -> bool:
    """Whether the proof holds for this point and statement."""
    witness = GENERATOR * f + -(point * e)
    # The identity has no encoding. It can only be the witness of a forger who chose its logarithm: not an honest proof.
    return not witness.is_point_at_infinity() and challenge(label, *statement, encode_point(witness)) == e
