"""A thread that runs enclave jobs, votes before audits, so that a tick never waits for a job (design section 2).

A key names each job. A key that waits or runs is not accepted again, and its result is collected once. While the enclave is away,
the worker tries one job at a time to see whether it has returned (`verifier.jobs.enclave_presence`).
"""

import heapq
import threading
from collections.abc import Callable
from typing import NamedTuple

from bytewise.protocol.errors.branches import Bug, BytewiseError
from bytewise.protocol.jobs import JobResult
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.units import Digest
from bytewise.service import metrics, telemetry
from bytewise.service.clock import monotonic_s
from verifier.jobs.enclave_presence import EnclaveAway, EnclavePresence

VOTE, AUDIT = 0, 1
"""Priorities; the lower one runs first."""

JobKey = tuple[str, Digest, int]
"""Kind (`audit` or `vote`), subject and round of a job."""

_JOIN_S = 2.0
_IDLE_S = 60.0


class FinishedJob(NamedTuple):
    """The result or the error of one job."""

    key: JobKey
    outcome: JobResult | BytewiseError


class Worker:
    """A queue of jobs, and the thread that runs them."""

    def __init__(self, monotonic: Callable[[], float] = monotonic_s) -> None:
        self._presence = EnclavePresence(monotonic)
        self._condition = threading.Condition()
        self._waiting: list[tuple[int, int, JobKey]] = []
        self._jobs: dict[JobKey, Callable[[], JobResult]] = {}
        self._finished: list[FinishedJob] = []
        self._count = 0
        self._stopped = False
        self._broken: BaseException | None = None
        self._thread = threading.Thread(target=self._loop, name="jobs", daemon=True)
        self._thread.start()

    def busy(self) -> frozenset[JobKey]:
        """Keys of the jobs that wait, run, or have a result that was not collected yet."""
        with self._condition:
            return frozenset(self._jobs)

    def away(self) -> bool:
        """Whether a new job would find no enclave: the last job found none, and either the pause is not over or another job is
        trying."""
        with self._condition:
            return self._presence.down and (self._presence.pausing or bool(self._jobs))

    def submit(self, priority: int, key: JobKey, job: Callable[[], JobResult]) -> None:
        """Queues a job unless its key is busy."""
        with self._condition:
            if key in self._jobs:
                return
            self._jobs[key] = job
            self._count += 1
            heapq.heappush(self._waiting, (priority, self._count, key))
            metrics.JOBS_WAITING.set(len(self._jobs))
            self._condition.notify()

    def collect(self) -> tuple[FinishedJob, ...]:
        """Results since the last call. Raises the `Bug` that ended the thread, if there was one."""
        with self._condition:
            if self._broken is not None:
                raise self._broken
            finished, self._finished = tuple(self._finished), []
            for each in finished:
                del self._jobs[each.key]
            metrics.JOBS_WAITING.set(len(self._jobs))
            return finished

    def stop(self) -> None:
        """Accepts no further job. A running job is abandoned when the process ends."""
        with self._condition:
            self._stopped = True
            self._condition.notify()
        self._thread.join(_JOIN_S)

    def _loop(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting or self._stopped, timeout=_IDLE_S)
                if self._stopped:
                    return
                if not self._waiting:
                    continue
                _, _, key = heapq.heappop(self._waiting)
                job = self._jobs[key]
            began = monotonic_s()
            outcome = self._run(job)
            _count(key[0], outcome, monotonic_s() - began)
            if outcome is None:
                return
            with self._condition:
                self._finished.append(FinishedJob(key, outcome))

    def _run(self, job: Callable[[], JobResult]) -> JobResult | BytewiseError | None:
        if self._presence.pausing:
            return EnclaveAway("enclave", "took no job a moment ago")  # this one waited behind the one that found out
        try:
            result = job()
            self._presence.found()
            return result
        except Bug as bug:
            self._break(bug)
        except EnclaveAway as error:
            self._presence.lost(error)
            return error
        except BytewiseError as error:
            self._presence.found()
            telemetry.log_error("job.failed", error)
            return error
        except Exception as error:  # noqa: BLE001  top of the thread: the next tick raises it and ends the process
            self._break(error)
        return None

    def _break(self, error: BaseException) -> None:
        with self._condition:
            self._broken = error


def _count(kind: str, outcome: JobResult | BytewiseError | None, seconds: float) -> None:
    if outcome is None or isinstance(outcome, EnclaveAway):
        return  # nothing was tried
    found = Outcome(outcome.outcome).name.lower() if isinstance(outcome, JobResult) else "failed"
    metrics.REPLAYS.labels(kind=kind, outcome=found).inc()
    metrics.REPLAY_SECONDS.labels(kind=kind).observe(seconds)
