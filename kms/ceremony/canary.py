"""The canary: a message sealed to the new key. The shares must open it before clients seal envelopes to that key.

Every shard derives the same canary from the transcript, so nobody sends it. Each receiver publishes its partial of the canary. A
proof against the receiver's verification key shows that the partial is right (Chaum-Pedersen). Several subsets of these partials
must each open the canary. Together, the subsets contain every partial. This shows that the key and all these shares belong
together.
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


def canary_point(transcript: Digest) -> EccPoint:
    """Returns the canary's ephemeral point."""
    return GENERATOR * _ephemeral(transcript)


def verify_canary(
    transcript: Digest, public_key: Blob, threshold: int, partials: Mapping[int, EccPoint]
) -> Mapping[int, EccPoint]:
    """Returns the partials if they open the canary. Raises `CeremonyFailed` otherwise.

    Several subsets of `threshold` partials must each open it. Together, the subsets contain every partial.
    """
    enc = encode_point(canary_point(transcript))
    secret = hpke.shared_secret(decode_point(public_key) * _ephemeral(transcript), enc, public_key)
    ciphertext = hpke.key_schedule(secret, transcript).seal(MESSAGE)
    for subset in covering_subsets(sorted(partials), threshold):
        opened = hpke.shared_secret(combine({index: partials[index] for index in subset}), enc, public_key)
        if hpke.key_schedule(opened, transcript).open(ciphertext) != MESSAGE:
            raise CeremonyFailed(transcript.hex()[:16], f"shares {subset} do not open the canary")
    return partials


def covering_subsets(indices: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """Yields subsets of `size` indices that together contain every index. Each subset is a run of neighbours in `indices`. The
    last subset overlaps the one before if fewer than `size` indices are left. Raises `CeremonyFailed` if there are fewer indices
    than `size`."""
    if len(indices) < size:
        raise CeremonyFailed("canary", f"{len(indices)} shares, threshold {size}")
    for start in range(0, len(indices), size):
        first = min(start, len(indices) - size)
        yield tuple(indices[first : first + size])


def _ephemeral(transcript: Digest) -> int:
    # Everybody can compute this number, so the canary protects no secret. It only shows which shares open it without the number.
    return int.from_bytes(digests.labelled(Label.CEREMONY_CANARY, transcript)) % (ORDER - 1) + 1
