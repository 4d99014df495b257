"""The enclave's side: asks t shards at once over attested channels, checks everything they say, combines, opens the envelope.

Nothing that a shard answers is believed: its release record must be signed, name our ticket and stand in one log with those that
it gave us before, and what it gives must prove itself (`enclave.release_client`).
A shard that lies or fails is named to `on_failure`, and another is asked in its place.
"""

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto import hpke, hybrid, reconstruction
from bytewise.crypto.curve import GENERATOR, decode_point, decode_scalar, encode_point
from bytewise.crypto.envelope import open_with_point, verify_receipt_envelope
from bytewise.crypto.erasable import erase
from bytewise.crypto.hybrid import Place
from bytewise.crypto.proofs import verify_partial
from bytewise.crypto.reconstruction import TransportKey
from bytewise.crypto.shares import combine
from bytewise.ports import Quoter
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import (
    ConfigurationError,
    NoKey,
    PartDoesNotOpen,
    ReleaseNotRecorded,
    ShardLied,
    ShardRefused,
    TicketRefused,
    TryAgain,
)
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.errors.reasons import TicketFlaw
from bytewise.protocol.errors.records import EnvelopeDoesNotOpen
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy, MeasurementRole
from bytewise.protocol.evidence.claims import Evidence, evidence_digest
from bytewise.protocol.evidence.policy_updates import first_policy_state
from bytewise.protocol.jobs import RunJob, ShardRecord, anchor_domain, key_domain
from bytewise.protocol.keys.epochs import (
    HybridPartial,
    Partial,
    ReleaseAnswer,
    ReleaseReply,
    ReleaseRequest,
    ShardRefusal,
    partial_info,
    release_decision,
    share_info,
)
from bytewise.protocol.records.seal import Envelope, HybridEnvelope, seal_context
from bytewise.protocol.records.statements import Release
from bytewise.protocol.signing import typed_digest, verify_signature
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import U8, Blob, Digest
from bytewise.service import telemetry
from bytewise.service.clock import ForwardClock, SystemClock
from bytewise.service.shard_connection import Dial, dial
from bytewise.tee.binding import Terms
from bytewise.tee.channel import Channel, End, connect
from enclave.log_continuity import Promise, Promises

# What single shards gave an enclave for one envelope, checked, and what t of them make together, by the suite of the epoch.


@dataclass(frozen=True, slots=True)
class Piece:
    """What one shard gave; shows none of it."""

    point: EccPoint | None = field(default=None, repr=False)
    """Its partial; None in an epoch whose key is rebuilt."""
    share: int | None = field(default=None, repr=False)
    """Its share of the PSK, in a hybrid epoch."""
    of_key: bytearray | None = field(default=None, repr=False)
    """Its share of the key, in an epoch whose key is rebuilt."""


def take(job: RunJob, ticket_hash: Digest, envelope: Envelope, shard: ShardRecord, sealed: bytes, to: TransportKey) -> Piece:
    """What a shard sealed to the job's transport key; a `Fault` names what is wrong with it, `ShardLied` above all."""
    receipt, key = job.ticket.receipt_id, decode_point(shard.verification_key)
    names = shard.address, receipt, ticket_hash, job.ticket.key_epoch
    if is_rebuilt(job.ticket.key_epoch):
        return Piece(of_key=reconstruction.take(sealed, to, share_info(*names), shard.index, key))
    opened = hpke.open_from_transport(to.secret, partial_info(*names), sealed)
    given = decode(HybridPartial, opened) if isinstance(envelope, HybridEnvelope) else None
    partial = given.partial if given is not None else decode(Partial, opened)
    point = verify_partial(partial, shard.index, key, decode_point(envelope.enc), receipt)
    if given is None or not isinstance(envelope, HybridEnvelope):
        return Piece(point)
    return Piece(point, hybrid.verify_share(given, shard.index, envelope, place_of(job), job.epoch, receipt))


