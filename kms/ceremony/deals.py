"""One deal: commitments of a polynomial f, a proof that the dealer knows f(0), and a sealed value for each receiver.

The commitments are Feldman's. Without the proof, a dealer could commit to a function of the others' commitments and so choose the
sum (a rogue key). Dealers also post a hash of their commitments first. Without that hash, the last dealer could choose the sum by
trial (Gennaro, Jarecki, Krawczyk, Rabin).

A value is sealed under HPKE with a proof that its sealer chose the ephemeral key. To complain, a receiver publishes the point
that opens its sealed value, and proves that the point is right. Anybody can then judge the complaint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto import hpke
from bytewise.crypto.curve import GENERATOR, ORDER, Rng, decode_point, decode_scalar, encode_point, encode_scalar, random_scalar
from bytewise.crypto.shares import evaluate, knows_log, prove_log, prove_partial, verification_key, verify_partial
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import DealerLied, ShardLied
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.keys.ceremony_log import Complaint, Deal, SealedDeal
from bytewise.protocol.keys.epochs import Partial
from bytewise.protocol.units import Blob, Digest

SEALED_BYTES = 48
"""Bytes of a sealed value: a scalar and the tag of AES-256-GCM."""


def repair_context(ceremony: Digest, transcript: Digest) -> Digest:
    """Returns the context under which helpers of a repair seal values to the repair target. It differs from the ceremony's own
    context, so that no deal with the same indices counts as a repair value."""
    return digests.labelled(Label.CEREMONY_HAND, ceremony, transcript)


def seal_value(ceremony: Digest, dealer: int, receiver: int, value: int, key: Blob, rng: Rng) -> SealedDeal:
    """Seals one scalar to a receiver's deal key under HPKE. It uses this project's own KEM code, so that the receiver can prove
    later what the ciphertext contained."""
    ephemeral = random_scalar(rng)
    enc = encode_point(GENERATOR * ephemeral)
    secret = hpke.shared_secret(decode_point(key) * ephemeral, enc, key)
    info = _info(ceremony, dealer, receiver)
    ciphertext = Blob(hpke.key_schedule(secret, info).seal(encode_scalar(value)))
    e, f = prove_log(Label.CEREMONY_EPHEMERAL, ephemeral, rng, ceremony, dealer, receiver, enc, ciphertext)
    return SealedDeal(receiver, enc, ciphertext, encode_scalar(e), encode_scalar(f))


def verify_sealed(ceremony: Digest, dealer: int, sealed: SealedDeal) -> SealedDeal:
    """Returns the sealed value if its public parts are valid. Raises `DealerLied` otherwise. Only the receiver can check the
    content."""
    place = f"what it sealed to {sealed.receiver}"
    if len(sealed.ciphertext) != SEALED_BYTES:
        raise DealerLied(dealer, f"{place} has {len(sealed.ciphertext)} bytes")
    try:
        point, e, f = decode_point(sealed.enc), decode_scalar(sealed.e), decode_scalar(sealed.f)
    except MalformedValue as error:
        raise DealerLied(dealer, f"{place}: {error}") from None
    statement = (ceremony, dealer, sealed.receiver, sealed.enc, sealed.ciphertext)
    if not knows_log(Label.CEREMONY_EPHEMERAL, point, e, f, *statement):
        raise DealerLied(dealer, f"did not prove the ephemeral key of {place}")
    return sealed


def open_value(ceremony: Digest, dealer: int, sealed: SealedDeal, point: EccPoint, key: Blob) -> int:
    """Opens a sealed value and returns its scalar. `point` is the receiver's secret deal key times `enc`. Raises `DealerLied` if
    the ciphertext contains no scalar."""
    info = _info(ceremony, dealer, sealed.receiver)
    raw = hpke.key_schedule(hpke.shared_secret(point, sealed.enc, key), info).open(sealed.ciphertext)
    if raw is None:
        raise DealerLied(dealer, f"its deal to {sealed.receiver} does not open")
    try:
        return decode_scalar(raw)
    except MalformedValue:
        raise DealerLied(dealer, f"its deal to {sealed.receiver} is no scalar") from None


def _info(ceremony: Digest, dealer: int, receiver: int) -> Digest:
    return digests.labelled(Label.CEREMONY_DEAL, ceremony, dealer, receiver)


def open_deal(
    ceremony: Digest, dealer: int, sealed: SealedDeal, point: EccPoint, key: Blob, commitments: Sequence[EccPoint]
) -> int:
    """Opens a deal and returns the receiver's value if it is on the dealer's polynomial. Raises `DealerLied` otherwise. `point`
    is the receiver's secret deal key times `enc`."""
    value = open_value(ceremony, dealer, sealed, point, key)
    # The value 0 has no valid point. A random polynomial has this value with probability 2^-256; an honest dealer would then be
    # blamed.
    if value == 0 or GENERATOR * value != verification_key(sealed.receiver, commitments):
        raise DealerLied(dealer, f"its deal to {sealed.receiver} is not on its polynomial")
    return value


