"""Checks a finding with a second backend before a seat contradicts an operator. The second backend computes the same request
again, in a separate process for each check, without keys and sockets.

The library of the second backend is large and comes from outside this project, so a process that opens envelopes does not load
it. The separate process receives one check over a stream, and returns only one code.
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
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.records.trace import Generated, Verification
from bytewise.protocol.units import U8, Digest
from bytewise.service import connections, telemetry
from enclave.forked_process import OPENING_LIMIT_S, ForkedProcess, ProcessReady
from enclave.judge import JudgingEngine

AGREES = U8(0)


class SecondBackend(Protocol):
    """An engine that can check an answer with a second backend."""

    def concur(self, request: Request, output: Output, out_hash: Digest) -> None:
        """Returns normally if a second backend passes the known-answer vectors and computes exactly this answer. Raises
        `CannotExecute` otherwise."""
        ...


class TwoBackendEngine(JudgingEngine, SecondBackend, Protocol):
    """A judging engine that can first test its own backend, and that has a second backend for a cross-check."""

    def vectors(self) -> Digest:
        """Runs the known-answer vectors of the arithmetic profile, and returns their digest. Raises `NotExact` with the differing
        vector."""
        ...


@dataclass(frozen=True, slots=True)
class CrossCheckRequest:
    """One check for the process of the second backend: a request, and the answer that the first backend computed for it. The
    operator signed a different answer."""

    request: Request = field(repr=False)
    output: Output = field(repr=False)
    out_hash: Digest


@dataclass(frozen=True, slots=True)
class CrossCheckResult:
    """Result of one check. It says whether the second backend computed the same answer as the first backend."""

    reason: U8
    """0 if the second backend computes the same answer, otherwise the `CannotReason`."""


class OpenedBackend(NamedTuple):
    """The engine of a process that does one check, and the fences that this process lacks."""

    engine: SecondBackend
    """The engine with its second backend."""
    unfenced: tuple[str, ...]
    """Names of the fences (`bytewise.tee.confinement`) that are missing around the engine's process."""


class CrossCheck:
    """Starts the process of the second backend, and sends checks to it. The process must start before the enclave's first job.

    In that process, `preload` runs and returns the names of missing fences. For each check, that process starts a new process, in
    which `open_engine` runs. The new process has `limit_s` seconds from the moment when it receives the check.
    """

    def __init__(self, open_engine: Callable[[], OpenedBackend], preload: Callable[[], tuple[str, ...]], limit_s: int) -> None:
        self._open_engine, self._preload, self._limit_s = open_engine, preload, limit_s
        self._line, theirs = socket.socketpair()
        with theirs:
            self.process = ForkedProcess(lambda: self._serve(theirs))
            """Process of the second backend. It does not outlive the enclave, because the kernel ends it together with its
            parent."""

    def ready(self) -> ProcessReady:
        """Waits until the process accepts checks. Call it only once. Raises `TryAgain` if the process ends instead or takes too
        long."""
        self._line.settimeout(OPENING_LIMIT_S)
        ready: ProcessReady = connections.receive(self._line, ProcessReady)
        return ready

    def verify(self, request: Request, truth: Generated) -> None:
        """Returns normally if the second backend computes the same answer. Raises `CannotExecute` if it computes another answer,
        or cannot run here. Raises `TryAgain` if it returns no result; the check then decides nothing."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(self._limit_s)
            connections.send_stream(self._line, theirs)
            theirs.close()
            connections.send(ours, CrossCheckRequest(request, truth.output, truth.out_hash))
            opinion = connections.receive(ours, CrossCheckResult)
        if opinion.reason == AGREES:
            return
        if opinion.reason not in set(CannotReason):
            raise MalformedValue("cross-check", str(opinion.reason))
        raise CannotExecute("the second backend does not agree", CannotReason(opinion.reason))

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.reap()
        self._line.close()

    def _serve(self, line: socket.socket) -> None:
        self._line.close()
        missing, reported, code = self._preload(), False, 0
        # A process that failed by itself would fail again.
        while code <= 0:
            here, there = socket.socketpair()
            with here, there:
                opinion = ForkedProcess(functools.partial(self._give, line, there))
                there.close()
                here.settimeout(OPENING_LIMIT_S)
                ready = connections.receive(here, ProcessReady)
            if not reported:
                connections.send(line, ProcessReady((*missing, *ready.unfenced)))
                reported = True
            code = opinion.reap()
            if code < 0:
                telemetry.log("cross_check.ended", by=signal.Signals(-code).name)

    def _give(self, line: socket.socket, there: socket.socket) -> None:
        # The engine is opened before there is a check, because the seat that waits for the result has a deadline.
        engine, unfenced = self._open_engine()
        connections.send(there, ProcessReady(unfenced))
        try:
            with connections.receive_stream(line) as stream:
                signal.setitimer(signal.ITIMER_REAL, self._limit_s)  # the signal ends the process at any point of its computation
                _answer(stream, engine)
        except (Fault, TryAgain) as error:
            # The job's process has ended or failed, and does not wait for the result. The next one may work.
            telemetry.log_error("cross_check.refused", error)


class CrossCheckedEngine:
    """A `JudgingEngine` that sends an answer to a second backend before it lets a seat contradict the operator."""

    def __init__(self, engine: TwoBackendEngine, cross_check: CrossCheck) -> None:
        self._engine, self._cross_check = engine, cross_check

    def generate(self, request: Request) -> Generated:
        """Computes an answer with the wrapped engine."""
        return self._engine.generate(request)

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Verifies a claimed answer with the wrapped engine."""
        return self._engine.verify(request, claimed, out_hash)

    def confirm(self, request: Request, verification: Verification) -> Verification:
        """Returns the verification if the operator's answer was right, or if two tests confirm that it was wrong. First, this
        machine must pass the known-answer vectors again. Then the second backend must compute the same answer as this engine.
        Raises `CannotExecute` if a test fails, and `TryAgain` if the second backend gives no result."""
        if verification.divergence is None:
            return verification
        try:
            self._engine.vectors()
        except NotExact as error:
            raise CannotExecute(str(error), CannotReason.BACKEND) from None
        self._cross_check.verify(request, verification.truth)
        return verification


def _answer(stream: socket.socket, engine: SecondBackend) -> None:
    doubt = connections.receive(stream, CrossCheckRequest)
    try:
        engine.concur(doubt.request, doubt.output, doubt.out_hash)
        reason = AGREES
    except CannotExecute as error:
        reason = U8(next((each for each in error.values if isinstance(each, CannotReason)), CannotReason.BACKEND))
    except (MemoryError, OutsideLimits):
        # As in `enclave.judge`: the registered environment allows this request, but the engine does not.
        reason = U8(CannotReason.RESOURCES)
    connections.send(stream, CrossCheckResult(reason))