def shared_point(pieces: Mapping[int, Piece], envelope: Envelope) -> EccPoint:
    """x·R of the epoch's private key x and the envelope's ephemeral point R, from t pieces; shares of x are erased."""
    shares = {index: piece.of_key for index, piece in pieces.items() if piece.of_key is not None}
    if shares:
        return reconstruction.times_key(decode_point(envelope.enc), shares)
    return combine({index: piece.point for index, piece in pieces.items() if piece.point is not None})


def forget(pieces: Iterable[Piece]) -> None:
    """Erases what can be erased of them."""
    erase(*(piece.of_key for piece in pieces if piece.of_key is not None))


def place_of(job: RunJob) -> Place:
    """Which envelope of which epoch a job is about."""
    return Place(seal_context(anchor_domain(job.contracts), job.receipt), job.receipt.key_epoch)


# An enclave's attested channel to one shard: dialled for one job, asked once, closed (design sections 7 and 8).

MAX_REPLY_BYTES = 64 * 1024
"""A release answer has about 2 KB."""

_MAX_REPLY_MARKS = 64
"""Most brackets, commas and backslashes of a reply; it has some 20."""


def open_channel(shard: ShardRecord, end: End, transport_key: Blob, timeout_s: float, dial: Dial = dial) -> Channel:
    """The channel to a shard, for a partial that is sealed to `transport_key`.

    `TryAgain` if nobody is there; else errors as of `connect`.
    """
    try:
        stream = dial(shard, timeout_s)
    except OSError as error:
        raise TryAgain(shard.channel, type(error).__name__) from None
    return connect(stream, end, transport_key, timeout_s)


def ask(channel: Channel, shard: ShardRecord, request: ReleaseRequest, timeout_s: float) -> ReleaseAnswer:
    """The shard's answer, not yet believed; `ShardRefused` with its rule, `TryAgain` if it says so."""
    channel.send(encode(request), timeout_s)
    reply = decode(ReleaseReply, channel.receive(MAX_REPLY_BYTES, timeout_s), _MAX_REPLY_MARKS)
    if reply.answer is None:
        assert reply.refusal is not None
        raise _refused(shard, reply.refusal)
    return reply.answer


def _refused(shard: ShardRecord, refusal: ShardRefusal) -> BytewiseError:
    if refusal.retryable:
        return TryAgain(shard.channel, refusal.error)
    return ShardRefused(shard.channel, f"{refusal.error} {refusal.rule}")


TIMEOUT_S = 10.0
"""For a connection, for both ends' evidence, and for an answer each; a shard needs about 30 ms for one, plus its chain reads."""
ATTEMPTS = 6
"""Rounds over the shards that gave none and say that a retry may help: their chain view can be a block behind."""
PAUSE_S = 0.5
"""Between rounds: half a block of the devnet."""

Failed = Callable[[int, BytewiseError], None]
"""Told the index of a shard and why it gave no partial."""


def log_failure(index: int, error: BytewiseError) -> None:
    """The usual `on_failure`: one log line that names the shard and the rule."""
    telemetry.log("kms.shard_failed", shard=index, error=type(error).__name__, rule=error.rule)


def _wait(seconds: float) -> bool:
    return threading.Event().wait(seconds)


