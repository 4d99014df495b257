"""One deal: a polynomial's Feldman commitments, the proof that its dealer knows f(0), and a sealed value for each receiver.

Without the proof a dealer could commit to a function of the others' commitments and choose the sum (a rogue key); without the
hash of the commitments that goes before, the last to deal could choose it by trying (Gennaro, Jarecki, Krawczyk, Rabin).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto.curve import GENERATOR, ORDER, Rng, decode_point, decode_scalar, encode_point, encode_scalar, random_scalar
from bytewise.crypto.schnorr import knows_log, prove_log
from bytewise.crypto.shares import evaluate
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors import DealerLied, MalformedValue
from bytewise.protocol.keys.ceremony_log import Deal
from bytewise.protocol.units import Blob, Digest
from kms.ceremony.sealing import seal, verify_sealed


@dataclass(frozen=True, slots=True)
class Opening:
    """What a dealer commits to before it deals."""

    coefficients: tuple[int, ...] = field(repr=False)
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
    e, f = prove_log(Label.CEREMONY_KNOWLEDGE, constant, rng, ceremony, dealer, threshold, *commitments)
    return Opening(coefficients, commitments, encode_scalar(e), encode_scalar(f))


def commitment_digest(ceremony: Digest, dealer: int, commitments: Sequence[Blob], e: Blob, f: Blob) -> Digest:
    """What a dealer posts before anyone deals."""
    return digests.labelled(Label.CEREMONY_COMMIT, ceremony, dealer, len(commitments), *commitments, e, f)


def deal(ceremony: Digest, begun: Digest, dealer: int, opening: Opening, keys: Mapping[int, Blob], rng: Rng) -> Deal:
    """The deal to every receiver in `keys`: deal key by receiver index. `begun`: head of the log with which dealing began."""
    values = {receiver: evaluate(opening.coefficients, receiver) for receiver in keys}
    sealed = tuple(seal(ceremony, dealer, receiver, values[receiver], keys[receiver], rng) for receiver in sorted(keys))
    return Deal(begun, opening.commitments, opening.e, opening.f, sealed)


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
    except MalformedValue as error:
        raise DealerLied(dealer, str(error)) from None
    if not knows_log(Label.CEREMONY_KNOWLEDGE, commitments[0], e, f, ceremony, dealer, threshold, *found.commitments):
        raise DealerLied(dealer, "does not know the value at 0 of its polynomial")
    for sealed in found.sealed:
        verify_sealed(ceremony, dealer, sealed)
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