def make_complaint(ceremony: Digest, dealer: int, sealed: SealedDeal, secret: int, rng: Rng) -> Complaint:
    """Makes a complaint: the point that opens a deal, with its proof. `secret` is the receiver's secret deal key."""
    context = _context(ceremony, dealer, sealed.receiver)
    shown = prove_partial(sealed.receiver, secret, decode_point(sealed.enc), context, rng)
    return Complaint(dealer, shown.point, shown.e, shown.f)


def judge_complaint(
    ceremony: Digest, complaint: Complaint, sealed: SealedDeal, key: Blob, commitments: Sequence[EccPoint]
) -> DealerLied | ShardLied | None:
    """Judges a complaint. Returns `DealerLied` if the dealer lied, `ShardLied` if the receiver's proof is bad, or None if the
    deal is good. If the deal is good, the complaint has made its value public."""
    receiver, base = sealed.receiver, decode_point(sealed.enc)
    shown = Partial(receiver, complaint.point, complaint.e, complaint.f)
    try:
        context = _context(ceremony, complaint.dealer, receiver)
        point = verify_partial(shown, receiver, decode_point(key), base, context)
        open_deal(ceremony, complaint.dealer, sealed, point, key, commitments)
    except (DealerLied, ShardLied) as lie:
        return lie
    return None


def _context(ceremony: Digest, dealer: int, receiver: int) -> Digest:
    return digests.labelled(Label.CEREMONY_COMPLAINT, ceremony, dealer, receiver)


@dataclass(frozen=True, slots=True)
class DealerPolynomial:
    """A dealer's polynomial, to which the dealer commits before it deals."""

    coefficients: tuple[int, ...] = field(repr=False)
    """The secret coefficients, in ascending order of degree."""
    commitments: tuple[Blob, ...]
    """Coefficients times the base point G, 65 bytes each."""
    e: Blob
    """Challenge of the proof that the dealer knows f(0)."""
    f: Blob
    """Response of that proof."""


def draw_polynomial(ceremony: Digest, dealer: int, constant: int, threshold: int, rng: Rng) -> DealerPolynomial:
    """Draws a polynomial of degree `threshold` - 1 with f(0) = `constant`, and makes its commitments and its proof."""
    coefficients = (constant, *(random_scalar(rng) for _ in range(threshold - 1)))
    commitments = tuple(encode_point(GENERATOR * coefficient) for coefficient in coefficients)
    e, f = prove_log(Label.CEREMONY_KNOWLEDGE, constant, rng, ceremony, dealer, threshold, *commitments)
    return DealerPolynomial(coefficients, commitments, encode_scalar(e), encode_scalar(f))


def commitment_digest(ceremony: Digest, dealer: int, commitments: Sequence[Blob], e: Blob, f: Blob) -> Digest:
    """Returns the hash that a dealer posts before any dealer deals."""
    return digests.labelled(Label.CEREMONY_COMMIT, ceremony, dealer, len(commitments), *commitments, e, f)


def make_deal(
    ceremony: Digest, phase_head: Digest, dealer: int, opening: DealerPolynomial, keys: Mapping[int, Blob], rng: Rng
) -> Deal:
    """Makes the deal to every receiver in `keys`, which maps receiver indices to deal keys. `phase_head` is the head of the log
    with which the phase DEALING began."""
    values = {receiver: evaluate(opening.coefficients, receiver) for receiver in keys}
    sealed = tuple(seal_value(ceremony, dealer, receiver, values[receiver], keys[receiver], rng) for receiver in sorted(keys))
    return Deal(phase_head, opening.commitments, opening.e, opening.f, sealed)


def verify_deal(
    ceremony: Digest, dealer: int, found: Deal, committed: Digest, threshold: int, receivers: Sequence[int]
) -> tuple[EccPoint, ...]:
    """Returns the commitments if the public parts of the deal are valid. Raises `DealerLied` otherwise. It opens no sealed
    values."""
    if commitment_digest(ceremony, dealer, found.commitments, found.e, found.f) != committed:
        raise DealerLied(dealer, "deals commitments that differ from its posted hash")
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
        raise DealerLied(dealer, "did not prove the value at 0 of its polynomial")
    for sealed in found.sealed:
        verify_sealed(ceremony, dealer, sealed)
    return commitments


def weighted_sum(weights: Mapping[int, int], rows: Mapping[int, Sequence[EccPoint]]) -> tuple[Blob, ...]:
    """Returns the commitments of the sum of polynomials, each times its weight. Raises `MalformedValue` if one of the commitments
    is the identity."""
    first = next(iter(weights))
    columns = range(len(rows[first]))
    total = [rows[first][k].point_at_infinity() for k in columns]
    for index, weight in weights.items():
        total = [total[k] + (rows[index][k] if weight == 1 else rows[index][k] * weight) for k in columns]
    return tuple(encode_point(point) for point in total)


def weighted_value(weights: Mapping[int, int], values: Mapping[int, int]) -> int:
    """Returns the sum of the polynomials' values at one point, each times its weight."""
    return sum(weight * values[index] for index, weight in weights.items()) % ORDER
