"""The second half of a hybrid envelope: a pre-shared key (PSK) split into shares, each sealed to the ML-KEM-768 key of a shard.

The P-256 half needs t partials and this half needs t shares; the envelope opens with both (`bytewise.crypto.envelope`). All parts
follow from the polynomial that shares the PSK. An enclave with t shares therefore recomputes all parts and compares. Either every
part is right, or every enclave rejects the envelope, whichever shards answered. Fewer than t shares reveal nothing of the PSK.
Commitments are hashes instead of points, because a quantum computer finds logarithms.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bytewise.crypto import hpke, mlkem
from bytewise.crypto.curve import ORDER, Rng, decode_scalar, encode_scalar, random_scalar
from bytewise.crypto.shares import MAX_SHARDS, evaluate, lagrange
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import ConfigurationError, PartDoesNotOpen, ShardLied
from bytewise.protocol.errors.branches import EnvelopeFlaw
from bytewise.protocol.errors.records import EnvelopeProofBad, MalformedValue
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import HybridPartial, Partial
from bytewise.protocol.records.seal import Envelope, HybridEnvelope, HybridPart
from bytewise.protocol.units import Blob, Digest

SHARE_BYTES = 32
"""Length of a share: a canonical scalar."""

SEALED_BYTES = SHARE_BYTES + 16
"""Length of a sealed share: the share of 32 bytes and the AEAD tag."""


class Recipients(NamedTuple):
    """The shards that each get one share of the pre-shared key (PSK) of an envelope."""

    threshold: int
    """Number of shares that determine the PSK."""
    keys: tuple[Blob, ...]
    """ML-KEM-768 keys, in order of the shards' indices."""


class EnvelopeContext(NamedTuple):
    """Seal context and key epoch of an envelope. Every hash of this module includes both, except `parts_digest`."""

    context: Digest
    """Seal context of the receipt."""
    key_epoch: int
    """Number of the key epoch."""


def recipients(epoch: EpochRecord) -> Recipients | None:
    """Returns the recipients of an epoch's PSK shares. Returns None if the epoch is not hybrid."""
    return None if epoch.hybrid is None else Recipients(epoch.threshold, epoch.hybrid.keys)


def share_psk(to: Recipients, place: EnvelopeContext, rng: Rng) -> tuple[hpke.Psk, tuple[HybridPart, ...]]:
    """Draws a fresh PSK and seals one share to each recipient. Returns the PSK and the parts for the envelope."""
    coefficients = [random_scalar(rng) for _ in range(to.threshold)]
    secret = encode_scalar(coefficients[0])
    parts = tuple(_part(secret, i, evaluate(coefficients, i), key, place) for i, key in enumerate(to.keys, start=1))
    return hpke.Psk(secret, parts_digest(parts)), parts


def parts_digest(parts: Sequence[HybridPart]) -> Digest:
    """Returns the digest of all parts, which is the public name of the PSK. The envelope's proof binds it."""
    flat = [piece for part in parts for piece in (part.kem, part.sealed, part.commitment)]
    return digests.labelled(Label.HYBRID_PARTS, len(parts), *flat)


def with_parts(envelope: Envelope, parts: tuple[HybridPart, ...]) -> HybridEnvelope:
    """Returns the hybrid envelope that joins the P-256 half `envelope` with the parts."""
    each = envelope
    return HybridEnvelope(each.suite, each.key_epoch, each.enc, each.ubar, each.e, each.f, each.ciphertext, parts)


def verify_sizes(parts: Sequence[HybridPart]) -> Sequence[HybridPart]:
    """Returns the parts if their number is possible and all lengths are right. Otherwise raises `MalformedValue`."""
    if not 0 < len(parts) <= MAX_SHARDS:
        raise MalformedValue("parts", f"{len(parts)} of them")
    for index, part in enumerate(parts, start=1):
        if (len(part.kem), len(part.sealed)) != (mlkem.CIPHERTEXT_BYTES, SEALED_BYTES):
            raise MalformedValue(f"part {index}", f"{len(part.kem)} and {len(part.sealed)} bytes")
    return parts


