"""Seals and opens an envelope: HPKE plus a TDH2-style proof that the sender knew the ephemeral key (design section 8).

Plain HPKE is malleable under partial decapsulation. An attacker that submits R' = R + aG and gets xR' learns xR = xR' - a·xG. The
proof (Shoup and Gennaro, TDH2) shows knowledge of r with R = rG and Ū = rḠ. Its challenge hashes the seal context, both points,
both commitments and the ciphertext. Neither a modified point nor a copied envelope passes.

In a hybrid epoch the encryption key also depends on a pre-shared key (PSK) that no logarithm reveals (`bytewise.crypto.hybrid`).
The challenge then hashes the parts that carry the PSK. The suite is that of the receipt's key epoch; an envelope that states
another suite is refused.
"""

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto import hpke, hybrid
from bytewise.crypto.curve import (
    GENERATOR,
    ORDER,
    Rng,
    challenge,
    decode_point,
    decode_scalar,
    encode_point,
    encode_scalar,
    random_scalar,
    second_generator,
)
from bytewise.crypto.hybrid import EnvelopeContext, Recipients
from bytewise.crypto.shares import MAX_SHARDS
from bytewise.protocol.assurance import HARDWARE
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import EnvelopeFlaw, Fault
from bytewise.protocol.errors.records import (
    EnvelopeDoesNotOpen,
    EnvelopeProofBad,
    MalformedPoint,
    MalformedValue,
    NotCanonical,
    TooLarge,
    WrongFields,
)
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.records.receipt import Receipt, receipt_id
from bytewise.protocol.records.seal import BUCKETS, Envelope, HybridEnvelope, Payload, envelope_hash, pad, seal_context
from bytewise.protocol.signing import Domain
from bytewise.protocol.suites import SUITE_HYBRID, SUITE_P256, is_rebuilt, suite_of
from bytewise.protocol.units import U64, Blob, Digest

_TAG_BYTES = 16
MAX_ENVELOPE_BYTES = 2 * (max(BUCKETS) + _TAG_BYTES) + 2048
"""Size of the largest canonical envelope: the ciphertext in hex and the small fields. The parts of a hybrid envelope come on
top."""
MAX_ENVELOPE_MARKS = 7
"""Number of opening brackets and commas in every envelope without parts (`encoding.MARKS`)."""
PART_BYTES, PART_MARKS = 2 * (1088 + 48 + 32) + 64, 4
"""Most bytes, and most opening brackets and commas, that one part adds to a hybrid envelope."""


def sealing_key(epoch: EpochRecord, accept_simulated: bool, accept_rebuilt: bool = False) -> Blob:
    """Returns the epoch's public key, to which the caller seals.

    Raises `ConfigurationError` for a simulated epoch unless `accept_simulated`, and for a rebuilt epoch unless `accept_rebuilt`.
    """
    if epoch.assurance != HARDWARE and not accept_simulated:
        raise ConfigurationError(f"key epoch {epoch.epoch}", f"is {epoch.assurance}: set accept.simulated to seal to it")
    if is_rebuilt(epoch.epoch) and not accept_rebuilt:
        raise ConfigurationError(f"key epoch {epoch.epoch}", "has a key that enclaves rebuild: set accept.rebuilt to seal to it")
    return epoch.public_key


def seal(
    payload: Payload, epoch_public_key: Blob, context: Digest, key_epoch: int, rng: Rng, to: Recipients | None = None
) -> bytes:
    """Seals a payload to the epoch's keys under the receipt's seal context. Returns the canonical bytes of the envelope.

    `to`: the shards' ML-KEM keys, required in a hybrid epoch and forbidden in others. Raises `ConfigurationError` if `to` does
    not fit the epoch, `MalformedValue` for an invalid key, and `PlaintextNotCanonical` for a payload above the largest bucket.
    """
    return seal_padded(pad(payload), epoch_public_key, context, key_epoch, rng, to)


