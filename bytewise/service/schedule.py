"""Periodic work, and whether the loops of a process run.

`run_ticks` runs a tick at an interval until `stop` is set, and ends the process on a `Bug`. APScheduler runs one instance of a
tick at a time, and merges missed runs into one. Jobs that may take long, such as housekeeping, run beside the tick in another
thread. A `Fault` or `Unavailable` that leaves a tick is logged and counted, and the next tick decides again. Any other error
means that our program is wrong, so the process stops.

A loop first announces the longest time between two of its passes (`expect_loop`), and then reports every pass (`beat_loop`).
`/livez` shows the result.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import NamedTuple

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, JobEvent, JobExecutionEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.service import entry_point, metrics, telemetry
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.service.exit_codes import Exit


class LoopState(NamedTuple):
    """State of a loop at one moment."""

    alive: bool
    """Whether the time since the last pass is within the limit."""
    last_s: float
    """Seconds since the last pass of the loop, or since it was announced."""
    limit_s: float
    """Longest time between two passes, in seconds."""


class Liveness:
    """The loops of one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limits: dict[str, float] = {}
        self._passes: dict[str, float] = {}

    def expect(self, loop: str, limit_s: float) -> None:
        """Announces a loop that passes at least every `limit_s` seconds from now on."""
        with self._lock:
            self._limits[loop] = limit_s
            self._passes[loop] = monotonic_s()

    def beat(self, loop: str) -> None:
        """Reports a pass of a loop."""
        with self._lock:
            self._passes[loop] = monotonic_s()

    def forget(self, loop: str) -> None:
        """Removes a loop that has ended as planned."""
        with self._lock:
            self._limits.pop(loop, None)
            self._passes.pop(loop, None)

    def loops(self) -> dict[str, LoopState]:
        """Returns the state of every announced loop, by name."""
        with self._lock:
            now = monotonic_s()
            ages = {loop: (now - self._passes[loop], limit) for loop, limit in sorted(self._limits.items())}
        return {loop: LoopState(age <= limit, age, limit) for loop, (age, limit) in ages.items()}


_PROCESS = Liveness()
expect_loop = _PROCESS.expect
beat_loop = _PROCESS.beat
forget_loop = _PROCESS.forget
loop_states = _PROCESS.loops

HTTP_BEAT_S = 1
"""Seconds between two passes of an event loop that serves HTTP."""
HTTP_ALIVE_S = 30.0
"""Seconds without a pass after which such a loop counts as not alive, because a request blocks it."""


def beat_http() -> Awaitable[None]:
    """Reports a pass of the event loop `http`. uvicorn calls it (`callback_notify`, `timeout_notify`) and awaits the result."""
    expect_loop("http", HTTP_ALIVE_S)
    return asyncio.sleep(0)


_POLL_S = 0.2

ALIVE_S = 120.0
"""A loop counts as alive if its next pass comes within its interval plus this number of seconds. Even when
chain and DA are slow, a tick takes only a fraction of this time."""


DRAIN_S = 5.0
"""Seconds that a running tick or job may take to end after `stop` is set. A process must end within 10 s, even if it waits for a
dead service."""

FIRST_JOB_S = 60.0
"""Most seconds from the start of a process to the first run of a job. The time is short, so that a process that restarts often
still runs its jobs."""


CLOCK_STEP = timedelta(seconds=1)
"""Longest time by which a loop may run later because the wall clock was set back."""


class PeriodicJob(NamedTuple):
    """Work that runs beside the tick. Either it ends soon after `stop` is set, or it can be killed at any point without harm."""

    name: str
    """Name of the job's loop in logs and metrics."""
    run: Callable[[], None]
    every_s: float
    """Seconds between two runs."""


class _Loop:
    """The tick or a job, with its state. A thread of the scheduler writes the state, and the main thread reads it."""

    def __init__(self, name: str, tick: Callable[[], None]) -> None:
        self.name = name
        self.started_at: float | None = None
        self._tick = tick
        self._sound = True

    def run(self) -> None:
        if not self._sound:
            return  # after a `Bug` no tick may run, not even while the process is ending
        began, result = monotonic_s(), "bug"
        self._sound, self.started_at = False, began
        try:
            self._tick()
            self._sound, result = True, "ok"
            metrics.LOOP_SUCCESS.labels(loop=self.name).set(SystemClock().now())
        except (Fault, Unavailable) as error:
            self._sound, result = True, "failed"
            telemetry.log_error("tick.failed", error, loop=self.name)
        finally:
            self.started_at = None
            metrics.LOOP_RUNS.labels(loop=self.name, result=result).inc()
            metrics.LOOP_SECONDS.labels(loop=self.name).observe(monotonic_s() - began)
        beat_loop(self.name)

    def running_s(self) -> float:
        started = self.started_at
        return 0.0 if started is None else monotonic_s() - started


