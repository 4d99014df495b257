"""The enclave's side of a release: it collects partials or shares from the shards and opens the envelope with them. It asks the
shards in parallel over attested channels, and no more of them than the threshold requires.

The enclave trusts no answer. A release record must be signed, name the ticket and fit the shard's earlier records
(`enclave.log_continuity`). A partial or share must have a valid proof. If a shard lies or fails, the enclave calls `on_failure`
and asks another shard instead.
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
from bytewise.crypto.hybrid import EnvelopeContext
from bytewise.crypto.reconstruction import TransportKey, erase
from bytewise.crypto.shares import combine, verify_partial
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
from bytewise.protocol.errors.branches import BytewiseError, TicketFlaw, Unavailable
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
from bytewise.service.connections import Dial, dial
from bytewise.tee.binding import PeerRequirements
from bytewise.tee.channel import Channel, ChannelEndpoint, connect
from enclave.log_continuity import LogContinuity, RecordedRelease


@dataclass(frozen=True, slots=True)
class ShardAnswer:
    """The verified answer of one shard for one envelope. It is secret and never printed."""

    point: EccPoint | None = field(default=None, repr=False)
    """The shard's partial, or None in an epoch whose key is rebuilt."""
    share: int | None = field(default=None, repr=False)
    """The shard's share of the pre-shared key (PSK) of a hybrid epoch's envelope, or None in other epochs."""
    of_key: bytearray | None = field(default=None, repr=False)
    """The shard's share of the key in an epoch whose key is rebuilt, or None in other epochs."""


def open_answer(
    job: RunJob, ticket_hash: Digest, envelope: Envelope, shard: ShardRecord, sealed: bytes, to: TransportKey
) -> ShardAnswer:
    """Opens and verifies an answer that a shard sealed to the job's transport key. Raises a `Fault`, usually `ShardLied`, that
    names the flaw."""
    receipt, key = job.ticket.receipt_id, decode_point(shard.verification_key)
    names = shard.address, receipt, ticket_hash, job.ticket.key_epoch
    if is_rebuilt(job.ticket.key_epoch):
        return ShardAnswer(of_key=reconstruction.open_key_share(sealed, to, share_info(*names), shard.index, key))
    opened = hpke.open_from_transport(to.secret, partial_info(*names), sealed)
    given = decode(HybridPartial, opened) if isinstance(envelope, HybridEnvelope) else None
    partial = given.partial if given is not None else decode(Partial, opened)
    point = verify_partial(partial, shard.index, key, decode_point(envelope.enc), receipt)
    if given is None or not isinstance(envelope, HybridEnvelope):
        return ShardAnswer(point)
    return ShardAnswer(point, hybrid.verify_share(given, shard.index, envelope, envelope_context(job), job.epoch, receipt))


def shared_point(answers: Mapping[int, ShardAnswer], envelope: Envelope) -> EccPoint:
    """Computes the point x·R that opens an envelope, where x is the epoch's private key and R the envelope's ephemeral point.
    `answers` has the answers of as many shards as the threshold requires. If these contain shares of x, it erases the shares."""
    shares = {index: piece.of_key for index, piece in answers.items() if piece.of_key is not None}
    if shares:
        return reconstruction.multiply_by_key(decode_point(envelope.enc), shares)
    return combine({index: piece.point for index, piece in answers.items() if piece.point is not None})


def erase_answers(answers: Iterable[ShardAnswer]) -> None:
    """Erases the shares of the key in these answers from memory."""
    erase(*(piece.of_key for piece in answers if piece.of_key is not None))


def envelope_context(job: RunJob) -> EnvelopeContext:
    """Returns the context to which a job's envelope is bound."""
    return EnvelopeContext(seal_context(anchor_domain(job.contracts), job.receipt), job.receipt.key_epoch)


MAX_REPLY_BYTES = 64 * 1024
"""Largest reply of a shard in bytes. A release answer has about 2 KB."""

_MAX_REPLY_MARKS = 64
"""Most brackets, commas and backslashes in a reply. A usual reply has some 20."""


def open_channel(shard: ShardRecord, end: ChannelEndpoint, transport_key: Blob, timeout_s: float, dial: Dial = dial) -> Channel:
    """Opens the attested channel over which an enclave asks a shard. The channel binds `transport_key`, to which the shard will
    seal its answer.

    Raises `TryAgain` if the shard cannot be reached, the other errors of `dial`, and those of `bytewise.tee.channel.connect`.
    """
    try:
        stream = dial(shard, timeout_s)
    except OSError as error:
        raise TryAgain(shard.channel, type(error).__name__) from None
    return connect(stream, end, transport_key, timeout_s)