def verify_part_count(envelope: Envelope, epoch: EpochRecord, receipt: Digest) -> Envelope:
    """Returns the envelope if it has one part for each shard of a hybrid epoch, or no parts in any other epoch.

    Raises `EnvelopeProofBad` for another number of parts, and `ConfigurationError` if the epoch record has another suite than the
    envelope.
    """
    if isinstance(envelope, HybridEnvelope) != (epoch.hybrid is not None):
        raise ConfigurationError(f"key epoch {epoch.epoch}", f"is not of suite {envelope.suite}")
    if isinstance(envelope, HybridEnvelope) and len(envelope.parts) != len(epoch.shards):
        raise EnvelopeProofBad(
            receipt.hex(), f"{len(envelope.parts)} parts for {len(epoch.shards)} shards", EnvelopeFlaw.OTHER_PARTS
        )
    return envelope


def make_partial(
    partial: Partial, envelope: HybridEnvelope, place: EnvelopeContext, kem_seed: bytes, keys: Digest
) -> HybridPartial:
    """Returns the answer of a shard: its partial with its share of the PSK.

    The share is None if the part does not open or does not contain the committed share. `kem_seed` is the shard's ML-KEM secret;
    `keys` is the digest of the epoch's hybrid keys.
    """
    index, part = partial.index, envelope.parts[partial.index - 1]
    share = hpke.open_with_kem(kem_seed, _info(index, part.kem, place), part.kem + part.sealed)
    good = share is not None and _is_committed(share, part, index, place)
    return HybridPartial(partial, keys, Blob(share) if share is not None and good else None)


def verify_share(
    given: HybridPartial, index: int, envelope: HybridEnvelope, place: EnvelopeContext, epoch: EpochRecord, receipt: Digest
) -> int:
    """Returns the share in a shard's answer: f(index) of the polynomial that shares the PSK.

    Raises `ShardLied` if it is not the committed share, or if the shard used other keys. Raises `PartDoesNotOpen` if the shard
    states that its part does not open.
    """
    if epoch.hybrid is None or given.keys != epoch.hybrid.digest:
        raise ShardLied(index, "has other hybrid keys of this epoch")
    if given.share is None:
        raise PartDoesNotOpen(index, receipt.hex())
    if not _is_committed(given.share, envelope.parts[index - 1], index, place):
        raise ShardLied(index, "its share of the PSK is not the one that the envelope commits to")
    return decode_scalar(given.share)


def recover_psk(shares: Mapping[int, int], envelope: HybridEnvelope, to: Recipients, place: EnvelopeContext) -> hpke.Psk | None:
    """Returns the PSK from t shares if every part of the envelope follows from their polynomial; otherwise None.

    Any t shares give the same result.
    """
    secret = encode_scalar(_value(shares, 0))
    made = tuple(_part(secret, i, _value(shares, i), key, place) for i, key in enumerate(to.keys, start=1))
    return hpke.Psk(secret, parts_digest(made)) if made == envelope.parts else None


def _value(shares: Mapping[int, int], at: int) -> int:
    indices = tuple(shares)
    return sum(value * lagrange(index, indices, at) for index, value in shares.items()) % ORDER


def _part(secret: bytes, index: int, share: int, key: Blob, place: EnvelopeContext) -> HybridPart:
    message = digests.labelled(Label.HYBRID_SEED, secret, *place, index)
    encapsulated, value = mlkem.encapsulate(key, message), encode_scalar(share)
    info = _info(index, encapsulated.ciphertext, place)
    sealed = hpke.key_schedule(encapsulated.secret, info, kem=hpke.ML_KEM_768).seal(value)
    return HybridPart(encapsulated.ciphertext, Blob(sealed), _commitment(value, index, place))


def _info(index: int, ciphertext: bytes, place: EnvelopeContext) -> Digest:
    return digests.labelled(Label.HYBRID_PART, *place, index, ciphertext)


def _commitment(share: bytes, index: int, place: EnvelopeContext) -> Digest:
    return digests.labelled(Label.HYBRID_SHARE, *place, index, share)


def _is_committed(share: bytes, part: HybridPart, index: int, place: EnvelopeContext) -> bool:
    # Only canonical scalars count: with two encodings of one share, two honest shards could contradict each other.
    if len(share) != SHARE_BYTES:
        return False
    return int.from_bytes(share) < ORDER and _commitment(share, index, place) == part.commitment