def stop_on_signals() -> threading.Event:
    """Returns an event that SIGTERM and SIGINT set. Call it in the main thread."""
    stop = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        # The signal handler may interrupt `stop.wait` while that call holds the event's lock, so another thread sets the event.
        threading.Thread(target=stop.set, daemon=True).start()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    return stop


def run_ticks(
    tick: Callable[[], None],
    every_s: float,
    stop: threading.Event,
    *,
    name: str = "tick",
    hung_after_s: float = 600.0,
    drain_s: float = DRAIN_S,
    jobs: Sequence[PeriodicJob] = (),
) -> int:
    """Runs `tick` at once and then every `every_s` seconds until `stop` is set, and `jobs` beside it. Returns the exit code.

    After `stop` the code is 0. A running tick or job has `drain_s` seconds to end, and is then abandoned (`entry_point.leave`),
    because its work survives a kill. After an error that is neither `Fault` nor `Unavailable` the code is `Exit.INTERNAL`. A tick
    that runs longer than `hung_after_s` seconds ends the process with `Exit.HUNG`, because nothing can stop a thread.
    """
    logging.getLogger("apscheduler").setLevel(logging.CRITICAL)  # our listener reports, with fields
    broken, loops = threading.Event(), [_Loop(name, tick), *(_Loop(job.name, job.run) for job in jobs)]

    def failed(event: JobExecutionEvent) -> None:
        telemetry.log_error("tick.bug", event.exception, loop=event.job_id, where=telemetry.raised_at(event.exception))
        broken.set()

    def late(event: JobEvent) -> None:
        metrics.LOOP_OVERRUNS.labels(loop=event.job_id).inc()

    scheduler = BackgroundScheduler(executors={"default": ThreadPoolExecutor(1), "jobs": ThreadPoolExecutor(1)}, timezone=UTC)
    scheduler.add_listener(failed, EVENT_JOB_ERROR)
    scheduler.add_listener(late, EVENT_JOB_MAX_INSTANCES)
    _add(scheduler, loops[0], every_s, 0.0, "default")
    for job, beside in zip(jobs, loops[1:], strict=True):
        _add(scheduler, beside, job.every_s, min(job.every_s, FIRST_JOB_S), "jobs")
    expect_loop(name, every_s + ALIVE_S)
    scheduler.start()
    while not stop.wait(_POLL_S) and not broken.is_set():
        _watch(scheduler, loops[0], hung_after_s)
    stop.set()  # set also after a `Bug`, because jobs check it
    _shut_down(scheduler, loops, drain_s)
    forget_loop(name)
    return Exit.INTERNAL if broken.is_set() else Exit.OK


def _watch(scheduler: BackgroundScheduler, loop: _Loop, hung_after_s: float) -> None:
    _run_what_is_due(scheduler)
    if loop.running_s() > hung_after_s:
        telemetry.log("tick.hung", loop=loop.name)
        os._exit(Exit.HUNG)


def _run_what_is_due(scheduler: BackgroundScheduler) -> None:
    """Runs each loop now whose next run is farther away than its interval.

    APScheduler plans by the wall clock. If somebody sets that clock back, for example by an hour, it would otherwise run nothing
    for an hour.
    """
    now = datetime.now(UTC)
    for job in scheduler.get_jobs():
        if job.next_run_time - now > job.trigger.interval + CLOCK_STEP:
            telemetry.log("tick.clock_set_back", loop=job.id, next_run_in_s=round((job.next_run_time - now).total_seconds()))
            job.modify(next_run_time=now)


def _add(scheduler: BackgroundScheduler, loop: _Loop, every_s: float, first_s: float, executor: str) -> None:
    metrics.LOOP_INTERVAL.labels(loop=loop.name).set(every_s)
    metrics.LOOP_SUCCESS.labels(loop=loop.name).set(SystemClock().now())  # a loop that never succeeds must be found too
    scheduler.add_job(
        loop.run, "interval", seconds=every_s, id=loop.name, executor=executor, max_instances=1, coalesce=True,
        misfire_grace_time=None, next_run_time=datetime.now(UTC) + timedelta(seconds=first_s),
    )  # fmt: skip


def _shut_down(scheduler: BackgroundScheduler, loops: Sequence[_Loop], drain_s: float) -> None:
    scheduler.pause()
    began, idle = monotonic_s(), threading.Event()
    while running := [loop.name for loop in loops if loop.started_at is not None]:
        if monotonic_s() - began > drain_s:
            telemetry.log("tick.abandoned", loops=running, after_s=drain_s)
            entry_point.abandon()
            break
        idle.wait(_POLL_S / 4)
    scheduler.shutdown(wait=not entry_point.is_abandoned())
