"""The second backend in a process of its own, one for each doubt, which has neither keys nor sockets.

The library that it computes with brings an HTTP and a hub client along. So it is not loaded where envelopes are opened: what
loads it gets one request and one answer over a stream and gives back one word.
"""

import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bytewise.protocol.compare import Generated, Verification
from bytewise.protocol.errors import CannotExecute, NotExact, TryAgain
from bytewise.protocol.messages import CannotReason
from bytewise.protocol.request import Output, Request
from bytewise.protocol.units import U8, Digest
from bytewise.service import telemetry
from verifier import frames
from verifier.enclave.apart import Apart
from verifier.enclave.judge import JudgingEngine

AGREES = U8(0)


class DoubtingEngine(JudgingEngine, Protocol):
    """An engine whose second backend can be asked elsewhere."""

    def vectors(self) -> Digest:
        """Runs the profile's vectors; `NotExact` names what differs."""
        ...

    def concur(self, request: Request, output: Output, out_hash: Digest) -> None:
        """`CannotExecute` unless a second backend gives this very answer and passes the vectors."""
        ...


@dataclass(frozen=True, slots=True)
class Doubt:
    """An answer that differs from what an operator signed."""

    request: Request
    output: Output
    out_hash: Digest


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the second backend says of it."""

    reason: U8
    """0 if it gives the same answer; otherwise the `CannotReason`."""


class SecondOpinion:
    """Starts the process, before there is a job, and asks it; `open_engine` and `preload` run in it."""

    def __init__(self, open_engine: Callable[[], DoubtingEngine], preload: Callable[[], object], limit_s: float) -> None:
        self._limit_s = limit_s
        self._line, theirs = socket.socketpair()
        with theirs:
            # Kept for as long as the enclave lives: the kernel ends it with its parent.
            self._process = Apart(lambda: self._serve(theirs, open_engine, preload))

    def of(self, request: Request, truth: Generated) -> None:
        """`CannotExecute` unless the second backend gives the same answer."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(self._limit_s)
            try:
                frames.send_stream(self._line, theirs)
                theirs.close()
                frames.send(ours, Doubt(request, truth.output, truth.out_hash))
                opinion = frames.receive(ours, Opinion)
            except TryAgain:
                raise CannotExecute("the second backend does not answer", CannotReason.BACKEND) from None
        if opinion.reason != AGREES:
            raise CannotExecute("the second backend does not agree", CannotReason(opinion.reason))

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.reap()
        self._line.close()

    def _serve(self, line: socket.socket, open_engine: Callable[[], DoubtingEngine], preload: Callable[[], object]) -> None:
        self._line.close()
        preload()
        code = 0
        # One that fails by itself would fail again. How long one may take is bounded by its processor time.
        while code <= 0:
            code = Apart(lambda: _answer(line, open_engine())).reap()
            if code < 0:
                telemetry.log("enclave.second_ended", by=signal.Signals(-code).name)


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


def _answer(line: socket.socket, engine: DoubtingEngine) -> None:
    # The engine is open before there is a doubt: whoever waits for an opinion has a deadline.
    with frames.receive_stream(line) as stream:
        doubt = frames.receive(stream, Doubt)
        try:
            engine.concur(doubt.request, doubt.output, doubt.out_hash)
            reason = AGREES
        except CannotExecute as error:
            reason = U8(next((each for each in error.values if isinstance(each, CannotReason)), CannotReason.BACKEND))
        frames.send(stream, Opinion(reason))
