"""One value for one receiver: sealed under HPKE, with the proof that its sealer chose the ephemeral key itself.

A receiver that complains shows the point that opens what was sealed to it (`kms.ceremony.complaints`). Without the proof a
dealer that lies could copy another's ephemeral point, or one that differs from it by a known multiple of G: a true complaint
about its deal would open the other's. The challenge hashes all that the proof is for, so it cannot be copied either (ADR 153).
"""

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto import hpke
from bytewise.crypto.curve import GENERATOR, Rng, decode_point, decode_scalar, encode_point, encode_scalar, random_scalar
from bytewise.crypto.schnorr import knows_log, prove_log
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors import DealerLied, MalformedValue
from bytewise.protocol.keys.ceremony_log import SealedDeal
from bytewise.protocol.units import Blob, Digest

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
