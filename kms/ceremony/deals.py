"""One deal: a polynomial's Feldman commitments, the proof that its dealer knows f(0), and a sealed value for each receiver.

Without the proof a dealer could commit to a function of the others' commitments and choose the sum (a rogue key); without the
hash of the commitments that goes before, the last to deal could choose it by trying (Gennaro, Jarecki, Krawczyk, Rabin).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto import hpke
from bytewise.crypto.curve import GENERATOR, ORDER, Rng, decode_point, decode_scalar, encode_point, encode_scalar, random_scalar
from bytewise.crypto.proofs import knows_log, prove_log, prove_partial, verify_partial
from bytewise.crypto.shares import evaluate, verification_key
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import DealerLied, ShardLied
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.keys.ceremony_log import Complaint, Deal, SealedDeal
from bytewise.protocol.keys.epochs import Partial
from bytewise.protocol.units import Blob, Digest

# One value for one receiver: sealed under HPKE, with the proof that its sealer chose the ephemeral key itself.

SEALED_BYTES = 48
"""A scalar and the tag of AES-256-GCM."""


def handing(ceremony: Digest, transcript: Digest) -> Digest:
    """What stands for the ceremony where helpers of a repair seal to the heir: no hand is a deal of the same numbers."""
    return digests.labelled(Label.CEREMONY_HAND, ceremony, transcript)


def seal(ceremony: Digest, dealer: int, receiver: int, value: int, key: Blob, rng: Rng) -> SealedDeal:
    """One scalar under HPKE; our own KEM code, so that the receiver can prove later what was in it."""
    ephemeral = random_scalar(rng)
    enc = encode_point(GENERATOR * ephemeral)
    secret = hpke.shared_secret(decode_point(key) * ephemeral, enc, key)
    info = _info(ceremony, dealer, receiver)
    ciphertext = Blob(hpke.key_schedule(secret, info).seal(encode_scalar(value)))
    e, f = prove_log(Label.CEREMONY_EPHEMERAL, ephemeral, rng, ceremony, dealer, receiver, enc, ciphertext)
    return SealedDeal(receiver, enc, ciphertext, encode_scalar(e), encode_scalar(f))


def verify_sealed(ceremony: Digest, dealer: int, sealed: SealedDeal) -> SealedDeal:
    """The sealed value, if all that is public about it holds; else `DealerLied`. What is inside only its receiver sees."""
    place = f"what it sealed to {sealed.receiver}"
    if len(sealed.ciphertext) != SEALED_BYTES:
        raise DealerLied(dealer, f"{place} has {len(sealed.ciphertext)} bytes")
    try:
        point, e, f = decode_point(sealed.enc), decode_scalar(sealed.e), decode_scalar(sealed.f)
    except MalformedValue as error:
        raise DealerLied(dealer, f"{place}: {error}") from None
    statement = (ceremony, dealer, sealed.receiver, sealed.enc, sealed.ciphertext)
    if not knows_log(Label.CEREMONY_EPHEMERAL, point, e, f, *statement):
        raise DealerLied(dealer, f"does not know the ephemeral key of {place}")
    return sealed


def unseal(ceremony: Digest, dealer: int, sealed: SealedDeal, point: EccPoint, key: Blob) -> int:
    """The scalar, given deal key times `enc`; `DealerLied` if there is none."""
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


# Complaints that anybody can judge: the receiver shows the point that opens a deal, and proves that it is that point.


def open_deal(
    ceremony: Digest, dealer: int, sealed: SealedDeal, point: EccPoint, key: Blob, commitments: Sequence[EccPoint]
) -> int:
    """The receiver's value, if it is on the dealer's polynomial; else `DealerLied`. `point` is deal key times `enc`."""
    value = unseal(ceremony, dealer, sealed, point, key)
    # A value of 0 has no point; a random polynomial has it once in 2^256, and the dealer is then named wrongly.
    if value == 0 or GENERATOR * value != verification_key(sealed.receiver, commitments):
        raise DealerLied(dealer, f"its deal to {sealed.receiver} is not on its polynomial")
    return value


def complain(ceremony: Digest, dealer: int, sealed: SealedDeal, secret: int, rng: Rng) -> Complaint:
    """The point that opens a deal, proven; `secret` is the receiver's deal key."""
    context = _context(ceremony, dealer, sealed.receiver)
    shown = prove_partial(sealed.receiver, secret, decode_point(sealed.enc), context, rng)
    return Complaint(dealer, shown.point, shown.e, shown.f)


def judge(
    ceremony: Digest, complaint: Complaint, sealed: SealedDeal, key: Blob, commitments: Sequence[EccPoint]
) -> DealerLied | ShardLied | None:
    """What a complaint shows: the dealer's lie, the receiver's bad proof, or (None) that the deal is good and now public."""
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
