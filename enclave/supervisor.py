"""Runs one process for each job. The supervisor never sees a job, and kills a process that takes too long.

The supervisor keeps the verified weights and the job socket. It forks each process. The process opens the engine, has one
conversation and ends. If the second backend has a process of its own, no seat can convict without that process. When it ends, the
enclave therefore ends too and must be restarted.
"""

import select
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Fault
from bytewise.service import connections, telemetry
from bytewise.service.clock import monotonic_s
from bytewise.service.exit_codes import Exit
from enclave import job_socket
from enclave.forked_process import OPENING_LIMIT_S, ForkedProcess, ProcessReady
from enclave.job_socket import JobContext
from enclave.log_continuity import LogContinuity, RecordedRelease

MESSAGE_S = 5.0
"""Seconds in which a message of a process must arrive after its first bytes. The supervisor neither stops nor ends a process in
this time."""
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class JobTaken:
    """Message that a client connected. A job's process sends it to the supervisor, which then starts the time limit of that
    process. The client may bring a job, or ask only for the status."""


class Supervisor:
    """Keeps one job process alive at any time. When that process ends, the supervisor forks the next one, until the supervisor is
    stopped or `run` returns an error code."""

    def __init__(
        self, listening: socket.socket, open_context: Callable[[socket.socket], JobContext], continuity: LogContinuity, limit_s:
        int, stop: threading.Event, on_ready: Callable[[ProcessReady], None], cross_check: ForkedProcess | None = None,
    ) -> None:  # fmt: skip
        """`open_context` runs in each process and gets the process's connection to the supervisor. The supervisor calls
        `on_ready` when the first process waits for a job. `cross_check` is the process of the second backend, if there is one."""
        self._listening, self._open_context, self._continuity = listening, open_context, continuity
        self._limit_s, self._stop, self._on_ready, self._cross_check = limit_s, stop, on_ready, cross_check
        self._announced = False

    def run(self) -> int:
        """Runs until it is stopped, and then returns 0.

        Returns another exit code if a process ends with an error code, if a signal ends it before a client connected, or if the
        process of the second backend ends. A signal that ends a process later, for example at the time limit, costs only its
        job.
        """
        while not self._stop.is_set():
            code = self._run_one()
            if code:
                return code
        return 0

    def _run_one(self) -> int:
        line, theirs = socket.socketpair()
        with line, theirs:
            process = ForkedProcess(lambda: self._work(theirs))
            theirs.close()
            taken = self._watch(process, line)
            code = process.reap()
        if self._stop.is_set():
            return 0
        if self._cross_check_is_lost():
            telemetry.log("cross_check.lost")
            return Exit.INTERNAL
        if code < 0 and taken:
            # The machine or the time limit ended the process; the next job may work.
            telemetry.log("enclave_job.killed", by=signal.Signals(-code).name)
            return 0
        return code if code >= 0 else Exit.INTERNAL

    def _watch(self, process: ForkedProcess, line: socket.socket) -> bool:
        until, taken, lines = monotonic_s() + OPENING_LIMIT_S, False, [line.fileno()]
        others = [] if self._cross_check is None else [self._cross_check.descriptor]
        while not process.has_ended() or lines:
            if line.fileno() in select.select([process.descriptor, *lines, *others], [], [], _POLL_S)[0]:
                # The whole message must arrive in this time, so a process that sends slowly cannot extend its own time.
                match self._receive(line, min(until, monotonic_s() + MESSAGE_S)):
                    # After a process has read untrusted input, its messages can no longer extend its time.
                    case ProcessReady() if not taken:
                        until = float("inf")
                    case JobTaken() if not taken:
                        until, taken = monotonic_s() + self._limit_s, True
                    case None:
                        lines = []
            if self._stop.is_set() or self._cross_check_is_lost() or not lines or monotonic_s() > until:
                process.kill()
        return taken

    def _cross_check_is_lost(self) -> bool:
        return self._cross_check is not None and self._cross_check.has_ended()

    def _receive(self, line: socket.socket, until: float) -> ProcessReady | JobTaken | RecordedRelease | None:
        try:
            message: ProcessReady | JobTaken | RecordedRelease = connections.receive(
                line, ProcessReady, JobTaken, RecordedRelease, until=until
            )
            if isinstance(message, RecordedRelease):
                self._continuity.learn(message)
        except TryAgain:
            return None
        except Fault as error:
            telemetry.log_error("supervisor.message_refused", error)
            return None
        if isinstance(message, ProcessReady) and not self._announced:
            self._announced = True
            self._on_ready(message)
        return message

    def _work(self, line: socket.socket) -> None:
        context = self._open_context(line)
        connections.send(line, ProcessReady(context.unfenced))

        def taken() -> None:
            # Without this socket, a client that takes over this process cannot get the connection of the next job.
            self._listening.close()
            connections.send(line, JobTaken())

        while not job_socket.serve_one(self._listening, context, taken):
            pass
