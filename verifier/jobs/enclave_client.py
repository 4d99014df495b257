"""The duty process's client of one enclave's job socket. Implements `bytewise.ports.EnclaveJobs`.

While a job runs, this client also opens the enclave's connections to shards. The enclave names a shard by its index in the epoch
record of the job, so it cannot make this process connect to any other address.
"""

import socket
from pathlib import Path
from typing import Any

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.jobs import (
    AskStatus,
    Dial,
    Dialled,
    EnclaveStatus,
    JobFailed,
    JobResult,
    Prepare,
    Prepared,
    RunJob,
)
from bytewise.protocol.units import ZERO_DIGEST, Digest
from bytewise.service import connections, metrics, telemetry
from bytewise.service.clock import monotonic_s
from bytewise.service.connections import seconds_left

DIAL_TIMEOUT_S = 5.0
"""Seconds to wait for a connection to one shard."""

ENDING_S = 5.0
"""Seconds that this client waits beyond the enclave's own time limit. If a job takes too long, the enclave itself normally ends
the job and closes the connection."""


class EnclaveClient:
    """A client that has one conversation at a time: `prepare` begins it, and `run` ends it with the result of one job."""

    def __init__(self, path: Path, prepare_timeout_s: float) -> None:
        self._path = path
        self._prepare_timeout_s = prepare_timeout_s
        self._until = 0.0
        self._peer: socket.socket | None = None

    def prepare(self, receipt_id: Digest, model_id: Digest = ZERO_DIGEST) -> Prepared:
        """Gets a fresh transport key for one job. Raises `TryAgain` if the enclave is not there or stays busy. Raises
        `MalformedValue` if the enclave refuses.

        This client ignores `model_id`, because its enclave has one model. `EnclaveChoice` uses it to choose between enclaves.
        """
        peer = self._connected()
        connections.send(peer, Prepare(receipt_id))
        prepared: Prepared = self._receive(peer, Prepared)
        self._until = monotonic_s() + prepared.limit_s + ENDING_S
        if prepared.unfenced:
            telemetry.log("enclave.unfenced", missing=prepared.unfenced)
            metrics.UNFENCED_JOBS.inc()
        return prepared

    def status(self, nonce: Digest) -> EnclaveStatus:
        """Gets the state of the enclave, with evidence that binds the nonce. Raises `TryAgain` if the enclave is not there or
        stays busy."""
        try:
            peer = self._connected()
            connections.send(peer, AskStatus(nonce))
            status: EnclaveStatus = self._receive(peer, EnclaveStatus)
            return status
        finally:
            self.close()

    def run(self, job: RunJob) -> JobResult:
        """Runs the job and returns its result. Raises `TryAgain` if the enclave died, took too long, or said that a retry may
        help. Raises `MalformedValue` if the enclave refused the job, or if the result belongs to another job."""
        peer = self._peer
        if peer is None:
            raise TryAgain("enclave", "no prepared job")
        try:
            result = self._served(peer, job, self._until)
        finally:
            self.close()
        return verify_result(job, result)

    def close(self) -> None:
        """Ends the conversation. The enclave then forgets the prepared key."""
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    def _connected(self) -> socket.socket:
        self.close()
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.settimeout(self._prepare_timeout_s)
        try:
            peer.connect(str(self._path))
        except OSError as error:
            peer.close()
            raise TryAgain("enclave", type(error).__name__) from None
        self._peer = peer
        return peer

    def _served(self, peer: socket.socket, job: RunJob, until: float) -> JobResult:
        connections.send(peer, job)
        while True:
            try:
                peer.settimeout(seconds_left(until))
            except TimeoutError:
                raise TryAgain("enclave", "out of time") from None
            answer = self._receive(peer, JobResult, Dial)
            if isinstance(answer, JobResult):
                return answer
            _dial(peer, job, answer)

    def _receive(self, peer: socket.socket, *expected: type) -> Any:
        answer = connections.receive(peer, *expected, JobFailed)
        if isinstance(answer, JobFailed):
            self.close()
            if answer.retryable:
                raise TryAgain("enclave", answer.error)
            raise MalformedValue("job", f"the enclave refused it: {answer.error}")
        return answer


def _dial(peer: socket.socket, job: RunJob, asked: Dial) -> None:
    shard = next((each for each in job.epoch.shards if each.index == asked.index), None)
    if shard is None:
        raise MalformedValue("job", f"the enclave asked for shard {asked.index}, which is not of its epoch")
    try:
        stream = connections.dial(shard, DIAL_TIMEOUT_S)
    except (OSError, ConfigurationError) as error:
        connections.send(peer, Dialled(type(error).__name__))
        return
    with stream:
        connections.send(peer, Dialled(""))
        connections.send_stream(peer, stream)


def verify_result(job: RunJob, result: JobResult) -> JobResult:
    """Returns the result if it belongs to this job. Raises `MalformedValue` otherwise."""
    for what, have, want in (
        ("subject", result.subject, job.ticket.subject),
        ("round", result.round, job.ticket.round),
        ("receipt", result.receipt_id, job.ticket.receipt_id),
        ("voter", result.voter, job.ticket.voter),
    ):
        if have != want:
            raise MalformedValue("job result", f"names another {what}")
    return result