def seal_padded(
    plaintext: bytes, epoch_public_key: Blob, context: Digest, key_epoch: int, rng: Rng, to: Recipients | None = None
) -> bytes:
    """Seals bytes as they are, as `seal` does with a payload.

    The caller has padded them. Their length is not checked, so `PlaintextNotCanonical` is never raised.
    """
    suite = suite_of(key_epoch)
    if (to is None) == (suite == SUITE_HYBRID):
        raise ConfigurationError(
            f"key epoch {key_epoch}", f"is of suite {suite}; hybrid keys {'missing' if to is None else 'given'}"
        )
    psk, parts = hybrid.share_psk(to, EnvelopeContext(context, key_epoch), rng) if to is not None else (hpke.NO_PSK, ())
    public_key = decode_point(epoch_public_key)
    ephemeral = random_scalar(rng)
    point, ubar = GENERATOR * ephemeral, second_generator() * ephemeral
    enc = encode_point(point)
    secret = hpke.shared_secret(public_key * ephemeral, enc, epoch_public_key)
    ciphertext = hpke.key_schedule(secret, context, psk=psk).seal(plaintext)
    nonce = random_scalar(rng)
    points = (point, ubar, GENERATOR * nonce, second_generator() * nonce)
    e = _challenge(suite, key_epoch, context, points, ciphertext, psk.id)
    envelope = Envelope(
        suite=suite, key_epoch=U64(key_epoch), enc=enc, ubar=encode_point(ubar),
        e=encode_scalar(e), f=encode_scalar((nonce + ephemeral * e) % ORDER), ciphertext=Blob(ciphertext),
    )  # fmt: skip
    return encode(envelope if to is None else hybrid.with_parts(envelope, parts))


def verify_envelope(
    data: bytes, context: Digest, receipt: Digest, suite: int = SUITE_P256, key_epoch: int | None = None
) -> Envelope:
    """Returns the envelope if it is canonical and its proof holds under `context`. Otherwise raises `EnvelopeProofBad` with the
    reason.

    `key_epoch`: the epoch in the receipt; None without a receipt. Suite, epoch and length are compared before the proof. If only
    the proof fails, the envelope was altered or belongs to another context. The challenge hashes both, so these two cases look
    alike.
    """
    try:
        envelope = _decoded(data, suite)
        _verify_named(envelope, suite, key_epoch, receipt)
        (point, ubar), e, f = _points(envelope, receipt), decode_scalar(envelope.e), decode_scalar(envelope.f)
    except (MalformedValue, NotCanonical, WrongFields) as error:
        raise EnvelopeProofBad(receipt.hex(), str(error), _flaw(error)) from None
    psk_id = hybrid.parts_digest(envelope.parts) if isinstance(envelope, HybridEnvelope) else b""
    commitments = (GENERATOR * f + -(point * e), second_generator() * f + -(ubar * e))
    # The identity has no encoding. The nonce of an honest proof is not zero, so its commitments are never the identity.
    if any(commitment.is_point_at_infinity() for commitment in commitments):
        raise EnvelopeProofBad(receipt.hex(), "degenerate proof", EnvelopeFlaw.PROOF)
    if _challenge(suite, envelope.key_epoch, context, (point, ubar, *commitments), envelope.ciphertext, psk_id) != e:
        raise EnvelopeProofBad(receipt.hex(), "proof does not hold under the context of this receipt", EnvelopeFlaw.PROOF)
    return envelope


def verify_receipt_envelope(anchor: Domain, receipt: Receipt, data: bytes) -> Envelope:
    """Returns the envelope of a receipt.

    Raises `EnvelopeProofBad` if the envelope's hash or epoch differs from the receipt, or if the envelope's proof fails under the
    receipt's seal context.
    """
    identifier = receipt_id(anchor, receipt)
    if envelope_hash(data) != receipt.envelope_hash:
        raise EnvelopeProofBad(identifier.hex(), "other bytes than the receipt names", EnvelopeFlaw.OTHER_BYTES)
    epoch = receipt.key_epoch
    return verify_envelope(data, seal_context(anchor, receipt), identifier, suite_of(epoch), epoch)


