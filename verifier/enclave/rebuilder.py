"""The process that rebuilds a key (ADR 149): forked from a job's before that has a job, gone after one envelope.

It asks the shards itself, so that neither their shares nor what they sealed them in is ever in the process which reads the
plaintext. That one knows the transport key and sees the answer.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass

from bytewise.ports import KeySource
from bytewise.protocol import errors
from bytewise.protocol.branches import Fault, Unavailable
from bytewise.protocol.errors import BytewiseError, TryAgain
from bytewise.protocol.jobs import RunJob
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import Blob
from bytewise.service import telemetry
from verifier import frames
from verifier.enclave.apart import Apart, Ready
from verifier.enclave.server import MESSAGE_TIMEOUT_S
from verifier.enclave.switchboard import Switchboard


@dataclass(frozen=True, slots=True)
class Wanted:
    """The one envelope to be opened. The job socket's connection follows, over which streams to shards come."""

    job: RunJob
    """Whose."""
    transport_secret: Blob
    """To whose public half shards seal their shares."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What became of it."""

    plaintext: Blob | None
    """Padded; null if there is none."""
    error: str
    """Class of the error then."""
    values: tuple[str, ...]
    """What that is about."""


class Rebuilder:
    """Implements `bytewise.ports.KeySource` in a job's process: for one job, by the child where the key has to be rebuilt."""

    def __init__(
        self, otherwise: KeySource, switchboard: Switchboard, open_source: Callable[[Switchboard], KeySource],
        fence: Callable[[], tuple[str, ...]],
    ) -> None:  # fmt: skip
        """`otherwise` opens what needs no rebuilding. In the child `fence` runs first and names what it could not put up, and
        `open_source` makes what rebuilds."""
        self._otherwise, self._switchboard = otherwise, switchboard
        self._line, theirs = socket.socketpair()
        with theirs:
            self._process = Apart(lambda: self._serve(theirs, open_source, fence))

    def ready(self) -> Ready:
        """Once: waits until the child can be asked; `TryAgain` if it ended instead."""
        ready: Ready = frames.receive(self._line, Ready)
        return ready

    def open(self, job: RunJob, transport_secret: bytes) -> bytes:
        """As `KeySource.open`; `TryAgain` if the child ends without a word. It is gone when this returns."""
        if not is_rebuilt(job.receipt.key_epoch):
            self.close()
            return self._otherwise.open(job, transport_secret)
        try:
            return self._opened(job, transport_secret)
        finally:
            self.close()

    def close(self) -> None:
        """Ends the child, whatever it is doing, and waits for that."""
        self._process.kill()
        self._process.reap()
        self._line.close()

    def _opened(self, job: RunJob, transport_secret: bytes) -> bytes:
        if self._switchboard.peer is None:
            raise TryAgain("rebuilder", "no job is being served")
        frames.send(self._line, Wanted(job, Blob(transport_secret)))
        frames.send_stream(self._line, self._switchboard.peer)
        opened: Opened = frames.receive(self._line, Opened)
        if opened.plaintext is None:
            raise _error(opened)
        return opened.plaintext

    def _serve(
        self, line: socket.socket, open_source: Callable[[Switchboard], KeySource], fence: Callable[[], tuple[str, ...]]
    ) -> None:
        self._line.close()
        frames.send(line, Ready(fence()))
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
            frames.send(line, _answer(source, wanted))


def _answer(source: KeySource, wanted: Wanted) -> Opened:
    try:
        return Opened(Blob(source.open(wanted.job, wanted.transport_secret)), "", ())
    except (Fault, Unavailable) as error:
        telemetry.log_error("enclave.not_rebuilt", error)
        return Opened(None, type(error).__name__, tuple(str(each)[:200] for each in error.values))


def _error(opened: Opened) -> BytewiseError:
    # What the vote depends on, a defect or no key, is the same here as it was there.
    kind = getattr(errors, opened.error, None)
    if isinstance(kind, type) and issubclass(kind, Fault | Unavailable):
        return kind(*opened.values)
    return TryAgain("rebuilder", opened.error[:40])
