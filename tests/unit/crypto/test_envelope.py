"""Envelopes: what seals opens, and a mauled, copied or forged envelope reaches no share."""

import os
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.crypto.curve import GENERATOR, decode_point, encode_point, encode_scalar, second_generator
from bytewise.crypto.envelope import MAX_ENVELOPE_BYTES, open_with_point, seal_padded, verify_envelope
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.records import EnvelopeDoesNotOpen, EnvelopeProofBad, MalformedValue
from bytewise.protocol.records.seal import BUCKETS, Envelope, envelope_hash
from bytewise.protocol.units import U64, Blob, Digest

SECRET = 0x1234567890ABCDEF
PUBLIC = encode_point(GENERATOR * SECRET)
CONTEXT, OTHER_CONTEXT, RECEIPT = Digest(b"\x01" * 32), Digest(b"\x02" * 32), Digest(b"\x03" * 32)
PLAIN = b"\x00\x00\x00\x02{}".ljust(BUCKETS[0], b"\0")


def sealed(plain: bytes = PLAIN, context: Digest = CONTEXT) -> Envelope:
    return verify_envelope(seal_padded(plain, PUBLIC, context, 7, os.urandom), context, RECEIPT)


@pytest.mark.parametrize("bucket", BUCKETS[:4])
def test_the_epoch_secret_opens_what_was_sealed(bucket: int) -> None:
    envelope = sealed(os.urandom(bucket))
    point = decode_point(envelope.enc) * SECRET
    assert len(open_with_point(envelope, point, PUBLIC, CONTEXT, RECEIPT)) == bucket


def test_envelopes_interoperate_with_an_independent_hpke() -> None:
    suite, key = Suite(KEM.P256, KDF.HKDF_SHA256, AEAD.AES_256_GCM), ec.derive_private_key(SECRET, ec.SECP256R1())
    envelope = sealed()
    assert suite.decrypt(envelope.enc + envelope.ciphertext, key, info=CONTEXT) == PLAIN
    theirs = suite.encrypt(PLAIN, key.public_key(), info=CONTEXT)
    imported = replace(envelope, enc=Blob(theirs[:65]), ciphertext=Blob(theirs[65:]))
    assert open_with_point(imported, decode_point(imported.enc) * SECRET, PUBLIC, CONTEXT, RECEIPT) == PLAIN


@pytest.mark.parametrize("change", ["key", "context", "ciphertext"])
def test_envelope_that_does_not_open_is_reported(change: str) -> None:
    envelope = sealed()
    point, context = decode_point(envelope.enc) * SECRET, CONTEXT
    match change:
        case "key":
            point = point + GENERATOR
        case "context":
            context = OTHER_CONTEXT
        case _:
            envelope = replace(envelope, ciphertext=Blob(envelope.ciphertext[:-1] + b"\x00"))
    with pytest.raises(EnvelopeDoesNotOpen):
        open_with_point(envelope, point, PUBLIC, context, RECEIPT)


def changed(envelope: Envelope) -> dict[str, Envelope]:
    other = sealed()
    return {
        "suite": replace(envelope, suite=2),
        "epoch": replace(envelope, key_epoch=U64(8)),
        "enc": replace(envelope, enc=other.enc),
        "ubar": replace(envelope, ubar=other.ubar),
        "enc and ubar": replace(envelope, enc=other.enc, ubar=other.ubar),
        "e": replace(envelope, e=other.e),
        "f": replace(envelope, f=other.f),
        "ciphertext": replace(envelope, ciphertext=other.ciphertext),
        "no bucket": replace(envelope, ciphertext=Blob(envelope.ciphertext + b"\0")),
        "identity": replace(envelope, enc=Blob(b"\x04" + bytes(64))),
        "compressed": replace(envelope, enc=Blob(b"\x02" + envelope.enc[1:33])),
        "e above the order": replace(envelope, e=Blob(b"\xff" * 32)),
        "f plus the order": replace(envelope, f=Blob(b"\xff" * 32)),
        "f too short": replace(envelope, f=Blob(envelope.f[1:])),
    }


