"""The job socket: a UNIX socket that only the enclave and the duty process may use, with one connection and one job at a time.

For one job, the enclave makes a transport key, verifies that the parts of the job belong together, judges the receipt, and quotes
the result (design section 7). No data of a job outlive its session. Log lines contain events, ids and outcomes, never the content
of an envelope.

The enclave needs no network. The duty process at the other end of the job socket connects to shards, and passes each stream to
the enclave. Only the enclave and the shard can read the content of the stream (`enclave.release_client`).
"""

import gc
import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bytewise.crypto.hpke import transport_keypair
from bytewise.ports import KeySource, Quoter
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import TicketRefused, TryAgain
from bytewise.protocol.errors.branches import Fault, TicketFlaw, Unavailable
from bytewise.protocol.evidence.claims import Evidence, ResultQuote, ResultStatement, host_claims_of, result_report_data
from bytewise.protocol.jobs import (
    JOB_LIMIT_S,
    AskStatus,
    Dial,
    Dialled,
    EnclaveStatus,
    JobFailed,
    JobResult,
    Prepare,
    Prepared,
    RunJob,
    ShardRecord,
    status_report_data,
)
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.protocol.records.statements import transport_key_hash
from bytewise.protocol.units import U8, Blob, Digest
from bytewise.service import connections, telemetry
from enclave.judge import JobOutcome, JudgingEngine, judge_job, verify_job

MESSAGE_TIMEOUT_S = 30.0
"""Seconds after which a local client that stalls within a conversation counts as gone."""


class ShardDialer:
    """Opens streams to shards for the job that the enclave is working on. Several threads may call `dial`, which serves one
    thread after the other."""

    def __init__(self) -> None:
        self.peer: socket.socket | None = None
        """Connection of the job socket. The code that serves the connection sets it."""
        self._turn = threading.Lock()

    def dial(self, shard: ShardRecord, timeout_s: float) -> socket.socket:
        """Returns a stream to a shard of the job's epoch. Raises `TryAgain` if there is no job, or if the duty process could not
        connect. Ignores `timeout_s`, because the duty process has a time limit of its own for a connection."""
        if self.peer is None:
            raise TryAgain(shard.channel, "no job is being served")
        with self._turn:
            connections.send(self.peer, Dial(shard.index))
            answer = connections.receive(self.peer, Dialled)
            if answer.error:
                raise TryAgain(shard.channel, str(answer.error)[:40])
            return connections.receive_stream(self.peer)


class JobContext:
    """The engine, keys and limits that all jobs of one enclave process share."""

    def __init__(
        self, engine: JudgingEngine, model_id: Digest, keys: KeySource, quoter: Quoter, chain_id: int,
        rng: Callable[[int], bytes], profile: str = PROFILE_EXACT_1, shard_dialer: ShardDialer | None = None,
        unfenced: tuple[str, ...] = (), instance: Digest | None = None, limit_s: int = JOB_LIMIT_S,
        transport: Callable[[], tuple[bytes, Blob]] | None = None, client_uid: int = -1,
    ) -> None:  # fmt: skip
        """`shard_dialer` opens streams to shards for `keys`, over the connection of each conversation; if it is None, a new one
        is made. `unfenced` names the fences that are missing around this process. `instance` is the name of the enclave, which
        all its processes share; if it is None, a name is drawn. `limit_s` is the most seconds of one conversation.

        `transport` returns the secret half and the public half of a job's transport key. The secret half is empty if only `keys`
        has it. If `transport` is None, this process draws both halves. `client_uid` is the user id of the duty process, if that
        is another user than the user of this process.
        """
        self.engine = engine
        self.model_id = model_id
        self.keys = keys
        self.quoter = quoter
        self.chain_id = chain_id
        self.rng = rng
        self.profile = profile
        self.shard_dialer = shard_dialer or ShardDialer()
        self.unfenced = unfenced
        self.instance = Digest(rng(32)) if instance is None else instance
        self.limit_s = limit_s
        self.transport = transport or partial(transport_keypair, rng)
        self.client_uid = client_uid

    def status(self, nonce: Digest) -> EnclaveStatus:
        """Returns the status of this enclave, with evidence that binds the nonce. The evidence shows a duty process at once
        whether the measurement is approved."""
        return EnclaveStatus(self.model_id, self.limit_s, self.unfenced, self.quoter.quote(status_report_data(nonce)))


