"""One job, one process: the keeper, which never sees a job, has one process wait for the next and ends it when it takes too long.

The keeper holds the verified weights and the job socket; each process is forked from it, opens the engine, takes one job and is
gone.
"""

import select
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from bytewise.protocol.errors import TryAgain
from bytewise.protocol.units import Digest
from bytewise.service import telemetry
from bytewise.service.clock import monotonic_s
from kms.promises import Promise, Promises
from verifier import frames
from verifier.enclave import server
from verifier.enclave.apart import Apart
from verifier.enclave.failure import EXIT_BUG
from verifier.enclave.session import Bench

_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Ready:
    """A process waits for a job."""

    unfenced: tuple[str, ...]
    """Fences that do not hold there."""


@dataclass(frozen=True, slots=True)
class Taken:
    """It has one, and its time runs."""

    receipt_id: Digest
    """About which receipt."""


class Keeper:
    """Keeps one process waiting or working until told to stop."""

    def __init__(
        self, listening: socket.socket, open_bench: Callable[[socket.socket], Bench], promises: Promises, limit_s: float,
        stop: threading.Event, on_ready: Callable[[Ready], None],
    ) -> None:  # fmt: skip
        """`open_bench` runs in each process and gets its line to the keeper; `on_ready` is told of the first that waits."""
        self._listening, self._open_bench, self._promises = listening, open_bench, promises
        self._limit_s, self._stop, self._on_ready = limit_s, stop, on_ready
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
            has_job = self._attend(process, line)
            code = process.reap()
        if self._stop.is_set() or code == 0:
            return 0
        if code < 0 and has_job:
            # The machine or its time limit ended it: nothing that the next job could not do better.
            telemetry.log("enclave.job_ended", by=signal.Signals(-code).name)
            telemetry.count("bytewise_enclave_jobs_ended_total", signal=signal.Signals(-code).name)
            return 0
        return code if code > 0 else EXIT_BUG

    def _attend(self, process: Apart, line: socket.socket) -> bool:
        until, lines = float("inf"), [line]
        while not process.has_ended() or lines:
            waiting = [process.descriptor, *(each.fileno() for each in lines)]
            if line.fileno() in select.select(waiting, [], [], _POLL_S)[0]:
                said = self._hear(line)
                until = monotonic_s() + self._limit_s if isinstance(said, Taken) else until
                lines = lines if said is not None else []
            if self._stop.is_set() or monotonic_s() > until:
                process.kill()
        return until < float("inf")

    def _hear(self, line: socket.socket) -> Ready | Taken | Promise | None:
        try:
            said: Ready | Taken | Promise = frames.receive(line, Ready, Taken, Promise)
        except TryAgain:
            return None
        if isinstance(said, Promise):
            self._promises.learn(said)
        elif isinstance(said, Ready) and not self._announced:
            self._announced = True
            self._on_ready(said)
        return said

    def _work(self, line: socket.socket) -> None:
        bench = self._open_bench(line)
        frames.send(line, Ready(bench.unfenced))
        server.serve_one(self._listening, bench, lambda receipt_id: frames.send(line, Taken(receipt_id)))
