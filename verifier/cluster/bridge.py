"""The bridge's socket. Each connection is one conversation between the duty process and one agent.

The bridge reads `ClaimAgent` and `AskCluster`. It passes job and result on as bytes. If the duty process closes its connection,
its lease of the agent ends.
"""

import contextlib
import select
import socket
import threading

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.jobs import JobFailed, Prepared
from bytewise.service import connections, telemetry
from verifier.cluster.ray_agents import AgentRefused, RayAgents
from verifier.cluster.settings import BridgeSettings
from verifier.jobs.cluster_messages import AskCluster, ClaimAgent, ResultTaken
from verifier.jobs.enclave_client import ENDING_S

MESSAGE_TIMEOUT_S = 30.0
"""Seconds after which a duty process that stalls within a conversation counts as gone."""


def serve(settings: BridgeSettings, agents: RayAgents, stop: threading.Event) -> None:
    """Serves conversations until `stop`, each in a thread. Raises `TryAgain` if the cluster is lost."""
    with connections.listen(settings.socket, 64, settings.client_uid) as listening:
        telemetry.log("bridge.started", models=len(settings.models), agents=settings.agents)
        while not stop.is_set():
            agents.check_head()
            with contextlib.suppress(TimeoutError):
                peer, _ = listening.accept()
                peer.settimeout(MESSAGE_TIMEOUT_S)
                threading.Thread(target=_converse, args=(peer, settings, agents), daemon=True).start()


def _converse(peer: socket.socket, settings: BridgeSettings, agents: RayAgents) -> None:
    with peer:
        try:
            if not connections.is_admitted(peer, settings.client_uid):
                return
            asked = connections.receive(peer, ClaimAgent, AskCluster)
            if isinstance(asked, AskCluster):
                connections.send(peer, agents.state(asked.models))
                return
            _run_job(peer, asked, settings, agents)
        except AgentRefused as refused:
            _send(peer, refused.message)
        except BytewiseError as error:
            telemetry.log_error("bridge.job_failed", error)
            _send(peer, JobFailed(str(error)[:500], isinstance(error, Unavailable)))


def _run_job(peer: socket.socket, claim: ClaimAgent, settings: BridgeSettings, agents: RayAgents) -> None:
    def is_wanted() -> bool:
        return not _is_closed(peer)

    for last in (False, True):
        with agents.lease(claim.model_id, claim.receipt_id) as lease:
            try:
                raw = lease.call("claim", bytes(claim.receipt_id), settings.prepare_timeout_s + ENDING_S, is_wanted)
                prepared = connections.parse_message(raw, Prepared, JobFailed)
            except TryAgain as error:
                prepared = JobFailed(str(error)[:500], True)
            if isinstance(prepared, JobFailed) and not last and is_wanted():
                continue  # there is no ticket yet, so another agent may get the job
            connections.send_raw(peer, encode(prepared))
            if isinstance(prepared, Prepared):
                job = connections.receive_raw(peer)
                connections.send_raw(peer, lease.call("run", job, prepared.limit_s + 2 * ENDING_S, is_wanted))
                if _is_taken(peer):
                    lease.note_result(claim.receipt_id)
            return


def _is_taken(peer: socket.socket) -> bool:
    """Returns whether the duty process accepted the result. Only the duty process can check the quote of the result."""
    try:
        connections.receive(peer, ResultTaken)
    except BytewiseError:
        return False
    return True


def _send(peer: socket.socket, message: object) -> None:
    with contextlib.suppress(Unavailable):
        connections.send(peer, message)


def _is_closed(peer: socket.socket) -> bool:
    waiting = select.poll()
    waiting.register(peer, select.POLLIN)
    try:
        # A socket with a timeout would wait here, even with MSG_DONTWAIT.
        return bool(waiting.poll(0)) and peer.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True