class ShardKeySource:
    """Implements `bytewise.ports.KeySource`. `pause(seconds)` waits between attempts, `dial` opens a stream to a shard."""

    def __init__(
        self,
        quoter: Quoter,
        *,
        timeout_s: float = TIMEOUT_S,
        attempts: int = ATTEMPTS,
        pause: Callable[[float], object] = _wait,
        on_failure: Failed = log_failure,
        dial: Dial = dial,
        rebuilds: bool = False,
        promises: Promises | None = None,
    ) -> None:
        """`rebuilds`: whether to put keys together in this process, where an epoch is for that; it should end after one job.
        `promises`: what shards promised before; None if this is the first that hears of any."""
        self._rebuilds = rebuilds
        self._quoter = quoter
        self._dial = dial
        self._clock = ForwardClock(SystemClock())
        self._pause = pause
        self._on_failure = on_failure
        self._timeout_s = timeout_s
        self._attempts = attempts
        self._promises = promises or Promises()

    def open(self, job: RunJob, transport_secret: bytes) -> bytes:
        """Padded plaintext of the job's envelope; `EnvelopeProofBad` or `EnvelopeDoesNotOpen`, `NoKey` below the threshold.

        `TicketRefused` for a job whose ticket, receipt and epoch record do not name one key epoch.
        """
        envelope = verify_receipt_envelope(anchor_domain(job.contracts), job.receipt, job.envelope)
        hybrid.verify_for(envelope, job.epoch, job.ticket.receipt_id)
        _verify_one_epoch(job)
        if is_rebuilt(job.receipt.key_epoch) and not self._rebuilds:
            raise NoKey(0, job.epoch.threshold, "none was asked: this enclave rebuilds no keys")
        pieces, failures = dict[int, Piece](), dict[int, BytewiseError]()
        try:
            self._collect(Asking(job, envelope, transport_secret), pieces, failures)
            psk = self._psk(job, envelope, pieces, failures)
            point = shared_point(pieces, envelope)
        finally:
            forget(pieces.values())
        return open_with_point(envelope, point, job.epoch.public_key, place_of(job).context, job.ticket.receipt_id, psk)

    def _psk(
        self, job: RunJob, envelope: Envelope, pieces: Mapping[int, Piece], failures: Mapping[int, BytewiseError]
    ) -> hpke.Psk:
        to = hybrid.recipients(job.epoch)
        if to is None or not isinstance(envelope, HybridEnvelope):
            return hpke.NO_PSK
        shares = {index: piece.share for index, piece in pieces.items() if piece.share is not None}
        psk = hybrid.recovered(shares, envelope, to, place_of(job))
        if psk is None:
            raise EnvelopeDoesNotOpen(job.ticket.receipt_id.hex())
        for index, error in failures.items():
            if isinstance(error, PartDoesNotOpen):
                self._on_failure(index, ShardLied(index, "says that its part does not open, which is as it should be"))
        return psk

    def _collect(self, asking: "Asking", pieces: dict[int, Piece], failures: dict[int, BytewiseError]) -> None:
        """Fills `pieces` with those of t shards; `NoKey` if there are not so many."""
        job = asking.job
        for attempt in range(self._attempts):
            if attempt:
                self._pause(PAUSE_S)
            self._round(asking, pieces, failures)
            if len(pieces) == job.epoch.threshold:
                _verify_epoch_keys(job, pieces)
                return
            # As many as leave no t others: with fewer than t liars among 2t - 1 or more, one of them at least says the truth.
            if sum(isinstance(each, PartDoesNotOpen) for each in failures.values()) > len(job.epoch.shards) - job.epoch.threshold:
                raise EnvelopeDoesNotOpen(job.ticket.receipt_id.hex())
            if not any(_may_ask(shard, pieces, failures) for shard in job.epoch.shards):
                break
        reasons = ", ".join(f"shard {index} {type(error).__name__}" for index, error in sorted(failures.items()))
        raise NoKey(len(pieces), job.epoch.threshold, reasons)

    def _round(self, asking: "Asking", pieces: dict[int, Piece], failures: dict[int, BytewiseError]) -> None:
        """Asks as many at once as are missing, and another for each that fails: never more than are needed give something."""
        epoch = asking.job.epoch
        waiting = iter([each for each in epoch.shards if _may_ask(each, pieces, failures)])
        missing = epoch.threshold - len(pieces)
        with ThreadPoolExecutor(missing, "shard") as threads:
            running = {threads.submit(self._release, asking, shard): shard for shard in islice(waiting, missing)}
            while running:
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    shard = running.pop(done)
                    try:
                        pieces[shard.index] = done.result()
                    except BytewiseError as error:
                        failures[shard.index] = error
                        self._on_failure(shard.index, error)
                        running |= {threads.submit(self._release, asking, spare): spare for spare in islice(waiting, 1)}

    def _release(self, asking: "Asking", shard: ShardRecord) -> Piece:
        job, end = asking.job, End(asking.terms(shard), self._quoter, None, self._clock, os.urandom)
        with open_channel(shard, end, asking.to.public, self._timeout_s, self._dial) as channel:
            answer, evidence = ask(channel, shard, asking.request, self._timeout_s), channel.shown
        record, digest = _verify_record(job, shard, answer, asking.ticket_hash, evidence)
        domain = key_domain(job.contracts)
        self._promises.keep(shard.index, Promise(domain.chain_id, domain.contract, record, answer.signature), digest)
        telemetry.log("kms.promised", shard=shard.address, epoch=record.key_epoch, index=record.index, record=digest)
        return take(job, asking.ticket_hash, asking.envelope, shard, answer.sealed_partial, asking.to)


