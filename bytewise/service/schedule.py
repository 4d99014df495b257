"""Periodic work: `run_ticks` runs a tick at an interval until it is told to stop, and ends the process on a `Bug`.

APScheduler runs one instance at a time and coalesces missed runs. A `Fault` or `Unavailable` that leaves a tick is logged and
counted, and the next tick recomputes. Any other error means that we are wrong, so the process stops.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, JobEvent, JobExecutionEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.service import liveness, metrics, telemetry
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.service.exit_codes import Exit

_POLL_S = 0.2

ALIVE_S = 120.0
"""Seconds beyond its interval in which a loop that lives has passed: several times what a slow chain and DA may cost a tick."""


class _Loop:
    """One tick with its state. The scheduler's thread writes it, and the main thread reads it."""

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
        liveness.beat(self.name)

    def running_s(self) -> float:
        started = self.started_at
        return 0.0 if started is None else monotonic_s() - started


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set. Call it in the main thread."""
    stop = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        # A handler may interrupt `stop.wait` while it holds the event's lock, so another thread sets it.
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
    drain_s: float = 30.0,
) -> int:
    """Runs `tick` at once and then every `every_s` seconds until `stop`. Returns the exit code of the process.

    0 after `stop` (a running tick may end within `drain_s`), `Exit.INTERNAL` after an error that is neither `Fault` nor
    `Unavailable`. A tick longer than `hung_after_s` ends the process with `Exit.HUNG`, because nothing can stop a thread.
    """
    logging.getLogger("apscheduler").setLevel(logging.CRITICAL)  # our listener reports, with fields
    loop, broken = _Loop(name, tick), threading.Event()

    def failed(event: JobExecutionEvent) -> None:
        telemetry.log_error("tick.bug", event.exception, loop=name, where=_last_line(event.exception))
        broken.set()

    def late(_event: JobEvent) -> None:
        metrics.LOOP_OVERRUNS.labels(loop=name).inc()

    scheduler = BackgroundScheduler(executors={"default": ThreadPoolExecutor(1)}, timezone=UTC)
    scheduler.add_listener(failed, EVENT_JOB_ERROR)
    scheduler.add_listener(late, EVENT_JOB_MAX_INSTANCES)
    scheduler.add_job(
        loop.run, "interval", seconds=every_s, max_instances=1, coalesce=True, misfire_grace_time=None,
        next_run_time=datetime.now(UTC),
    )  # fmt: skip
    liveness.expect(name, every_s + ALIVE_S)
    scheduler.start()
    while not stop.wait(_POLL_S) and not broken.is_set():
        if loop.running_s() > hung_after_s:
            _abandon(name)
    _shut_down(scheduler, loop, drain_s)
    liveness.forget(name)
    return Exit.INTERNAL if broken.is_set() else Exit.OK


def _shut_down(scheduler: BackgroundScheduler, loop: _Loop, drain_s: float) -> None:
    scheduler.pause()
    waited, idle = monotonic_s(), threading.Event()
    while loop.started_at is not None:
        if monotonic_s() - waited > drain_s:
            _abandon(loop.name)
        idle.wait(_POLL_S / 4)
    scheduler.shutdown(wait=True)


def _abandon(name: str) -> None:
    telemetry.log("tick.hung", loop=name)
    os._exit(Exit.HUNG)


def _last_line(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