def request_release(channel: Channel, shard: ShardRecord, request: ReleaseRequest, timeout_s: float) -> ReleaseAnswer:
    """Sends the request and returns the shard's answer, which is not verified yet. Raises `ShardRefused` with the shard's rule,
    or `TryAgain` if the shard says that the enclave should ask again."""
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
"""Seconds for each of three steps: the connection, the evidence of both ends, and the answer. A shard needs about 30 ms for an
answer, plus its reads of the chain."""
ATTEMPTS = 6
"""Most rounds for one envelope. The first round asks the shards. Each further round asks a shard again if it gave nothing but may
answer later. Such a shard may have read the chain one block behind."""
PAUSE_S = 0.5
"""Seconds between two rounds: half a block of the devnet."""

FailureHandler = Callable[[int, BytewiseError], None]
"""Function that gets the index of a shard and the reason why it gave no valid partial or share."""


def log_failure(index: int, error: BytewiseError) -> None:
    """Writes one log line with the shard and the rule of the error. It is the default for `on_failure`."""
    telemetry.log("shard.failed", shard=index, error=type(error).__name__, rule=error.rule)


def _wait(seconds: float) -> bool:
    return threading.Event().wait(seconds)


class ShardKeySource:
    """A key source that opens envelopes with partials or shares from shards. Implements `bytewise.ports.KeySource`.
    `pause(seconds)` waits between rounds, and `dial` opens a stream to a shard."""

    def __init__(
        self,
        quoter: Quoter,
        *,
        timeout_s: float = TIMEOUT_S,
        attempts: int = ATTEMPTS,
        pause: Callable[[float], object] = _wait,
        on_failure: FailureHandler = log_failure,
        dial: Dial = dial,
        rebuilds: bool = False,
        continuity: LogContinuity | None = None,
    ) -> None:
        """`rebuilds` says whether this process rebuilds the keys of epochs that need it; such a process should end after one job.
        `continuity` has the releases that are known so far, or is None if there are none."""
        self._rebuilds = rebuilds
        self._quoter = quoter
        self._dial = dial
        self._clock = ForwardClock(SystemClock())
        self._pause = pause
        self._on_failure = on_failure
        self._timeout_s = timeout_s
        self._attempts = attempts
        self._continuity = continuity or LogContinuity()

    def open(self, job: RunJob, transport_secret: bytes) -> bytes:
        """Returns the padded plaintext of the job's envelope.

        Raises `EnvelopeProofBad` or `EnvelopeDoesNotOpen` for a bad envelope. Raises `NoKey` if fewer shards than the threshold
        answer, or if the key must be rebuilt and this process rebuilds no keys. Raises `TicketRefused` if ticket, receipt and
        epoch record do not name the same key epoch, and `ConfigurationError` if the epoch record contradicts itself.
        """
        envelope = verify_receipt_envelope(anchor_domain(job.contracts), job.receipt, job.envelope)
        hybrid.verify_part_count(envelope, job.epoch, job.ticket.receipt_id)
        _verify_one_epoch(job)
        if is_rebuilt(job.receipt.key_epoch) and not self._rebuilds:
            raise NoKey(
                0,
                job.epoch.threshold,
                "no shard was asked, since this enclave rebuilds no keys: set rebuild_keys to open this epoch",
            )
        answers, failures = dict[int, ShardAnswer](), dict[int, BytewiseError]()
        try:
            self._collect(ReleaseQuery(job, envelope, transport_secret), answers, failures)
            psk = self._psk(job, envelope, answers, failures)
            point = shared_point(answers, envelope)
        finally:
            erase_answers(answers.values())
        return open_with_point(envelope, point, job.epoch.public_key, envelope_context(job).context, job.ticket.receipt_id, psk)

    def _psk(
        self, job: RunJob, envelope: Envelope, answers: Mapping[int, ShardAnswer], failures: Mapping[int, BytewiseError]
    ) -> hpke.Psk:
        to = hybrid.recipients(job.epoch)
        if to is None or not isinstance(envelope, HybridEnvelope):
            return hpke.NO_PSK
        shares = {index: piece.share for index, piece in answers.items() if piece.share is not None}
        psk = hybrid.recover_psk(shares, envelope, to, envelope_context(job))
        if psk is None:
            raise EnvelopeDoesNotOpen(job.ticket.receipt_id.hex())
        for index, error in failures.items():
            if isinstance(error, PartDoesNotOpen):
                self._on_failure(index, ShardLied(index, "says that its part does not open, although the part is right"))
        return psk

    def _collect(self, query: "ReleaseQuery", answers: dict[int, ShardAnswer], failures: dict[int, BytewiseError]) -> None:
        """Fills `answers` with the answers of as many shards as the threshold requires. Raises `NoKey` if fewer shards answer.
        Raises `EnvelopeDoesNotOpen` if too many shards state that their part of the envelope does not open."""
        job = query.job
        for attempt in range(self._attempts):
            if attempt:
                self._pause(PAUSE_S)
            self._round(query, answers, failures)
            if len(answers) == job.epoch.threshold:
                _verify_epoch_keys(job, answers)
                return
            # After so many failures fewer than t shards are left. With fewer than t liars among 2t - 1 or more shards, at least
            # one failed shard is honest.
            if sum(isinstance(each, PartDoesNotOpen) for each in failures.values()) > len(job.epoch.shards) - job.epoch.threshold:
                raise EnvelopeDoesNotOpen(job.ticket.receipt_id.hex())
            if not any(_may_ask(shard, answers, failures) for shard in job.epoch.shards):
                break
        reasons = ", ".join(f"shard {index} {type(error).__name__}" for index, error in sorted(failures.items()))
        raise NoKey(len(answers), job.epoch.threshold, reasons)

    def _round(self, query: "ReleaseQuery", answers: dict[int, ShardAnswer], failures: dict[int, BytewiseError]) -> None:
        """Asks at once as many shards as answers are missing, and one more shard for each failure. So no more shards than needed
        release."""
        epoch = query.job.epoch
        waiting = iter([each for each in epoch.shards if _may_ask(each, answers, failures)])
        missing = epoch.threshold - len(answers)
        with ThreadPoolExecutor(missing, "shard") as threads:
            running = {threads.submit(self._release, query, shard): shard for shard in islice(waiting, missing)}
            while running:
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    shard = running.pop(done)
                    try:
                        answers[shard.index] = done.result()
                    except BytewiseError as error:
                        failures[shard.index] = error
                        self._on_failure(shard.index, error)
                        running |= {threads.submit(self._release, query, spare): spare for spare in islice(waiting, 1)}

    def _release(self, query: "ReleaseQuery", shard: ShardRecord) -> ShardAnswer:
        job, end = query.job, ChannelEndpoint(query.terms(shard), self._quoter, None, self._clock, os.urandom)
        with open_channel(shard, end, query.to.public, self._timeout_s, self._dial) as channel:
            answer, evidence = request_release(channel, shard, query.request, self._timeout_s), channel.shown
        record, digest = _verify_record(job, shard, answer, query.ticket_hash, evidence)
        domain = key_domain(job.contracts)
        self._continuity.keep(shard.index, RecordedRelease(domain.chain_id, domain.contract, record, answer.signature), digest)
        telemetry.log("release.verified", shard=shard.address, epoch=record.key_epoch, index=record.index, record=digest)
        return open_answer(job, query.ticket_hash, query.envelope, shard, answer.sealed_partial, query.to)