class Asking:
    """What is the same for all shards that are asked about one job; never printed."""

    def __init__(self, job: RunJob, envelope: Envelope, transport_secret: bytes) -> None:
        """A `Fault` for a policy that is none: the job's fault."""
        self.job = job
        self.envelope = envelope
        self.to = TransportKey(transport_secret, encode_point(GENERATOR * decode_scalar(transport_secret)))
        self.ticket_hash = typed_digest(key_domain(job.contracts), job.ticket)
        self.request = ReleaseRequest(
            ticket=job.ticket, ticket_signature=job.ticket_signature, receipt=job.receipt,
            receipt_signature=job.receipt_signature, batch_id=job.batch_id, proof=job.proof, envelope=job.envelope,
        )  # fmt: skip
        self._standing = first_policy_state(decode(AppraisalPolicy, job.policy))

    def terms(self, shard: ShardRecord) -> Terms:
        """What a shard must be: a program of the policy that its account vouches for, on this network, in this epoch.

        The policy is the duty process's word. A shard that has another refuses the channel, and what an enclave tells a shard
        is public: a false policy opens nothing.
        """
        job = self.job
        return Terms(
            MeasurementRole.VERIFIER_ENCLAVE,
            MeasurementRole.KEY_SHARD,
            job.contracts,
            job.ticket.key_epoch,
            self._standing,
            shard.address,
        )


def _may_ask(shard: ShardRecord, pieces: Mapping[int, Piece], failures: Mapping[int, BytewiseError]) -> bool:
    failed = failures.get(shard.index)
    return shard.index not in pieces and (failed is None or isinstance(failed, Unavailable))


def _verify_record(
    job: RunJob, shard: ShardRecord, answer: ReleaseAnswer, ticket_hash: Digest, evidence: bytes
) -> tuple[Release, Digest]:
    record, ticket = answer.record, job.ticket
    wanted = (
        ("receipt", record.receipt_id, ticket.receipt_id),
        ("ticket", record.ticket_hash, ticket_hash),
        ("epoch", record.key_epoch, ticket.key_epoch),
        ("shard", record.shard, shard.address),
        ("voter", record.voter, ticket.voter),
        ("evidence", record.evidence_hash, evidence_digest(decode(Evidence, evidence))),
        ("transport key", record.transport_key_hash, ticket.transport_key_hash),
        ("decision", record.decision, U8(release_decision(ticket.key_epoch))),
    )
    for what, have, want in wanted:
        if have != want:
            raise ReleaseNotRecorded(shard.index, f"names another {what}")
    digest = typed_digest(key_domain(job.contracts), record)
    verify_signature(f"release record of shard {shard.index}", digest, answer.signature, shard.address)
    return record, digest


def _verify_one_epoch(job: RunJob) -> None:
    # What shards give goes by the ticket's epoch, and what this enclave does with it must go by no other.
    for what, named in (("ticket", job.ticket.key_epoch), ("epoch record", job.epoch.epoch)):
        if named != job.receipt.key_epoch:
            raise TicketRefused(f"job names another key epoch in its {what} than in its receipt", TicketFlaw.OTHER_EPOCH)


def _verify_epoch_keys(job: RunJob, pieces: Mapping[int, Piece]) -> EccPoint:
    # What shards give is proven against verification keys that the duty process gave: these must be of the epoch's own key, or
    # an envelope would seem not to open through no fault of the operator.
    keys = {each.index: decode_point(each.verification_key) for each in job.epoch.shards if each.index in pieces}
    if encode_point(combine(keys)) != job.epoch.public_key:
        raise ConfigurationError(f"key epoch {job.epoch.epoch}", "verification keys are not of its public key")
    return combine(keys)
