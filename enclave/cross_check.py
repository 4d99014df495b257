"""The second backend in a process of its own, one for each doubt, which has neither keys nor sockets.

The library that it computes with is large and not ours. So it is not loaded where envelopes are opened: what loads it gets one
request and one answer over a stream and gives back one word.
"""

import functools
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from bytewise.protocol.errors.actors import CannotExecute, NotExact, TryAgain
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue, OutsideLimits
from bytewise.protocol.records.compare import Generated, Verification
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.units import U8, Digest
from bytewise.service import frames, telemetry
from enclave.forked_process import OPENING_LIMIT_S, Apart, Ready
from enclave.judge import JudgingEngine

AGREES = U8(0)


class Concurring(Protocol):
    """What gives an opinion."""

    def concur(self, request: Request, output: Output, out_hash: Digest) -> None:
        """`CannotExecute` unless a second backend gives this very answer and passes the vectors."""
        ...


class DoubtingEngine(JudgingEngine, Concurring, Protocol):
    """An engine whose second backend can be asked elsewhere."""

    def vectors(self) -> Digest:
        """Runs the profile's vectors; `NotExact` names what differs."""
        ...


@dataclass(frozen=True, slots=True)
class Doubt:
    """An answer that differs from what an operator signed."""

    request: Request = field(repr=False)
    output: Output = field(repr=False)
    out_hash: Digest


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the second backend says of it."""

    reason: U8
    """0 if it gives the same answer; otherwise the `CannotReason`."""


class Opened(NamedTuple):
    """An engine for one opinion."""

    engine: Concurring
    """It."""
    unfenced: tuple[str, ...]
    """Fences that do not hold around its process."""


class SecondOpinion:
    """Starts the process, before there is a job, and asks it.

    `preload` runs in it and names fences that do not hold; `open_engine` runs in the process of each opinion, which has `limit_s`
    seconds once it is asked.
    """

    def __init__(self, open_engine: Callable[[], Opened], preload: Callable[[], tuple[str, ...]], limit_s: int) -> None:
        self._open_engine, self._preload, self._limit_s = open_engine, preload, limit_s
        self._line, theirs = socket.socketpair()
        with theirs:
            self.process = Apart(lambda: self._serve(theirs))
            """Kept for as long as the enclave lives; the kernel ends it with its parent."""

    def ready(self) -> Ready:
        """Once: waits until it can be asked; `TryAgain` if it ends instead or takes too long."""
        self._line.settimeout(OPENING_LIMIT_S)
        ready: Ready = frames.receive(self._line, Ready)
        return ready

    def of(self, request: Request, truth: Generated) -> None:
        """`CannotExecute` unless the second backend gives the same answer; `TryAgain` if it gives none, which is no opinion."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(self._limit_s)
            frames.send_stream(self._line, theirs)
            theirs.close()
            frames.send(ours, Doubt(request, truth.output, truth.out_hash))
            opinion = frames.receive(ours, Opinion)
        if opinion.reason == AGREES:
            return
        if opinion.reason not in set(CannotReason):
            raise MalformedValue("second opinion", str(opinion.reason))
        raise CannotExecute("the second backend does not agree", CannotReason(opinion.reason))

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.reap()
        self._line.close()

    def _serve(self, line: socket.socket) -> None:
        self._line.close()
        missing, told, code = self._preload(), False, 0
        # One that fails by itself would fail again.
        while code <= 0:
            here, there = socket.socketpair()
            with here, there:
                opinion = Apart(functools.partial(self._give, line, there))
                there.close()
                here.settimeout(OPENING_LIMIT_S)
                ready = frames.receive(here, Ready)
            if not told:
                frames.send(line, Ready((*missing, *ready.unfenced)))
                told = True
            code = opinion.reap()
            if code < 0:
                telemetry.log("enclave.second_ended", by=signal.Signals(-code).name)

    def _give(self, line: socket.socket, there: socket.socket) -> None:
        # The engine is open before there is a doubt: whoever waits for an opinion has a deadline.
        engine, unfenced = self._open_engine()
        frames.send(there, Ready(unfenced))
        try:
            with frames.receive_stream(line) as stream:
                signal.setitimer(signal.ITIMER_REAL, self._limit_s)  # its signal ends the process, whatever it is computing
                _answer(stream, engine)
        except (Fault, TryAgain) as error:
            # Who asked is gone or at fault, and waits for nothing. The next one may be neither.
            telemetry.log_error("enclave.second_unasked", error)


class Doubting:
    """A `JudgingEngine` that confirms its convictions elsewhere."""

    def __init__(self, engine: DoubtingEngine, second: SecondOpinion) -> None:
        self._engine, self._second = engine, second

    def generate(self, request: Request) -> Generated:
        """As the engine's."""
        return self._engine.generate(request)

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """As the engine's."""
        return self._engine.verify(request, claimed, out_hash)

    def confirm(self, request: Request, verification: Verification) -> Verification:
        """The verification, once this machine has passed its vectors again and a second backend gives the same answer."""
        if verification.divergence is None:
            return verification
        try:
            self._engine.vectors()
        except NotExact as error:
            raise CannotExecute(str(error), CannotReason.BACKEND) from None
        self._second.of(request, verification.truth)
        return verification


def _answer(stream: socket.socket, engine: Concurring) -> None:
    doubt = frames.receive(stream, Doubt)
    try:
        engine.concur(doubt.request, doubt.output, doubt.out_hash)
        reason = AGREES
    except CannotExecute as error:
        reason = U8(next((each for each in error.values if isinstance(each, CannotReason)), CannotReason.BACKEND))
    except (MemoryError, OutsideLimits):
        # As in `enclave.judge`: what the registered environment allows and this engine does not.
        reason = U8(CannotReason.RESOURCES)
    frames.send(stream, Opinion(reason))
