"""Curve points, envelopes, partials and what is sealed to a key: what shards and enclaves read of each other and of operators."""

import os
from pathlib import Path

from bytewise.crypto import hpke, mlkem
from bytewise.crypto.curve import GENERATOR, decode_point, decode_scalar, encode_point, encode_scalar, random_scalar
from bytewise.crypto.envelope import seal_padded, verify_envelope
from bytewise.crypto.shares import prove_partial, verify_partial
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ShardLied
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import EnvelopeProofBad, MalformedValue
from bytewise.protocol.keys.epochs import HybridPartial, Partial
from bytewise.protocol.suites import KEM_KEY_BYTES, SUITE_HYBRID
from bytewise.protocol.units import Blob, Digest
from tests.fixtures.kms import hybrid_epoch
from tests.fuzz.target import Target, same, target

CONTEXT, RECEIPT = Digest(b"\x01" * 32), Digest(b"\x02" * 32)
PLAIN = b"a question and its answer".ljust(4096, b"\0")


def points(_folder: Path) -> Target:
    """Points and scalars of P-256."""

    def read(data: bytes) -> None:
        again = encode_scalar(decode_scalar(data)) if len(data) == 32 else encode_point(decode_point(data))
        if again != data:
            raise AssertionError("a second encoding of one value")

    seeds = (encode_point(GENERATOR), encode_point(GENERATOR * 7), encode_scalar(0), encode_scalar(-1), b"\x04" + bytes(64))
    return target(read, seeds, MalformedValue)


def envelopes(_folder: Path) -> Target:
    """Envelopes of the first suite, as client, shard and enclave verify them."""
    public = encode_point(GENERATOR * random_scalar(os.urandom))
    seed = seal_padded(PLAIN, public, CONTEXT, 1, os.urandom)
    return target(lambda data: same(verify_envelope(data, CONTEXT, RECEIPT), data), [seed], EnvelopeProofBad)


def hybrid_envelopes(_folder: Path) -> Target:
    """Envelopes of the hybrid suite."""

    def read(data: bytes) -> None:
        same(verify_envelope(data, hybrid_epoch.CONTEXT, hybrid_epoch.RECEIPT, SUITE_HYBRID), data)

    return target(read, [hybrid_epoch.DATA], EnvelopeProofBad)


def partials(_folder: Path) -> Target:
    """What an enclave opens of a shard's answer, in both suites."""
    share, base = random_scalar(os.urandom), GENERATOR * random_scalar(os.urandom)
    key = GENERATOR * share
    genuine = prove_partial(1, share, base, RECEIPT, os.urandom)
    both = HybridPartial(genuine, Digest(bytes(32)), Blob(bytes(32)))

    def read(data: bytes) -> None:
        found = same(decode(HybridPartial, data), data).partial if b'"share"' in data else same(decode(Partial, data), data)
        verify_partial(found, 1, key, base, RECEIPT)

    return target(read, [encode(genuine), encode(both)], (Fault, ShardLied))


def sealed(_folder: Path) -> Target:
    """Messages sealed to a transport key or to a shard's ML-KEM-768 key, and such keys themselves."""
    secret, public = hpke.transport_keypair(os.urandom)
    seed = os.urandom(hpke.KEM_SEED_BYTES)
    encapsulated = mlkem.encapsulate(hpke.kem_key(seed), bytes(32))
    context = hpke.key_schedule(encapsulated.secret, b"info", kem=hpke.ML_KEM_768)
    seeds = (
        hpke.seal_to_transport(public, b"info", b"a partial"), encapsulated.ciphertext + context.seal(bytes(32)),
        hpke.kem_key(seed), public,
    )  # fmt: skip

    def read(data: bytes) -> None:
        if len(data) == KEM_KEY_BYTES:
            mlkem.verify_key(data)
        elif len(data) == len(public):
            hpke.seal_to_transport(data, b"info", b"")
        elif len(data) > mlkem.CIPHERTEXT_BYTES - 8:
            hpke.open_with_kem(seed, b"info", data)
        else:
            hpke.open_from_transport(secret, b"info", data)

    return target(read, seeds, MalformedValue)