@pytest.mark.parametrize("name", changed(sealed()))
def test_an_envelope_with_one_changed_member_is_refused(name: str) -> None:
    with pytest.raises(EnvelopeProofBad):
        verify_envelope(encode(changed(sealed())[name]), CONTEXT, RECEIPT)


def test_a_proof_of_nothing_is_no_proof() -> None:
    """Its maker knows the ephemeral key, and chooses a response that makes both witnesses the identity."""
    ephemeral, e = 987654321, 7
    enc, ubar = encode_point(GENERATOR * ephemeral), encode_point(second_generator() * ephemeral)
    forged = replace(sealed(), enc=enc, ubar=ubar, e=encode_scalar(e), f=encode_scalar(ephemeral * e))
    with pytest.raises(EnvelopeProofBad, match="degenerate proof"):
        verify_envelope(encode(forged), CONTEXT, RECEIPT)


def test_mauled_envelope_passes_without_the_proof_and_fails_with_it() -> None:
    """The attack on plain HPKE: submit R + aG for an own receipt, subtract a times the public key."""
    victim = sealed()
    shift = 0xA77ACC
    mauled_point = decode_point(victim.enc) + GENERATOR * shift
    # What shards would compute if nobody checked the proof: x·R' for a point that no longer looks like the victim's.
    oracle = mauled_point * SECRET
    stolen = oracle + -(decode_point(PUBLIC) * shift)
    assert open_with_point(victim, stolen, PUBLIC, CONTEXT, RECEIPT) == PLAIN
    # With the check there is no such envelope: r + a is unknown, so neither the old proof nor a shifted Ū helps.
    mauled_ubar = decode_point(victim.ubar) + second_generator() * shift
    for ubar in (victim.ubar, encode_point(mauled_ubar)):
        for context in (CONTEXT, OTHER_CONTEXT):
            forged = replace(victim, enc=encode_point(mauled_point), ubar=ubar)
            with pytest.raises(EnvelopeProofBad):
                verify_envelope(encode(forged), context, RECEIPT)


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_random_bytes_are_no_envelope(data: bytes) -> None:
    with pytest.raises(EnvelopeProofBad):
        verify_envelope(data, CONTEXT, RECEIPT)


FIXED = seal_padded(PLAIN, PUBLIC, CONTEXT, 7, os.urandom)


@given(st.integers(0, len(FIXED) - 1), st.integers(1, 255))
@settings(max_examples=150, deadline=None)
def test_no_byte_of_an_envelope_can_be_changed(position: int, flip: int) -> None:
    data = bytearray(FIXED)
    data[position] ^= flip
    with pytest.raises(EnvelopeProofBad):
        verify_envelope(bytes(data), CONTEXT, RECEIPT)


def test_the_largest_bucket_is_below_the_cap() -> None:
    data = seal_padded(bytes(BUCKETS[-1]), PUBLIC, CONTEXT, 2**32 - 1, os.urandom)
    assert len(data) <= MAX_ENVELOPE_BYTES
    assert verify_envelope(data, CONTEXT, RECEIPT).key_epoch == 2**32 - 1


def test_a_public_key_that_is_no_point_seals_nothing() -> None:
    with pytest.raises(MalformedValue):
        seal_padded(PLAIN, Blob(b"\x04" + bytes(64)), CONTEXT, 7, os.urandom)


def test_envelope_bytes_are_pinned() -> None:
    """Same randomness, same bytes: labels, order and encoding of the proof never change unseen."""
    counter = iter(range(1, 100))
    data = seal_padded(PLAIN, PUBLIC, CONTEXT, 7, lambda size: bytes([next(counter)]) * size)
    assert encode(decode(Envelope, data)) == data
    assert envelope_hash(data).hex()[:16] == "18d723bf15c701cd"
