"""A child process in which an enclave rebuilds an epoch's private key (ADR-040). A job's process forks this child before the job
arrives. The child ends after one envelope.

The child has its own transport key and asks the shards itself. It returns only the public half of the transport key, and the
padded plaintext or an error. The job's process reads the plaintext. It never has the shares of the key. It also never has the
secret that opens the sealed answers of the shards. Once the child has ended, nobody can open these answers.

In an epoch whose key is not rebuilt, the child gives the transport secret to the job's process. That process then asks the shards
for partials.
"""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from bytewise.crypto.hpke import transport_keypair
from bytewise.ports import KeySource
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import BytewiseError, Fault, Unavailable
from bytewise.protocol.errors.catalogue import CLASSES
from bytewise.protocol.jobs import RunJob
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import Blob
from bytewise.service import connections, telemetry
from enclave.forked_process import ForkedProcess, ProcessReady
from enclave.job_socket import MESSAGE_TIMEOUT_S, ShardDialer


@dataclass(frozen=True, slots=True)
class RebuilderReady:
    """Message of the child process that it accepts a request."""

    unfenced: tuple[str, ...]
    """Names of the fences, the limits of `bytewise.tee.confinement`, that are missing around the child."""
    transport_key: Blob
    """Public half of the job's transport key."""


@dataclass(frozen=True, slots=True)
class RebuildRequest:
    """Request to open one envelope. The job's process sends this message to the child. It then sends the connection of the job
    socket, over which the child gets its streams to the shards."""

    job: RunJob
    """The job that contains the envelope."""


@dataclass(frozen=True, slots=True)
class TransportSecret:
    """Answer of the child in an epoch whose key is not rebuilt: the secret half of the transport key."""

    transport_secret: Blob = field(repr=False)
    """Secret half of the transport key, for the process that asks the epoch's shards for partials."""


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """Answer of the child process in an epoch whose key is rebuilt: the plaintext, or the error that stopped it."""

    plaintext: Blob | None = field(repr=False)
    """Padded plaintext, or None after an error."""
    error: str
    """Class of the error, or an empty text if there was none."""
    values: tuple[str, ...]
    """Values of the error."""


class KeyRebuilder:
    """The key source of a job's process. It implements `bytewise.ports.KeySource` and opens the envelope of that job.

    A child process owns the transport key. If the epoch's key has to be rebuilt, the child rebuilds it and opens the envelope.
    """

    def __init__(
        self, otherwise: KeySource, shard_dialer: ShardDialer, open_source: Callable[[ShardDialer], KeySource],
        fence: Callable[[], tuple[str, ...]],
    ) -> None:  # fmt: skip
        """`otherwise` opens envelopes whose key is not rebuilt. In the child, `fence` runs first and returns the names of the
        fences that it could not set up. Then `open_source` makes the key source that rebuilds keys."""
        self._otherwise, self._switchboard = otherwise, shard_dialer
        self._line, theirs = socket.socketpair()
        self._public = Blob(b"")
        with theirs:
            self._process = ForkedProcess(lambda: self._serve(theirs, open_source, fence))

    def ready(self) -> ProcessReady:
        """Waits until the child accepts requests. Call it only once. Raises `TryAgain` if the child ended instead."""
        born: RebuilderReady = connections.receive(self._line, RebuilderReady)
        self._public = born.transport_key
        return ProcessReady(born.unfenced)

    @property
    def pid(self) -> int:
        """Process id of the child. The fences of the job's process allow that process to kill the child."""
        return self._process.pid

    def transport(self) -> tuple[bytes, Blob]:
        """Returns the two halves of the job's transport key. The secret half is empty, because only the child has it. The child
        must be ready."""
        return b"", self._public

    def open(self, job: RunJob, transport_secret: bytes) -> bytes:
        """Returns the plaintext of the job's envelope. Ignores `transport_secret`, because the child has the real secret.

        Ends the child in every case. If the epoch's key is not rebuilt, the child ends first, and then the other key source opens
        the envelope with partials. Raises `TryAgain` if the child gives no answer, and otherwise the error that the child
        reports.
        """
        try:
            answer = self._answer(job)
        finally:
            self.close()
        if isinstance(answer, TransportSecret):
            return self._otherwise.open(job, answer.transport_secret)
        if answer.plaintext is None:
            raise _error(answer)
        return answer.plaintext

    def close(self) -> None:
        """Kills the child, which may still be working, and waits for its end."""
        self._process.kill()
        self._process.reap()
        self._line.close()

    def _answer(self, job: RunJob) -> RebuildResult | TransportSecret:
        if self._switchboard.peer is None:
            raise TryAgain("rebuilder", "no job is being served")
        connections.send(self._line, RebuildRequest(job))
        connections.send_stream(self._line, self._switchboard.peer)
        # The child must not choose which of the two answers it gives.
        answer: RebuildResult | TransportSecret = connections.receive(
            self._line, RebuildResult if is_rebuilt(job.ticket.key_epoch) else TransportSecret
        )
        return answer

    def _serve(
        self, line: socket.socket, open_source: Callable[[ShardDialer], KeySource], fence: Callable[[], tuple[str, ...]]
    ) -> None:
        self._line.close()
        unfenced = fence()
        secret, public = transport_keypair(os.urandom)
        connections.send(line, RebuilderReady(unfenced, public))
        shard_dialer = ShardDialer()
        source = open_source(shard_dialer)
        try:
            wanted: RebuildRequest = connections.receive(line, RebuildRequest)
        except TryAgain:
            return  # the job's process is gone
        with connections.receive_stream(line) as peer:
            # A descriptor shares its non-blocking mode between processes, but not Python's timeout.
            peer.settimeout(MESSAGE_TIMEOUT_S)
            shard_dialer.peer = peer
            connections.send(line, _answer(source, wanted, secret))


def _answer(source: KeySource, wanted: RebuildRequest, secret: bytes) -> RebuildResult | TransportSecret:
    # Shards release by the ticket's epoch. A ticket for a rebuilt key must therefore never be used with a secret that was given
    # to the job's process.
    if not is_rebuilt(wanted.job.ticket.key_epoch):
        return TransportSecret(Blob(secret))
    try:
        return RebuildResult(Blob(source.open(wanted.job, secret)), "", ())
    except (Fault, Unavailable) as error:
        telemetry.log_error("key_rebuild.failed", error)
        return RebuildResult(None, type(error).__name__, tuple(str(each)[:200] for each in error.values))


def _error(opened: RebuildResult) -> BytewiseError:
    # The errors that decide the vote, a defect or no key, keep their class across the processes.
    kind = CLASSES.get(opened.error)
    if kind is not None and issubclass(kind, Fault | Unavailable):
        return kind(*opened.values)
    return TryAgain("rebuilder", opened.error[:40])
