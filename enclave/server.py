"""The job socket: a UNIX socket that only its owner may use, with one connection and one job at a time."""

import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.jobs import AskStatus, JobFailed, Prepare, RunJob
from bytewise.service import frames, telemetry
from enclave.session import JobContext, Session

MESSAGE_TIMEOUT_S = 30.0
"""Seconds after which a local client that stalls within a conversation counts as gone."""

_POLL_S = 0.5
_PATH_LIMIT = 107
"""Most bytes of a socket path (unix(7): `sun_path` has 108 bytes with its final zero)."""
_CREDENTIALS = struct.Struct("3i")


def listen(path: Path) -> socket.socket:
    """Returns a listening socket at `path` with mode 0600. Replaces a socket file that an ended process left."""
    if len(os.fsencode(path)) > _PATH_LIMIT:
        raise ConfigurationError("socket", f"path is longer than {_PATH_LIMIT} bytes")
    if path.is_socket():
        path.unlink()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        server.bind(str(path))
    except OSError as error:
        raise ConfigurationError("socket", error.strerror) from None
    finally:
        os.umask(before)
    server.listen(4)
    server.settimeout(_POLL_S)
    return server


def serve_one(server: socket.socket, context: JobContext, taken: Callable[[], None] = lambda: None) -> bool:
    """Waits a short time for a client and serves its one conversation, which asks for the enclave's status or brings a job. Calls
    `taken` when the conversation begins. Returns False if no client connected, or if the client is another user."""
    try:
        peer, _ = server.accept()
    except TimeoutError:
        return False
    with peer:
        peer.settimeout(MESSAGE_TIMEOUT_S)
        if _owner(peer) != os.getuid():
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


def _owner(peer: socket.socket) -> int:
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[1])
