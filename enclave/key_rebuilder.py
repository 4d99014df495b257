"""The process that rebuilds a key (ADR-038). It is forked from a job's process before the job arrives, and ends after one
envelope.

It asks the shards itself, with its own transport key. The job's process, which reads the plaintext, therefore never has the
shares, nor the secret that opens sealed answers of shards. It knows only the public half of the key and the padded plaintext.
After this process ended, sealed answers to its transport key can no longer be opened. For an epoch of partials, this process
gives its secret to the job's process instead.
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
from bytewise.service import frames, telemetry
from enclave.forked_process import ForkedProcess, ProcessReady
from enclave.server import MESSAGE_TIMEOUT_S
from enclave.shard_dialer import ShardDialer


@dataclass(frozen=True, slots=True)
class RebuilderReady:
    """The child sends this when it accepts a request."""

    unfenced: tuple[str, ...]
    """Names of the fences that do not hold around it."""
    transport_key: Blob
    """Public half of the job's transport key."""


@dataclass(frozen=True, slots=True)
class RebuildRequest:
    """The one envelope to open. The job socket's connection follows, over which streams to shards arrive."""

    job: RunJob
    """The job of the envelope."""


@dataclass(frozen=True, slots=True)
class TransportSecret:
    """The answer for an epoch whose key is not rebuilt."""

    transport_secret: Blob = field(repr=False)
    """The secret, for the process that asks the epoch's shards for partials."""


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """The outcome of opening the envelope."""

    plaintext: Blob | None = field(repr=False)
    """Padded plaintext; null after an error."""
    error: str
    """Class of the error; empty without one."""
    values: tuple[str, ...]
    """Values of that error."""


class KeyRebuilder:
    """Implements `bytewise.ports.KeySource` in a job's process, for one job.

    A child process owns the transport key. If the epoch's key has to be rebuilt, the child rebuilds it and opens the envelope.
    """

    def __init__(
        self, otherwise: KeySource, shard_dialer: ShardDialer, open_source: Callable[[ShardDialer], KeySource],
        fence: Callable[[], tuple[str, ...]],
    ) -> None:  # fmt: skip
        """`otherwise` opens envelopes whose key is not rebuilt. In the child, `fence` runs first and returns the fences that it
        could not set up, and `open_source` makes the key source that rebuilds."""
        self._otherwise, self._switchboard = otherwise, shard_dialer
        self._line, theirs = socket.socketpair()
        self._public = Blob(b"")
        with theirs:
            self._process = ForkedProcess(lambda: self._serve(theirs, open_source, fence))

    def ready(self) -> ProcessReady:
        """Waits, once, until the child accepts requests; `TryAgain` if it ended instead."""
        born: RebuilderReady = frames.receive(self._line, RebuilderReady)
        self._public = born.transport_key
        return ProcessReady(born.unfenced)

    @property
    def pid(self) -> int:
        """Process id of the child, which the job's process may end."""
        return self._process.pid

    def transport(self) -> tuple[bytes, Blob]:
        """No secret, and the public half of the child's transport key, once the child is ready."""
        return b"", self._public

    def open(self, job: RunJob, transport_secret: bytes) -> bytes:
        """As `KeySource.open`, with the child's secret instead of `transport_secret`, which is empty. `TryAgain` if the child
        ends without an answer. The child is gone when this returns, and before another source is asked."""
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
        """Kills the child at any point of its work, and waits for its end."""
        self._process.kill()
        self._process.reap()
        self._line.close()

    def _answer(self, job: RunJob) -> RebuildResult | TransportSecret:
        if self._switchboard.peer is None:
            raise TryAgain("rebuilder", "no job is being served")
        frames.send(self._line, RebuildRequest(job))
        frames.send_stream(self._line, self._switchboard.peer)
        # The child must not choose which of the two answers it gives.
        answer: RebuildResult | TransportSecret = frames.receive(
            self._line, RebuildResult if is_rebuilt(job.ticket.key_epoch) else TransportSecret
        )
        return answer

    def _serve(
        self, line: socket.socket, open_source: Callable[[ShardDialer], KeySource], fence: Callable[[], tuple[str, ...]]
    ) -> None:
        self._line.close()
        unfenced = fence()
        secret, public = transport_keypair(os.urandom)
        frames.send(line, RebuilderReady(unfenced, public))
        shard_dialer = ShardDialer()
        source = open_source(shard_dialer)
        try:
            wanted: RebuildRequest = frames.receive(line, RebuildRequest)
        except TryAgain:
            return  # the job's process is gone
        with frames.receive_stream(line) as peer:
            # A descriptor shares its non-blocking mode between processes, but not Python's timeout.
            peer.settimeout(MESSAGE_TIMEOUT_S)
            shard_dialer.peer = peer
            frames.send(line, _answer(source, wanted, secret))


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
