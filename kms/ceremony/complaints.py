"""Complaints that anybody can judge: the receiver shows the point that opens a deal, and proves that it is that point.

There is no round in which dealers justify themselves in clear. The point of a true complaint is nothing new to its dealer, who
proved that it knows the ephemeral key (`kms.ceremony.sealing`), so it opens no other's deal; the polynomial leaves the sum. A
false one names its author and shows one value of an honest polynomial, of which a plan allows fewer than the threshold.
"""

from collections.abc import Sequence

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto.curve import GENERATOR, Rng, decode_point
from bytewise.crypto.proofs import prove_partial, verify_partial
from bytewise.crypto.shares import verification_key
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors import DealerLied, ShardLied
from bytewise.protocol.keys.ceremony_log import Complaint, SealedDeal
from bytewise.protocol.keys.epochs import Partial
from bytewise.protocol.units import Blob, Digest
from kms.ceremony.sealing import unseal


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
