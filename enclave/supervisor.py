"""One job, one process: the keeper, which never sees a job, has one process wait for the next and ends it when it takes too long.

The keeper holds the verified weights and the job socket; each process is forked from it, opens the engine, has one conversation
and is gone. Without the second backend's process no seat could convict: its end is the enclave's, to be started again.
"""

import select
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Fault
from bytewise.service import frames, telemetry
from bytewise.service.clock import monotonic_s
from bytewise.service.exit_codes import Exit
from enclave import server
from enclave.forked_process import OPENING_LIMIT_S, Apart, Ready
from enclave.log_continuity import Promise, Promises
from enclave.session import Bench

_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Taken:
    """Somebody has connected, with a job or without, and its time runs."""


class Keeper:
    """Keeps one process waiting or working until told to stop."""

    def __init__(
        self, listening: socket.socket, open_bench: Callable[[socket.socket], Bench], promises: Promises, limit_s: int,
        stop: threading.Event, on_ready: Callable[[Ready], None], second: Apart | None = None,
    ) -> None:  # fmt: skip
        """`open_bench` runs in each process and gets its line to the keeper; `on_ready` is told of the first that waits."""
        self._listening, self._open_bench, self._promises = listening, open_bench, promises
        self._limit_s, self._stop, self._on_ready, self._second = limit_s, stop, on_ready, second
        self._announced = False

    def run(self) -> int:
        """Exit code: 0 when told to stop, else that of a process that failed by itself."""
        while not self._stop.is_set():
            code = self._one()
            if code:
                return code
        return 0

    def _one(self) -> int:
        line, theirs = socket.socketpair()
        with line, theirs:
            line.settimeout(server.MESSAGE_TIMEOUT_S)
            process = Apart(lambda: self._work(theirs))
            theirs.close()
            taken = self._attend(process, line)
            code = process.reap()
        if self._stop.is_set():
            return 0
        if self._is_alone():
            telemetry.log("enclave.second_gone")
            return Exit.INTERNAL
        if code < 0 and taken:
            # The machine or its time limit ended it: nothing that the next job could not do better.
            telemetry.log("enclave.job_ended", by=signal.Signals(-code).name)
            telemetry.count("bytewise_enclave_jobs_ended_total", signal=signal.Signals(-code).name)
            return 0
        return code if code >= 0 else Exit.INTERNAL

    def _attend(self, process: Apart, line: socket.socket) -> bool:
        until, taken, lines = monotonic_s() + OPENING_LIMIT_S, False, [line.fileno()]
        others = [] if self._second is None else [self._second.descriptor]
        while not process.has_ended() or lines:
            if line.fileno() in select.select([process.descriptor, *lines, *others], [], [], _POLL_S)[0]:
                match self._hear(line):
                    # Once it has read something, what it says of itself gives it no more time.
                    case Ready() if not taken:
                        until = float("inf")
                    case Taken() if not taken:
                        until, taken = monotonic_s() + self._limit_s, True
                    case None:
                        lines = []
            if self._stop.is_set() or self._is_alone() or not lines or monotonic_s() > until:
                process.kill()
        return taken

    def _is_alone(self) -> bool:
        return self._second is not None and self._second.has_ended()

    def _hear(self, line: socket.socket) -> Ready | Taken | Promise | None:
        try:
            said: Ready | Taken | Promise = frames.receive(line, Ready, Taken, Promise)
            if isinstance(said, Promise):
                self._promises.learn(said)
        except TryAgain:
            return None
        except Fault as error:
            telemetry.log_error("enclave.unclear", error)
            return None
        if isinstance(said, Ready) and not self._announced:
            self._announced = True
            self._on_ready(said)
        return said

    def _work(self, line: socket.socket) -> None:
        bench = self._open_bench(line)
        frames.send(line, Ready(bench.unfenced))

        def taken() -> None:
            # Whoever breaks this process by what it is given finds no way to a second job.
            self._listening.close()
            frames.send(line, Taken())

        while not server.serve_one(self._listening, bench, taken):
            pass