class Session:
    """One job of the enclave. Its user calls `prepare`, then `run`."""

    def __init__(self, context: JobContext, receipt_id: Digest) -> None:
        self._context = context
        self._receipt_id = receipt_id
        self._secret, self._public = context.transport()

    def prepare(self) -> Prepared:
        """Returns the fresh transport key of this job, with the enclave's instance, time limit and missing fences."""
        return Prepared(self._context.instance, self._public, self._context.limit_s, self._context.unfenced)

    def run(self, job: RunJob) -> JobResult:
        """Judges the job, and returns the result with its quote. Raises a `Fault` if the job is inconsistent or not for the
        receipt of this session, or if its ticket names another transport key or instance than `prepare` returned."""
        identifier = verify_job(job, self._context.chain_id)
        for what, have, want in (
            ("receipt", identifier, self._receipt_id),
            ("transport key", job.ticket.transport_key_hash, transport_key_hash(self._public)),
            ("instance", job.ticket.instance, self._context.instance),
        ):
            if have != want:
                raise TicketRefused(f"ticket is for another {what}", TicketFlaw.OTHER_JOB)
        telemetry.log("enclave_job.started", receipt=identifier, subject=job.ticket.subject, round=job.ticket.round)
        context = self._context
        judgement = judge_job(job, identifier, context.keys, self._secret, context.engine, context.model_id, context.profile)
        gc.collect()  # frees the payload's reference cycles now instead of at the next job
        telemetry.log(
            "enclave_job.judged", receipt=identifier, outcome=judgement.outcome.name, code=judgement.code,
            verify_passes=judgement.verify_passes,
        )  # fmt: skip
        return self._quoted(job, identifier, judgement)

    def _quoted(self, job: RunJob, identifier: Digest, found: JobOutcome) -> JobResult:
        ticket = job.ticket
        statement = ResultStatement(
            chain_id=job.contracts.chain_id, contract=job.contracts.disputes, subject=ticket.subject, round=ticket.round,
            receipt_id=identifier, voter=ticket.voter, outcome=U8(found.outcome), code=U8(found.code),
            tokens_hash=found.tokens_hash, trace_root=found.trace_root, round_digest=found.round_digest,
            verify_passes=found.verify_passes, premises=host_claims_of(job),
        )  # fmt: skip
        evidence = decode(Evidence, self._context.quoter.quote(result_report_data(statement)))
        return JobResult(
            subject=ticket.subject, round=ticket.round, receipt_id=identifier, voter=ticket.voter,
            outcome=statement.outcome, code=statement.code, tokens_hash=found.tokens_hash, trace_root=found.trace_root,
            round_digest=found.round_digest, quote=Blob(encode(ResultQuote(statement, evidence))),
        )  # fmt: skip


def listen(path: Path, client_uid: int = -1) -> socket.socket:
    """Returns a listening job socket at `path`. Without `client_uid` its mode is 0600, so only this user may connect."""
    return connections.listen(path, backlog=4, client_uid=client_uid)


def serve_one(server: socket.socket, context: JobContext, taken: Callable[[], None] = lambda: None) -> bool:
    """Waits a short time for a client and serves its one conversation, which asks for the enclave's status or brings a job. Calls
    `taken` when the conversation begins. Returns False if no client connected, or if the client is a user who is not admitted."""
    try:
        peer, _ = server.accept()
    except TimeoutError:
        return False
    with peer:
        peer.settimeout(MESSAGE_TIMEOUT_S)
        if not connections.is_admitted(peer, context.client_uid):
            return False
        taken()
        _converse(peer, context)
    return True


def _converse(peer: socket.socket, context: JobContext) -> None:
    try:
        prepare = connections.receive(peer, Prepare, AskStatus)
        if isinstance(prepare, AskStatus):
            connections.send(peer, context.status(prepare.nonce))
            return
        session = Session(context, prepare.receipt_id)
        context.shard_dialer.peer = peer
        connections.send(peer, session.prepare())
        job = connections.receive(peer, RunJob)
        connections.send(peer, session.run(job))
    except (Fault, Unavailable) as error:
        telemetry.log_error("enclave_job.failed", error)
        _send_failure(peer, JobFailed(type(error).__name__, isinstance(error, Unavailable)))


def _send_failure(peer: socket.socket, failure: JobFailed) -> None:
    try:
        connections.send(peer, failure)
    except Unavailable as gone:
        telemetry.log_error("enclave_job.peer_lost", gone)
