"""The duty process's client of the bridge to a cluster. Implements `bytewise.ports.EnclaveJobs`.

The bridge, the agents and the machines of the cluster are untrusted. The client sends them the ticket and the sealed envelope,
and gets a result. It accepts a result only if the quote shows that an approved enclave judged exactly this job. So a cluster can
waste time, but cannot change a vote.
"""

import contextlib
import math
import socket
from pathlib import Path

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy
from bytewise.protocol.evidence.claims import ResultStatement, host_claims_of
from bytewise.protocol.jobs import JobFailed, JobResult, Prepared, RunJob
from bytewise.protocol.units import Digest
from bytewise.service import connections, telemetry
from bytewise.service.clock import monotonic_s
from bytewise.service.connections import seconds_left
from bytewise.service.readiness import Check
from bytewise.tee.appraisal import verify_result_quote
from verifier.jobs.cluster_messages import AskCluster, ClaimAgent, ClaimRefused, ClusterState, ResultTaken
from verifier.jobs.enclave_client import ENDING_S, verify_result
from verifier.jobs.job import EnclaveAway, EnclaveUnsuited

STATE_TIMEOUT_S = 5.0
"""Seconds to wait for the state of the cluster."""
MAX_LIMIT_S = 3600
"""Longest time that an agent may claim for a job, in seconds."""


class ClusterClient:
    """A client that has one conversation at a time: `prepare` begins it, and `run` ends it with the result of one job."""

    def __init__(self, path: Path, prepare_timeout_s: float) -> None:
        self._path = path
        self._prepare_timeout_s = prepare_timeout_s
        self._limit_s = 0
        self._until = math.inf
        self._peer: socket.socket | None = None

    def end_within(self, seconds: float) -> None:
        """Limits the next conversation to `seconds`, even if its agent asks for more time. A job that is not done by then fails
        with `EnclaveAway`."""
        self._until = monotonic_s() + seconds

    def prepare(self, receipt_id: Digest, model_id: Digest) -> Prepared:
        """Returns a fresh transport key of an enclave of the cluster. Raises `EnclaveAway` if the bridge or the cluster is
        away. Raises `EnclaveUnsuited` if the cluster works, but the bridge does not know this model, or all agents of the model
        are busy or missing."""
        until = self._end(4 * self._prepare_timeout_s)
        peer = self._connected(until)
        try:
            connections.send(peer, ClaimAgent(receipt_id, model_id))
            answer = connections.receive(peer, Prepared, ClaimRefused, JobFailed, until=until)
        except (Fault, TryAgain) as error:
            self.close()
            raise EnclaveAway("cluster", str(error)) from None
        if isinstance(answer, Prepared) and 0 < answer.limit_s <= MAX_LIMIT_S:
            self._limit_s = answer.limit_s
            return answer
        self.close()
        if isinstance(answer, ClaimRefused):
            telemetry.log("cluster.claim_refused", model=model_id, do=answer.problem[:500])
            raise (EnclaveUnsuited if answer.unsuited else EnclaveAway)("cluster", answer.problem[:500])
        raise EnclaveAway("cluster", answer.error[:500] if isinstance(answer, JobFailed) else "asks for too much time")

    def run(self, job: RunJob) -> JobResult:
        """Returns the result of an approved enclave. Raises `TryAgain` if the agent or its machine died. Raises `EnclaveAway` if
        the answer is no valid result of this job or came too late (`end_within`), so that another enclave must judge."""
        peer = self._peer
        if peer is None:
            raise TryAgain("cluster", "no prepared job")
        until = self._end(self._limit_s + 3 * ENDING_S)
        try:
            peer.settimeout(_left_s(until))
            connections.send(peer, job)
            answer = connections.receive(peer, JobResult, JobFailed, until=until)
            if isinstance(answer, JobResult):
                result = verify_quoted_result(job, verify_result(job, answer))
                with contextlib.suppress(TryAgain):
                    connections.send(peer, ResultTaken(job.ticket.receipt_id))
                return result
        except TryAgain:
            if monotonic_s() < self._until:
                raise
            raise EnclaveAway("cluster", "gave no result in its share of the time that the job has") from None
        except Fault as error:
            do = "Find out who else uses this Ray cluster; drop the machine."
            telemetry.log_error("cluster.answer_refused", error, receipt=job.ticket.receipt_id, do=do)
            raise EnclaveAway("cluster", f"gave a result that was refused: {error}") from None
        finally:
            self.close()
        raise TryAgain("cluster", answer.error[:500])

    def state(self) -> ClusterState:
        """Asks the bridge for the state of the cluster. Raises `TryAgain` if the bridge is away."""
        until = monotonic_s() + STATE_TIMEOUT_S
        peer = self._connected(until)
        try:
            connections.send(peer, AskCluster(True))
            found: ClusterState = connections.receive(peer, ClusterState, until=until)
            return found
        except Fault as error:
            raise TryAgain("cluster", str(error)) from None
        finally:
            self.close()

    def close(self) -> None:
        """Ends the conversation, which frees the agent."""
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    def _end(self, limit_s: float) -> float:
        return min(self._until, monotonic_s() + limit_s)

    def _connected(self, until: float) -> socket.socket:
        self.close()
        left_s = _left_s(until)
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.settimeout(left_s)
        try:
            peer.connect(str(self._path))
        except OSError as error:
            peer.close()
            raise EnclaveAway("bridge", f"{self._path.name}: {error.strerror or type(error).__name__}") from None
        self._peer = peer
        return peer


def _left_s(until: float) -> float:
    try:
        return seconds_left(until)
    except TimeoutError:
        raise EnclaveAway("cluster", "has no time left for the job") from None


def verify_quoted_result(job: RunJob, result: JobResult) -> JobResult:
    """Returns the result if its quote shows that an enclave judged exactly this job, and that the job's policy approves that
    enclave. Raises a `Fault` otherwise."""
    policy = decode(AppraisalPolicy, job.policy)
    quoted = verify_result_quote(policy, result.quote, int(job.contracts.chain_id)).statement
    expected = ResultStatement(
        chain_id=job.contracts.chain_id, contract=job.contracts.disputes, subject=result.subject, round=result.round,
        receipt_id=result.receipt_id, voter=result.voter, outcome=result.outcome, code=result.code,
        tokens_hash=result.tokens_hash, trace_root=result.trace_root, round_digest=result.round_digest,
        verify_passes=quoted.verify_passes, premises=host_claims_of(job),
    )  # fmt: skip
    if quoted != expected:
        raise MalformedValue("job result", "its quote is about another job")
    return result


def cluster_check(path: Path) -> Check:
    """Returns a check that passes if every agent of the cluster has an enclave that answers."""
    advice = (
        "Start the bridge (`python -m verifier.cluster --config FILE`) and the Ray nodes; read docs/guide/run-many-enclaves.md."
    )
    try:
        found = ClusterClient(path, STATE_TIMEOUT_S).state()
    except TryAgain as error:
        return Check("cluster", False, str(error), "every agent ready", advice)
    value = f"{found.ready} of {found.wanted} agents are ready, {found.free} are free"
    return Check("cluster", found.ready >= found.wanted, value, "every agent ready", "; ".join(found.problems)[:500] or advice)
