"""Readiness of a process: named checks, each with a value, a threshold and advice.

`/readyz` (`bytewise.service.listener`), `bytewise doctor` and the metric `bytewise_readiness` show the same records. A check is
either recorded at the place where its fact is known, for example by a duty tick from its snapshot, or computed by a function on
request. If a function does not answer in time, its check fails, so a request never hangs.

This module also has the checks that several actors share: the free space of the disk, the age of the chain's newest block, and
the machine's clock.
"""

import math
import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from bytewise.ports import Clock
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.evidence.appraisal_policy import TEST_CHAIN_IDS
from bytewise.service import metrics, telemetry
from bytewise.service.clock import monotonic_s


class Check(NamedTuple):
    """Result of one check."""

    name: str
    """Short name with underscores, for example `head_age`. It is a label of the metric."""
    ok: bool
    """Whether the process can do its work, according to this check."""
    value: str
    """The value that the check found, with its unit."""
    threshold: str
    """The required value, with its unit."""
    advice: str
    """What to do if the check fails, in one sentence."""

    def document(self) -> dict[str, Any]:
        """Returns the check as a JSON object."""
        return self._asdict()


CheckFunction = Callable[[], Check]
"""Function that computes a check. If it raises `BytewiseError`, the check fails."""

FRESH_S = 120.0
"""Seconds for which a recorded check is valid by default: several blocks, so that a slow chain does not make checks stale."""
CACHE_S = 2.0
"""Seconds for which the result of a function is used again, so that frequent requests cost nothing."""
ANSWER_S = 3.0
"""Longest time in seconds that a request waits for all functions together."""

_NO_ANSWER = "Look at the log of this process: what this check asks for does not answer."
_STALE = "Look at /livez and at the log: the loop that reports this check does not run."


class _Probe:
    """A check function with its last result. At most one thread runs the function, for any number of requests."""

    def __init__(self, name: str, function: CheckFunction) -> None:
        self.name = name
        self._function = function
        self._lock = threading.Lock()
        self._result: tuple[float, Check] | None = None
        self._running: threading.Event | None = None

    def start(self) -> threading.Event | None:
        """Starts the function unless its last result is new, or the function is running.

        Returns the event that is set at the end of the run. Returns None if the last result is new.
        """
        with self._lock:
            if self._result is not None and monotonic_s() - self._result[0] <= CACHE_S:
                return None
            if self._running is None:
                self._running = threading.Event()
                threading.Thread(target=self._run, args=(self._running,), name=f"check {self.name}", daemon=True).start()
            return self._running

    def result(self, is_done: bool) -> Check:
        """Returns the last result, or a failing check if the run that the caller waited for has not ended."""
        with self._lock:
            if self._result is None or not is_done:
                return Check(self.name, False, "no answer", f"an answer within {ANSWER_S:g} s", _NO_ANSWER)
            return self._result[1]

    def _run(self, done: threading.Event) -> None:
        try:
            found = self._function()
        except BytewiseError as error:
            found = Check(self.name, False, str(error), "an answer", _NO_ANSWER)
        except Exception as error:  # noqa: BLE001  the top of a thread: a defect of one check must not hide the others
            found = Check(self.name, False, f"defect: {type(error).__name__}", "an answer", "Report this as a defect.")
        with self._lock:
            self._result, self._running = (monotonic_s(), found), None
        done.set()


_STARTED = "the first pass is complete"


class ReadinessRegistry:
    """The checks of one process. Thread-safe.

    It begins with the check `started`, which fails until the method `started` is called.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        first = Check("started", False, "starting", _STARTED, "Wait; if it stays so, look at the log of this process.")
        self._recorded: dict[str, tuple[float, Check]] = {"started": (math.inf, first)}
        self._probes: dict[str, _Probe] = {}

    def add(self, name: str, function: CheckFunction) -> None:
        """Adds a check that `function` computes on request. Raises `ValueError` if another added check has this name."""
        with self._lock:
            if name in self._probes:
                raise ValueError(f"a check has the name {name} already")
            self._probes[name] = _Probe(name, function)

    def record(self, checks: Iterable[Check], fresh_s: float = FRESH_S) -> None:
        """Stores checks that a loop computed. A check counts as failed when it is older than `fresh_s` seconds.

        A check that begins to fail, or passes again, is logged once.
        """
        until = monotonic_s() + fresh_s
        with self._lock:
            before = dict(self._recorded)
            self._recorded.update({check.name: (until, check) for check in checks})
            new = [check for _, check in self._recorded.values()]
        for check in new:
            if check.name != "started":
                _log_change(before.get(check.name), check)

    def started(self) -> None:
        """Records that the process has done its work once, so that all checks have results."""
        self.record([Check("started", True, "started", _STARTED, "Nothing to do.")], math.inf)

    def checks(self) -> tuple[Check, ...]:
        """Returns all checks in order of their names.

        Waits at most `ANSWER_S` seconds for functions that run. The check of a function that has not ended by then fails.
        """
        with self._lock:
            recorded, probes = dict(self._recorded), tuple(self._probes.values())
        now = monotonic_s()
        found = [_fresh(check, until, now) for until, check in recorded.values()]
        runs = [(probe, probe.start()) for probe in probes]
        for probe, run in runs:
            left = max(now + ANSWER_S - monotonic_s(), 0.0)
            found.append(probe.result(run is None or run.wait(left)))
        for check in found:
            metrics.READY.labels(check=check.name).set(check.ok)
        return tuple(sorted(found))


def _log_change(before: tuple[float, Check] | None, check: Check) -> None:
    was_ok = before is None or before[1].ok
    if was_ok and not check.ok:
        telemetry.log("check.failed", check=check.name, found=check.value, must_be=check.threshold, do=check.advice)
    elif check.ok and not was_ok:
        telemetry.log("check.passed", check=check.name, found=check.value)


def _fresh(check: Check, until: float, now: float) -> Check:
    if now <= until:
        return check
    return Check(check.name, False, f"{check.value} ({now - until:.0f} s out of date)", check.threshold, _STALE)


def readiness_document(checks: Iterable[Check]) -> dict[str, Any]:
    """Returns the answer of `/readyz`: whether the process is ready, and every check, the failing ones first."""
    listed = sorted(checks, key=lambda check: (check.ok, check.name))
    return {"ready": all(check.ok for check in listed), "checks": [check.document() for check in listed]}


def rounded_ether(wei: int) -> str:
    """Returns an amount of wei as text in ether, with four digits."""
    return f"{wei / 10**18:.4g} ETH"


MIN_FREE_BYTES = 512 * 2**20
"""Free bytes below which a node is not ready. One day of a busy archive and SQLite's write-ahead log fit into them."""