def open_with_point(
    envelope: Envelope, dh_point: EccPoint, public_key: Blob, context: Digest, receipt: Digest, psk: hpke.Psk = hpke.NO_PSK
) -> bytes:
    """Returns the padded plaintext of a verified envelope. Raises `EnvelopeDoesNotOpen` if the AEAD refuses.

    `dh_point` is x·R for the epoch's secret x. `psk` is needed in a hybrid epoch only (`bytewise.crypto.hybrid.recover_psk`). The
    shards prove the point, which is unique, and only one PSK gives these parts. Every honest enclave therefore gets the same
    result.
    """
    secret = hpke.shared_secret(dh_point, envelope.enc, public_key)
    plaintext = hpke.key_schedule(secret, context, psk=psk).open(envelope.ciphertext)
    if plaintext is None:
        raise EnvelopeDoesNotOpen(receipt.hex())
    return plaintext


def _decoded(data: bytes, suite: int) -> Envelope:
    most = MAX_ENVELOPE_BYTES + (MAX_SHARDS * PART_BYTES if suite == SUITE_HYBRID else 0)
    if len(data) > most:
        raise TooLarge(f"{len(data)} bytes, at most {most}")
    if suite != SUITE_HYBRID:
        return decode(Envelope, data, MAX_ENVELOPE_MARKS)
    envelope = decode(HybridEnvelope, data, MAX_ENVELOPE_MARKS + 2 + MAX_SHARDS * PART_MARKS)
    hybrid.verify_sizes(envelope.parts)
    return envelope


def _verify_named(envelope: Envelope, suite: int, key_epoch: int | None, receipt: Digest) -> Envelope:
    if envelope.suite != suite:
        raise EnvelopeProofBad(receipt.hex(), f"of suite {envelope.suite}, not {suite}", EnvelopeFlaw.OTHER_SUITE)
    if key_epoch not in (None, envelope.key_epoch):
        raise EnvelopeProofBad(receipt.hex(), f"sealed to epoch {envelope.key_epoch}, not {key_epoch}", EnvelopeFlaw.OTHER_EPOCH)
    if len(envelope.ciphertext) - _TAG_BYTES not in BUCKETS:
        length = len(envelope.ciphertext)
        raise EnvelopeProofBad(
            receipt.hex(), f"a ciphertext of {length} bytes, which padding never gives", EnvelopeFlaw.NO_BUCKET
        )
    return envelope


def _points(envelope: Envelope, receipt: Digest) -> list[EccPoint]:
    points = []
    for name, data in (("enc", envelope.enc), ("ubar", envelope.ubar)):
        try:
            points.append(decode_point(data))
        except MalformedPoint as error:
            raise EnvelopeProofBad(receipt.hex(), f"{name}: {error}", error.reason) from None
    return points


def _flaw(error: Fault) -> EnvelopeFlaw:
    kinds: dict[type[Fault], EnvelopeFlaw] = {
        TooLarge: EnvelopeFlaw.TOO_LARGE,
        NotCanonical: EnvelopeFlaw.NOT_CANONICAL,
        WrongFields: EnvelopeFlaw.WRONG_FIELDS,
    }
    return kinds.get(type(error), EnvelopeFlaw.MALFORMED)


def _challenge(
    suite: int, key_epoch: int, context: Digest, points: tuple[EccPoint, ...], ciphertext: bytes, psk_id: bytes
) -> int:
    encoded = tuple(encode_point(point) for point in points)
    parts = (psk_id,) if suite == SUITE_HYBRID else ()
    return challenge(Label.TDH2_CHALLENGE, suite, key_epoch, context, *encoded, ciphertext, *parts)