class ReleaseQuery:
    """The data of a release request that are the same for all shards of one job. They are secret and never printed."""

    def __init__(self, job: RunJob, envelope: Envelope, transport_secret: bytes) -> None:
        """Prepares the request. Raises a `Fault` if the job's appraisal policy is invalid."""
        self.job = job
        self.envelope = envelope
        self.to = TransportKey(transport_secret, encode_point(GENERATOR * decode_scalar(transport_secret)))
        self.ticket_hash = typed_digest(key_domain(job.contracts), job.ticket)
        self.request = ReleaseRequest(
            ticket=job.ticket, ticket_signature=job.ticket_signature, receipt=job.receipt,
            receipt_signature=job.receipt_signature, batch_id=job.batch_id, proof=job.proof, envelope=job.envelope,
        )  # fmt: skip
        self._standing = first_policy_state(decode(AppraisalPolicy, job.policy))

    def terms(self, shard: ShardRecord) -> PeerRequirements:
        """Returns the requirements that a shard must meet on its channel. The shard must run a program that the appraisal policy
        accepts, and must sign with its account for this network and epoch.

        The policy comes from the duty process, which may be dishonest. A dishonest policy gains nothing. An honest shard refuses
        a channel under another policy, and the enclave sends only public data to a shard.
        """
        job = self.job
        return PeerRequirements(
            MeasurementRole.VERIFIER_ENCLAVE,
            MeasurementRole.KEY_SHARD,
            job.contracts,
            job.ticket.key_epoch,
            self._standing,
            shard.address,
        )


def _may_ask(shard: ShardRecord, answers: Mapping[int, ShardAnswer], failures: Mapping[int, BytewiseError]) -> bool:
    failed = failures.get(shard.index)
    return shard.index not in answers and (failed is None or isinstance(failed, Unavailable))


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
    # Shards release by the ticket's epoch, so this enclave must use no other.
    for what, named in (("ticket", job.ticket.key_epoch), ("epoch record", job.epoch.epoch)):
        if named != job.receipt.key_epoch:
            raise TicketRefused(f"job names another key epoch in its {what} than in its receipt", TicketFlaw.OTHER_EPOCH)


def _verify_epoch_keys(job: RunJob, answers: Mapping[int, ShardAnswer]) -> EccPoint:
    # Answers are verified against verification keys from the duty process. These keys must belong to the epoch's public key.
    # Otherwise an honest operator's envelope would seem not to open.
    keys = {each.index: decode_point(each.verification_key) for each in job.epoch.shards if each.index in answers}
    if encode_point(combine(keys)) != job.epoch.public_key:
        raise ConfigurationError(f"key epoch {job.epoch.epoch}", "verification keys are not of its public key")
    return combine(keys)
