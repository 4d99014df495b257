"""The job socket: a UNIX socket that only enclave and duty process may use, with one connection and one job at a time."""

import socket
from collections.abc import Callable
from pathlib import Path

from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.jobs import AskStatus, JobFailed, Prepare, RunJob
from bytewise.service import frames, local_socket, telemetry
from enclave.session import JobContext, Session

MESSAGE_TIMEOUT_S = 30.0
"""Seconds after which a local client that stalls within a conversation counts as gone."""


def listen(path: Path, client_uid: int = -1) -> socket.socket:
    """Returns a listening job socket at `path`. Without `client_uid` its mode is 0600, so only this user may connect."""
    return local_socket.listen(path, backlog=4, client_uid=client_uid)


def serve_one(server: socket.socket, context: JobContext, taken: Callable[[], None] = lambda: None) -> bool:
    """Waits a short time for a client and serves its one conversation, which asks for the enclave's status or brings a job. Calls
    `taken` when the conversation begins. Returns False if no client connected, or if the client is a user who is not admitted."""
    try:
        peer, _ = server.accept()
    except TimeoutError:
        return False
    with peer:
        peer.settimeout(MESSAGE_TIMEOUT_S)
        if not local_socket.is_admitted(peer, context.client_uid):
            return False
        taken()
        _converse(peer, context)
    return True


def _converse(peer: socket.socket, context: JobContext) -> None:
    try:
        prepare = frames.receive(peer, Prepare, AskStatus)
        if isinstance(prepare, AskStatus):
            frames.send(peer, context.status(prepare.nonce))
            return
        session = Session(context, prepare.receipt_id)
        context.shard_dialer.peer = peer
        frames.send(peer, session.prepare())
        job = frames.receive(peer, RunJob)
        frames.send(peer, session.run(job))
    except (Fault, Unavailable) as error:
        telemetry.log_error("enclave_job.failed", error)
        _send_failure(peer, JobFailed(type(error).__name__, isinstance(error, Unavailable)))


def _send_failure(peer: socket.socket, failure: JobFailed) -> None:
    try:
        frames.send(peer, failure)
    except Unavailable as gone:
        telemetry.log_error("enclave_job.peer_lost", gone)
