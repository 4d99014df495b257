"""Hybrid envelopes of one epoch whose secrets the tests have, and what its shards and an enclave make of them."""

import os
from dataclasses import replace

from bytewise.crypto import hpke, hybrid
from bytewise.crypto.curve import GENERATOR, decode_point, encode_point, random_scalar
from bytewise.crypto.envelope import open_with_point, seal_padded, verify_envelope
from bytewise.crypto.hybrid import Place, Recipients
from bytewise.protocol.errors.records import EnvelopeDoesNotOpen
from bytewise.protocol.keys.epochs import HybridPartial, Partial
from bytewise.protocol.records.seal import HybridEnvelope
from bytewise.protocol.suites import SUITE_HYBRID, hybrid_epoch
from bytewise.protocol.units import Blob, Digest

SECRET = random_scalar(os.urandom)
PUBLIC = encode_point(GENERATOR * SECRET)
CONTEXT, RECEIPT, EPOCH = Digest(b"\x01" * 32), Digest(b"\x02" * 32), hybrid_epoch(1)
PLACE = Place(CONTEXT, EPOCH)
PLAIN = b"the request and its answer".ljust(4096, b"\0")
THRESHOLD, COUNT = 3, 5
SEEDS = [os.urandom(hpke.KEM_SEED_BYTES) for _ in range(COUNT)]
TO = Recipients(THRESHOLD, tuple(hpke.kem_key(seed) for seed in SEEDS))
DATA = seal_padded(PLAIN, PUBLIC, CONTEXT, EPOCH, os.urandom, TO)
NOTHING = Partial(0, Blob(b""), Blob(b""), Blob(b""))


def verified(data: bytes = DATA, context: Digest = CONTEXT) -> HybridEnvelope:
    found = verify_envelope(data, context, RECEIPT, SUITE_HYBRID)
    assert isinstance(found, HybridEnvelope)
    return found


def given_by(index: int, envelope: HybridEnvelope, place: Place = PLACE) -> HybridPartial:
    return hybrid.give(replace(NOTHING, index=index), envelope, place, SEEDS[index - 1], Digest(bytes(32)))


def shares_of(envelope: HybridEnvelope, indices: tuple[int, ...]) -> dict[int, int]:
    """What these shards give, those that have something to give."""
    answers = {index: given_by(index, envelope).share for index in indices}
    return {index: int.from_bytes(share) for index, share in answers.items() if share is not None}


def opened(envelope: HybridEnvelope, indices: tuple[int, ...]) -> bytes:
    """The plaintext as an enclave gets it that asked these shards; P-256's half is done by whoever knows the logarithm."""
    psk = hybrid.recovered(shares_of(envelope, indices), envelope, TO, PLACE)
    if psk is None:
        raise EnvelopeDoesNotOpen(RECEIPT.hex())
    return open_with_point(envelope, decode_point(envelope.enc) * SECRET, PUBLIC, CONTEXT, RECEIPT, psk)
