"""A complete enclave in memory for tests: a real envelope, a key source that holds the whole key, a simulated quoter."""

import dataclasses
import functools
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

from bytewise.crypto.curve import GENERATOR, Rng, decode_point, encode_point
from bytewise.crypto.envelope import open_with_point, seal_padded, verify_receipt_envelope
from bytewise.protocol.errors.actors import CannotExecute, NoKey
from bytewise.protocol.jobs import Contracts, EpochRecord, RunJob, ShardRecord, anchor_domain, key_domain
from bytewise.protocol.records.compare import Verification
from bytewise.protocol.records.receipt import Receipt, receipt_id
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.records.seal import Payload, envelope_hash, pad, seal_context
from bytewise.protocol.records.statements import CannotReason, Ticket, TicketKind, transport_key_hash
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import U8, U16, U64, U256, ZERO_DIGEST, Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.tee.measurement import measure
from bytewise.tee_simulated.quoter import SimulatedQuoter, source_root
from bytewise.tee_simulated.root import Platform, issue, make_root
from enclave import server
from enclave.session import Bench
from tests.world import ANCHOR, CHAIN_ID, DISPUTES, KEY_EPOCHS, MODEL, NOW, Parrot, World, signer, word

SECRET = int.from_bytes(word("application key"))
PUBLIC = encode_point(GENERATOR * SECRET)
CONTRACTS = Contracts(U256(CHAIN_ID), ANCHOR.contract, DISPUTES.contract, KEY_EPOCHS.contract)
SHARD = ShardRecord(1, signer("shard").address, "https://127.0.0.1:1", "127.0.0.1:1", "PEM", PUBLIC)
EPOCH = EpochRecord(U64(1), PUBLIC, 1, (SHARD,), "simulated")
VOTER = signer("voter")
ENTRY = "enclave.session"
"""The measured program of these tests: without a model."""
DISPUTE = word("dispute")


class WholeKey:
    """A `KeySource` that holds the application key: what t shards are together."""

    def __init__(self, available: bool = True) -> None:
        self.available = available

    def open(self, job: RunJob, transport_secret: bytes) -> bytes:
        """Verifies the envelope and opens it."""
        envelope = verify_receipt_envelope(anchor_domain(job.contracts), job.receipt, job.envelope)
        if not self.available:
            raise NoKey(1, 2, "shard 2 TryAgain")
        context = seal_context(anchor_domain(job.contracts), job.receipt)
        point = decode_point(envelope.enc) * SECRET
        return open_with_point(envelope, point, job.epoch.public_key, context, job.ticket.receipt_id)


@dataclass(frozen=True, slots=True)
class TwoParrots(Parrot):
    """An engine with a second backend, which is another parrot of step `second`."""

    second: int = 7

    def confirm(self, request: Request, verification: Verification) -> Verification:
        """The verification, if the second parrot gives the same answer."""
        if Parrot(self.second).generate(request) != verification.truth:
            raise CannotExecute("backends disagree")
        return verification


class OutOfMemory(TwoParrots):
    """An engine on a machine that is too small."""

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Never ends."""
        raise MemoryError


class Starved(TwoParrots):
    """The same, as the exact engine says it."""

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Never ends."""
        raise CannotExecute("out of memory", CannotReason.RESOURCES)


def seal(receipt: Receipt, plaintext: bytes) -> tuple[Receipt, bytes]:
    """The receipt with the hash of its sealed envelope, and the envelope."""
    envelope = seal_padded(plaintext, PUBLIC, seal_context(ANCHOR, receipt), receipt.key_epoch, _bytes())
    return dataclasses.replace(receipt, envelope_hash=envelope_hash(envelope)), envelope


def _bytes() -> Rng:
    counter = iter(range(1000))
    return lambda size: word("randomness", next(counter))[:size]


POLICY = Blob(b"{}")
"""The appraisal policy in force, as far as anybody here reads it."""


def sealed(world: World, payload: Payload, receipt: Receipt) -> tuple[Receipt, bytes]:
    """As `seal`, of a payload."""
    return seal(receipt, pad(payload))


def job(world: World, receipt: Receipt, envelope: bytes, kind: TicketKind = TicketKind.DISPUTE, **changes: object) -> RunJob:
    """A job of VOTER about a receipt; the ticket's transport key is still empty."""
    identifier = receipt_id(ANCHOR, receipt)
    is_dispute = kind is TicketKind.DISPUTE
    ticket = Ticket(
        U8(kind), DISPUTE if is_dispute else identifier, U16(1 if is_dispute else 0), identifier, VOTER.address, ZERO_DIGEST,
        ZERO_DIGEST, receipt.key_epoch, U64(NOW + 100),
    )  # fmt: skip
    plain = RunJob(
        ticket, Blob(b""), receipt, world.operator.sign(identifier), 0, (), NOW, Blob(envelope), world.environment, EPOCH,
        CONTRACTS, word("round seed") if is_dispute else ZERO_DIGEST, POLICY,
    )  # fmt: skip
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def ticketed(plain: RunJob, instance: Digest, transport_key: Blob) -> RunJob:
    """The job with a signed ticket for a prepared transport key."""
    ticket = dataclasses.replace(plain.ticket, instance=instance, transport_key_hash=transport_key_hash(transport_key))
    signature = VOTER.sign(typed_digest(key_domain(plain.contracts), ticket))
    return dataclasses.replace(plain, ticket=ticket, ticket_signature=signature)


@functools.cache
def measurement() -> Digest:
    """Measurement of the program of these tests."""
    return measure(source_root(), ENTRY)


def bench(folder: Path, engine: TwoParrots | None = None, keys: WholeKey | None = None) -> Bench:
    """An enclave's bench with a platform of its own root."""
    make_root(folder / "root")
    issue(folder / "root", folder / "platform.pem")
    quoter = SimulatedQuoter(Platform(folder / "platform.pem"), measurement(), SystemClock())
    return Bench(engine or TwoParrots(), MODEL, keys or WholeKey(), quoter, CHAIN_ID, os.urandom)


def serve(listening: socket.socket, bench: Bench, stop: threading.Event) -> None:
    """One conversation after another in one process, until told to stop; the enclave's program has a process for each."""
    while not stop.is_set():
        server.serve_one(listening, bench)
