"""Ticks in a real process: what ends it, and how."""

import json
import signal
import subprocess
import sys
import threading
from datetime import datetime, timedelta, tzinfo

import pytest
from apscheduler.schedulers import base
from apscheduler.triggers import interval

from bytewise.service import schedule
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import child_environment
from tests.source import ROOT

PROGRAM = """
import sys, threading
from bytewise.protocol.errors.actors import BadRequest, SecondVote, TryAgain
from bytewise.service import entry_point, metrics, schedule, telemetry

telemetry.configure("test", sys.stdout)
what, ticks = sys.argv[1], 0

def tick():
    global ticks
    ticks += 1
    print("tick", ticks, "alive", [name for name, loop in schedule.loop_states().items() if loop.alive], flush=True)
    if what in ("hang", "wait", "job"):
        threading.Event().wait(30)
    if what == "soft":
        raise TryAgain("rpc", "down") if ticks % 2 else BadRequest("x", "y")
    if ticks == 3:
        raise SecondVote("a", "b", 1) if what == "bug" else KeyError("unforeseen")

# Short only where a tick must be found hanging: nothing else may be taken for it on a busy machine.
bound_s = 0.5 if what == "hang" else 60.0
stop = schedule.stop_on_signals()
drain_s = 0.5 if what in ("wait", "job") else 60.0

def clean():
    raise KeyError("unforeseen")

jobs = [schedule.PeriodicJob("cleaning", clean, 0.2) if what == "job" else schedule.PeriodicJob("slow", int, 3600.0)]
code = schedule.run_ticks(tick, 0.05, stop, hung_after_s=bound_s, drain_s=drain_s, jobs=jobs)
entry_point.leave(code)
print(metrics.exposition(metrics.Actor.DA).decode(), schedule.loop_states(), flush=True)
sys.exit(code)
"""


def run(what: str, stop_after: int | None = None) -> tuple[int, str]:
    """Exit code and output; SIGTERM after that many ticks."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, what], cwd=ROOT, env=child_environment(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if stop_after is not None and line.startswith(f"tick {stop_after} "):
            process.send_signal(signal.SIGTERM)
    return process.wait(timeout=60), "".join(lines)


@pytest.mark.parametrize(("what", "error"), [("bug", "SecondVote"), ("unforeseen", "KeyError")])
def test_a_bug_ends_the_process(what: str, error: str) -> None:
    code, output = run(what)
    assert code == Exit.INTERNAL
    told = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert [(line["event"], line["error"]) for line in told] == [("tick.bug", error)]
    assert "tick 4" not in output


def test_faults_and_outages_are_counted_and_ticks_continue() -> None:
    """The loop is alive from its announcement to its end."""
    code, output = run("soft", stop_after=4)
    assert code == Exit.OK
    assert '"error":"TryAgain"' in output and '"error":"BadRequest"' in output
    assert 'bytewise_loop_runs_total{loop="tick",result="failed"} ' in output and 'topic="tick.failed"' in output
    assert 'bytewise_loop_seconds_count{loop="tick"} ' in output
    assert "tick 1 alive ['tick']" in output and output.rstrip().endswith(" {}")
    for loop, interval_s in (("tick", "0.05"), ("slow", "3600.0")):
        assert f'bytewise_loop_last_success_timestamp_seconds{{loop="{loop}"}}' in output, "also of one that never succeeded"
        assert f'bytewise_loop_interval_seconds{{loop="{loop}"}} {interval_s}' in output


def test_hanging_tick_ends_the_process() -> None:
    code, output = run("hang")
    assert code == Exit.HUNG and "tick.hung" in output and "tick 2" not in output


def test_sigterm_during_a_waiting_tick_ends_the_process_with_code_0() -> None:
    code, output = run("wait", stop_after=1)
    assert code == Exit.OK and "tick.abandoned" in output and "tick 2" not in output


def test_bug_of_a_job_beside_a_waiting_tick_ends_the_process() -> None:
    code, output = run("job")
    assert code == Exit.INTERNAL and "tick 2" not in output
    assert '"event":"tick.bug"' in output and '"loop":"cleaning"' in output


class SteppedClock(datetime):
    """The wall clock, which a test sets forward and back."""

    ahead = timedelta()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "SteppedClock":
        return cls.fromtimestamp((datetime.now(tz) + cls.ahead).timestamp(), tz)


def test_ticks_and_jobs_go_on_after_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A soak's member did nothing for the hour by which its clock had been ahead, and missed its seats."""
    for module in (base, interval, schedule):
        monkeypatch.setattr(module, "datetime", SteppedClock)
    ran, stop = {"tick": threading.Semaphore(0), "job": threading.Semaphore(0)}, threading.Event()
    jobs = [schedule.PeriodicJob("job", ran["job"].release, 0.1)]
    thread = threading.Thread(target=schedule.run_ticks, args=(ran["tick"].release, 0.1, stop), kwargs={"jobs": jobs})
    monkeypatch.setattr(SteppedClock, "ahead", timedelta(hours=1))
    thread.start()
    try:
        for each in ran.values():
            assert all(each.acquire(timeout=30.0) for _ in range(3))
        monkeypatch.setattr(SteppedClock, "ahead", timedelta())
        for each in ran.values():
            assert all(each.acquire(timeout=30.0) for _ in range(3)), "the loop stands still"
    finally:
        stop.set()
        thread.join(30.0)
    assert not thread.is_alive()
