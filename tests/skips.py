"""Counts skipped tests, prints them, and fails a whole run whose skips are not the expected ones (`make test`, `make check`).

`tests/expected_skips.txt` has one test per line, or one function or module for all its tests; lines under `[without NAME]` count
only where the environment variable NAME is unset. Those under `[without compiler]` count where the C engine is not built and
could not be, those under `[without promtool]` or another of `PROGRAMS` where that program is not installed, and those under
`[without mount]` where no file system can be mounted. A test that stops running is then a failure, never a smaller number that
nobody reads.
"""

import os
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = ("promtool", "prometheus-alertmanager", "chromium", "firefox-esr")
"""Programs without which some tests are skipped."""

EXPECTED = Path(__file__).parent / "expected_skips.txt"


def expected_skips(text: str, environment: frozenset[str]) -> frozenset[str]:
    """Node ids, or beginnings of them, that may be skipped, given the names of the set environment variables."""
    found, counts = set(), True
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("["):
            counts = line.removeprefix("[without ").removesuffix("]") not in environment
        elif line and counts:
            found.add(line)
    return frozenset(found)


def differences(skipped: frozenset[str], expected: frozenset[str]) -> list[str]:
    """What to tell the reader of a run whose skips are not the expected ones."""
    found = {name: _line_of(name, expected) for name in skipped}
    unexpected = [f"skipped, but not in expected_skips.txt: {name}" for name in sorted(found) if found[name] is None]
    unused = sorted(expected - set(found.values()))
    return unexpected + [f"in expected_skips.txt, but not skipped: {name}" for name in unused]


def may_mount() -> bool:
    """Whether this process has CAP_SYS_ADMIN, with which it may mount a file system."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> 21 & 1)


def surroundings() -> frozenset[str]:
    """Names of the set environment variables, `compiler` where the C engine is built or could be, `mount`, and installed
    `PROGRAMS`."""
    library = (EXPECTED.parents[1] / "bytewise/inference/native").glob("_engine*.so")
    command = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    # A compiler without an engine is no excuse: then the build is broken.
    found = {"compiler"} if any(library) or shutil.which(command) else set()
    found |= {"mount"} if may_mount() else set()
    return frozenset(os.environ) | found | {program for program in PROGRAMS if shutil.which(program)}


def _line_of(name: str, expected: frozenset[str]) -> str | None:
    parts = (name, name.partition("[")[0], name.partition("::")[0])
    return next((part for part in parts if part in expected), None)


class SkipPin:
    """The pytest plugin; only active with `--pin-skips`."""

    def __init__(self, is_left_out: Callable[[Path], bool]) -> None:
        """`is_left_out` says which files this run leaves out: nothing of them can be skipped."""
        self.skipped: set[str] = set()
        self._is_left_out = is_left_out

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a skipped test; an expected failure is not one."""
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notes a module that is skipped as a whole."""
        if report.skipped:
            self.skipped.add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Prints the count and fails a run that had other skips than the expected ones."""
        lines = expected_skips(EXPECTED.read_text(), surroundings())
        expected = frozenset(line for line in lines if not self._is_left_out(EXPECTED.parents[1] / line.partition("::")[0]))
        wrong = differences(frozenset(self.skipped), expected)
        print(f"\n\nskipped tests: {len(self.skipped)}, expected lines {len(expected)}")
        for line in wrong:
            print(line)
        if wrong and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
