"""The process that rebuilds a key (ADR-038): forked from a job's before that has a job, gone after one envelope.

It asks the shards itself, with a transport key of its own: neither their shares nor what opens what they seal is ever in the
process which reads the plaintext. That one knows the key's public half and sees the answer: what shards seal when this process is
gone opens nowhere, whoever asks them. For an epoch of partials it hands its secret over instead.
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
from enclave.forked_process import Apart, Ready
from enclave.server import MESSAGE_TIMEOUT_S
from enclave.shard_dialer import Switchboard


@dataclass(frozen=True, slots=True)
class Born:
    """What the child says once it can be asked."""

    unfenced: tuple[str, ...]
    """Names of the fences that do not hold around it."""
    transport_key: Blob
    """Public half of the job's transport key."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The one envelope to be opened. The job socket's connection follows, over which streams to shards come."""

    job: RunJob
    """Whose."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The answer about an epoch whose key is not rebuilt."""

    transport_secret: Blob = field(repr=False)
    """For whoever asks its shards for partials."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What became of it."""

    plaintext: Blob | None = field(repr=False)
    """Padded; null if there is none."""
    error: str
    """Class of the error then."""
    values: tuple[str, ...]
    """What that is about."""


class Rebuilder:
    """Implements `bytewise.ports.KeySource` in a job's process: for one job, by the child where the key has to be rebuilt.

    The transport key is the child's, too.
    """

    def __init__(
        self, otherwise: KeySource, switchboard: Switchboard, open_source: Callable[[Switchboard], KeySource],
        fence: Callable[[], tuple[str, ...]],
    ) -> None:  # fmt: skip
        """`otherwise` opens what needs no rebuilding. In the child `fence` runs first and names what it could not put up, and
        `open_source` makes what rebuilds."""
        self._otherwise, self._switchboard = otherwise, switchboard
        self._line, theirs = socket.socketpair()
        self._public = Blob(b"")
        with theirs:
            self._process = Apart(lambda: self._serve(theirs, open_source, fence))

    def ready(self) -> Ready:
        """Once: waits until the child can be asked; `TryAgain` if it ended instead."""
        born: Born = frames.receive(self._line, Born)
        self._public = born.transport_key
        return Ready(born.unfenced)

    @property
    def pid(self) -> int:
        """Number of the child, which this process ends."""
        return self._process.pid

    def transport(self) -> tuple[bytes, Blob]:
        """No secret, and the public half of the child's transport key; once it is ready."""
        return b"", self._public

    def open(self, job: RunJob, transport_secret: bytes) -> bytes:
        """As `KeySource.open`, with the child's own secret and not the one given, which is empty; `TryAgain` if the child ends
        without a word. It is gone when this returns, and before anybody else is asked."""
        try:
            answer = self._answer(job)
        finally:
            self.close()
        if isinstance(answer, HandedOver):
            return self._otherwise.open(job, answer.transport_secret)
        if answer.plaintext is None:
            raise _error(answer)
        return answer.plaintext

    def close(self) -> None:
        """Ends the child, whatever it is doing, and waits for that."""
        self._process.kill()
        self._process.reap()
        self._line.close()

    def _answer(self, job: RunJob) -> Opened | HandedOver:
        if self._switchboard.peer is None:
            raise TryAgain("rebuilder", "no job is being served")
        frames.send(self._line, Wanted(job))
        frames.send_stream(self._line, self._switchboard.peer)
        # Which of the two it has to be is not left to the child.
        answer: Opened | HandedOver = frames.receive(self._line, Opened if is_rebuilt(job.ticket.key_epoch) else HandedOver)
        return answer

    def _serve(
        self, line: socket.socket, open_source: Callable[[Switchboard], KeySource], fence: Callable[[], tuple[str, ...]]
    ) -> None:
        self._line.close()
        unfenced = fence()
        secret, public = transport_keypair(os.urandom)
        frames.send(line, Born(unfenced, public))
        switchboard = Switchboard()
        source = open_source(switchboard)
        try:
            wanted: Wanted = frames.receive(line, Wanted)
        except TryAgain:
            return  # the job's process is gone
        with frames.receive_stream(line) as peer:
            # The two ends of a descriptor share that it does not block, and not how long Python then waits.
            peer.settimeout(MESSAGE_TIMEOUT_S)
            switchboard.peer = peer
            frames.send(line, _answer(source, wanted, secret))


def _answer(source: KeySource, wanted: Wanted, secret: bytes) -> Opened | HandedOver:
    # The ticket's epoch is the one for which shards give: no ticket for a rebuilt key meets a secret that was handed over.
    if not is_rebuilt(wanted.job.ticket.key_epoch):
        return HandedOver(Blob(secret))
    try:
        return Opened(Blob(source.open(wanted.job, secret)), "", ())
    except (Fault, Unavailable) as error:
        telemetry.log_error("enclave.not_rebuilt", error)
        return Opened(None, type(error).__name__, tuple(str(each)[:200] for each in error.values))


def _error(opened: Opened) -> BytewiseError:
    # What the vote depends on, a defect or no key, is the same here as it was there.
    kind = CLASSES.get(opened.error)
    if kind is not None and issubclass(kind, Fault | Unavailable):
        return kind(*opened.values)
    return TryAgain("rebuilder", opened.error[:40])
