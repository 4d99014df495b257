"""Counts skipped tests, prints them, and fails a whole run whose skips are not the expected ones (`make test`).

`tests/expected_skips.txt` has one test per line; lines under `[without NAME]` count only where the environment variable NAME
is unset. A test that stops running is then a failure, never a smaller number that nobody reads.
"""

import os
from pathlib import Path

import pytest

EXPECTED = Path(__file__).parent / "expected_skips.txt"


def expected_skips(text: str, environment: frozenset[str]) -> frozenset[str]:
    """Node ids that may be skipped, given the names of the set environment variables."""
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
    unexpected = [f"skipped, but not in expected_skips.txt: {name}" for name in sorted(skipped - expected)]
    return unexpected + [f"in expected_skips.txt, but not skipped: {name}" for name in sorted(expected - skipped)]


class SkipPin:
    """The pytest plugin; only active with `--pin-skips`."""

    def __init__(self) -> None:
        self.skipped: set[str] = set()

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
        expected = expected_skips(EXPECTED.read_text(), frozenset(os.environ))
        wrong = differences(frozenset(self.skipped), expected)
        print(f"\n\nskipped tests: {len(self.skipped)}, expected {len(expected)}")
        for line in wrong:
            print(line)
        if wrong and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