def watch_disk(readiness: ReadinessRegistry, folder: Path) -> None:
    """Adds the readiness check `disk`, and sets the metrics of the file system that holds the process's data."""
    metrics.DISK_FREE.labels(path="data").set_function(lambda: _usage(folder)[0])
    metrics.DISK_SIZE.labels(path="data").set_function(lambda: _usage(folder)[1])
    readiness.add("disk", lambda: disk_check(folder))


def disk_check(folder: Path) -> Check:
    """Returns a check that fails if the file system of a folder has too little free space, or if the folder cannot be read."""
    free, _ = _usage(folder)
    if math.isnan(free):
        return Check(
            "disk", False, f"{folder} cannot be read", "a readable folder", "Look whether the disk is mounted, then start again."
        )
    do = "Free space or move the data: a full disk stops every duty."
    return Check("disk", free >= MIN_FREE_BYTES, f"{int(free) >> 20} MiB free", f"at least {MIN_FREE_BYTES >> 20} MiB", do)


def _usage(folder: Path) -> tuple[float, float]:
    """Returns the free and the total bytes of the folder's file system.

    Returns NaN for both if the folder is missing, because an error in one metric must not hide the others.
    """
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return math.nan, math.nan
    return usage.free, usage.total


MAX_AGE_S = 120
"""Largest age in seconds of the block from which a process decides: ten slots of Ethereum. With an older block the process is
not ready."""

MAX_AHEAD_S = 15
"""Most seconds by which a block may be dated after this machine's clock: one slot of Ethereum, and a small difference between
right clocks."""

_HEAD_ADVICE = "Look at the chain node: is it up, is it synchronised, and is this machine's clock right?"


class ChainHead:
    """The block from which the process last decided. The loop that reads the chain calls `note`. Thread-safe."""

    def __init__(self, clock: Clock, max_age_s: int = MAX_AGE_S, chain_id: int = 0) -> None:
        """Creates the object.

        On a test chain (`chain_id`) a block may be dated in the future, because the user of the chain chooses the times.
        """
        self._is_test_chain = chain_id in TEST_CHAIN_IDS
        self._clock = clock
        self._max_age_s = max_age_s
        self._lock = threading.Lock()
        self._timestamp: int | None = None

    def note(self, number: int, timestamp: int) -> None:
        """Records the number and the timestamp (Unix seconds) of the block from which the process now decides."""
        metrics.HEAD_BLOCK.set(number)
        metrics.HEAD_TIMESTAMP.set(timestamp)
        if not self._is_test_chain:
            metrics.CLOCK_OFFSET.labels(source="chain").set(timestamp - self._clock.now())
        with self._lock:
            self._timestamp = timestamp

    def add_checks(self, readiness: ReadinessRegistry) -> None:
        """Adds the readiness checks `head_age` and `clock`."""
        readiness.add("head_age", self.check)
        readiness.add("clock", self.clock_check)

    def age_s(self) -> int | None:
        """Returns the age of the block in seconds by this machine's clock. It is negative if the block is dated in the future.

        Returns None before the first block.
        """
        with self._lock:
            return None if self._timestamp is None else self._clock.now() - self._timestamp

    def clock_check(self) -> Check:
        """Returns a check that fails if no block was read, or if the block is dated too far after this machine's clock.

        A clock that is ahead of the chain is not found here, but by the check `head_age`.
        """
        age, threshold = self.age_s(), f"at most {MAX_AHEAD_S} s behind the newest block"
        value = "no block was read yet" if age is None else f"{max(-age, 0)} s behind"
        is_right = age is not None and (age >= -MAX_AHEAD_S or self._is_test_chain)
        return Check("clock", is_right, value, threshold, "Start NTP on this machine.")

    def check(self) -> Check:
        """Returns a check that fails if no block was read, or if the block is too old to decide from."""
        age, threshold = self.age_s(), f"at most {self._max_age_s} s"
        if age is None:
            return Check("head_age", False, "no block was read yet", threshold, _HEAD_ADVICE)
        return Check("head_age", age <= self._max_age_s, f"{age} s", threshold, _HEAD_ADVICE)
