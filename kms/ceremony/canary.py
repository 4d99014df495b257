"""The canary: a message sealed to the new key that its shares must open before anything else is sealed to it.

Everybody makes the same canary from the transcript, so nobody has to send it. Each share is proven on it alone (Chaum-Pedersen,
against its verification key); that every share is in a subset which opens it shows that keys and shares belong together.
"""

from collections.abc import Iterator, Mapping, Sequence

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto import hpke
from bytewise.crypto.curve import GENERATOR, ORDER, decode_point, encode_point
from bytewise.crypto.shares import combine
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import CeremonyFailed
from bytewise.protocol.units import Blob, Digest

MESSAGE = b"bytewise canary"


def base(transcript: Digest) -> EccPoint:
    """The canary's ephemeral point."""
    return GENERATOR * _ephemeral(transcript)


def verify_canary(
    transcript: Digest, public_key: Blob, threshold: int, partials: Mapping[int, EccPoint]
) -> Mapping[int, EccPoint]:
    """The partials, if subsets of `threshold` of them that together hold each of them open the canary; else `CeremonyFailed`."""
    enc = encode_point(base(transcript))
    secret = hpke.shared_secret(decode_point(public_key) * _ephemeral(transcript), enc, public_key)
    ciphertext = hpke.key_schedule(secret, transcript).seal(MESSAGE)
    for subset in covering(sorted(partials), threshold):
        opened = hpke.shared_secret(combine({index: partials[index] for index in subset}), enc, public_key)
        if hpke.key_schedule(opened, transcript).open(ciphertext) != MESSAGE:
            raise CeremonyFailed(transcript.hex()[:16], f"shares {subset} do not open the canary")
    return partials


def covering(indices: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """Subsets of `size` that together hold every index: windows side by side, the last moved back to be full."""
    if len(indices) < size:
        raise CeremonyFailed("canary", f"{len(indices)} shares, threshold {size}")
    for start in range(0, len(indices), size):
        first = min(start, len(indices) - size)
        yield tuple(indices[first : first + size])


def _ephemeral(transcript: Digest) -> int:
    # Known to all: what the canary hides is no secret, only who can open it without this number is of interest.
    return int.from_bytes(digests.labelled(Label.CEREMONY_CANARY, transcript)) % (ORDER - 1) + 1
