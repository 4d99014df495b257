"""One deal: a polynomial's Feldman commitments, the proof that its dealer knows f(0), and a sealed value for each receiver.

Without the proof a dealer could commit to a function of the others' commitments and choose the sum (a rogue key); without the
hash of the commitments that goes before, the last to deal could choose it by trying (Gennaro, Jarecki, Krawczyk, Rabin).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from Crypto.PublicKey.ECC import EccPoint

from bytewise.protocol import digests
from bytewise.protocol.ceremony_log import Deal, SealedDeal
from bytewise.protocol.digests import Label
from bytewise.protocol.errors import DealerLied, MalformedValue
from bytewise.protocol.units import Blob, Digest
from kms import hpke
from kms.curve import GENERATOR, ORDER, Rng, challenge, decode_point, decode_scalar, encode_point, encode_scalar, random_scalar
from kms.shares import evaluate

SEALED_BYTES = 48
"""A scalar and the tag of AES-256-GCM."""


class Opening(NamedTuple):
    """What a dealer commits to before it deals."""

    coefficients: tuple[int, ...]
    """Secret; ascending."""
    commitments: tuple[Blob, ...]
    """Coefficients times G, 65 bytes each."""
    e: Blob
    """Challenge of the proof of f(0)."""
    f: Blob
    """Response."""


def prepare(ceremony: Digest, dealer: int, constant: int, threshold: int, rng: Rng) -> Opening:
    """A random polynomial of degree `threshold` - 1 with f(0) = `constant`, its commitments and proof."""
    coefficients = (constant, *(random_scalar(rng) for _ in range(threshold - 1)))
    commitments = tuple(encode_point(GENERATOR * coefficient) for coefficient in coefficients)
    nonce = random_scalar(rng)
    e = _challenge(ceremony, dealer, commitments, GENERATOR * nonce)
    return Opening(coefficients, commitments, encode_scalar(e), encode_scalar(nonce + constant * e))


def commitment_digest(ceremony: Digest, dealer: int, commitments: Sequence[Blob], e: Blob, f: Blob) -> Digest:
    """What a dealer posts before anyone deals."""
    return digests.labelled(Label.CEREMONY_COMMIT, ceremony, dealer, len(commitments), *commitments, e, f)


def deal(ceremony: Digest, dealer: int, opening: Opening, keys: Mapping[int, Blob], rng: Rng) -> Deal:
    """The deal to every receiver in `keys`: deal key by receiver index."""
    values = {receiver: evaluate(opening.coefficients, receiver) for receiver in keys}
    sealed = tuple(seal(ceremony, dealer, receiver, values[receiver], keys[receiver], rng) for receiver in sorted(keys))
    return Deal(opening.commitments, opening.e, opening.f, sealed)


def seal(ceremony: Digest, dealer: int, receiver: int, value: int, key: Blob, rng: Rng) -> SealedDeal:
    """One scalar under HPKE; our own KEM code, so that the receiver can prove later what was in it."""
    ephemeral = random_scalar(rng)
    enc = encode_point(GENERATOR * ephemeral)
    secret = hpke.shared_secret(decode_point(key) * ephemeral, enc, key)
    info = deal_info(ceremony, dealer, receiver)
    return SealedDeal(receiver, enc, Blob(hpke.key_schedule(secret, info).seal(encode_scalar(value))))


def unseal(ceremony: Digest, dealer: int, sealed: SealedDeal, point: EccPoint, key: Blob) -> int:
    """The scalar, given deal key times `enc`; `DealerLied` if there is none."""
    info = deal_info(ceremony, dealer, sealed.receiver)
    raw = hpke.key_schedule(hpke.shared_secret(point, sealed.enc, key), info).open(sealed.ciphertext)
    if raw is None:
        raise DealerLied(dealer, f"its deal to {sealed.receiver} does not open")
    try:
        return decode_scalar(raw)
    except MalformedValue:
        raise DealerLied(dealer, f"its deal to {sealed.receiver} is no scalar") from None


def verify_deal(
    ceremony: Digest, dealer: int, found: Deal, committed: Digest, threshold: int, receivers: Sequence[int]
) -> tuple[EccPoint, ...]:
    """The commitments, if all that is public about the deal holds; else `DealerLied`. Sealed values are not looked into."""
    if commitment_digest(ceremony, dealer, found.commitments, found.e, found.f) != committed:
        raise DealerLied(dealer, "deals other commitments than it committed to")
    if len(found.commitments) != threshold:
        raise DealerLied(dealer, f"{len(found.commitments)} commitments for threshold {threshold}")
    if tuple(each.receiver for each in found.sealed) != tuple(receivers):
        raise DealerLied(dealer, f"deals to {[each.receiver for each in found.sealed][:8]}")
    try:
        commitments = tuple(decode_point(each) for each in found.commitments)
        e, f = decode_scalar(found.e), decode_scalar(found.f)
        for sealed in found.sealed:
            decode_point(sealed.enc)
    except MalformedValue as error:
        raise DealerLied(dealer, str(error)) from None
    if any(len(sealed.ciphertext) != SEALED_BYTES for sealed in found.sealed):
        raise DealerLied(dealer, "a sealed value of another length")
    witness = GENERATOR * f + -(commitments[0] * e)
    if witness.is_point_at_infinity() or _challenge(ceremony, dealer, found.commitments, witness) != e:
        raise DealerLied(dealer, "does not know the value at 0 of its polynomial")
    return commitments


def weighted_sum(weights: Mapping[int, int], rows: Mapping[int, Sequence[EccPoint]]) -> tuple[Blob, ...]:
    """Commitments of the sum of polynomials, each times its weight; `MalformedValue` if one of them is the identity."""
    first = next(iter(weights))
    columns = range(len(rows[first]))
    total = [rows[first][k].point_at_infinity() for k in columns]
    for index, weight in weights.items():
        total = [total[k] + (rows[index][k] if weight == 1 else rows[index][k] * weight) for k in columns]
    return tuple(encode_point(point) for point in total)


def weighted_value(weights: Mapping[int, int], values: Mapping[int, int]) -> int:
    """The same sum of the polynomials' values at one place."""
    return sum(weight * values[index] for index, weight in weights.items()) % ORDER


def deal_info(ceremony: Digest, dealer: int, receiver: int) -> Digest:
    """HPKE `info` of a sealed deal."""
    return digests.labelled(Label.CEREMONY_DEAL, ceremony, dealer, receiver)


def _challenge(ceremony: Digest, dealer: int, commitments: Sequence[Blob], witness: EccPoint) -> int:
    return challenge(Label.CEREMONY_KNOWLEDGE, ceremony, dealer, len(commitments), *commitments, encode_point(witness))
