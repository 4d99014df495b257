"""Whole runs begin with the files that take longest (`tests/file_times.py`)."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.file_times import LONGEST, TESTS, FileTimes, is_long, turn
from tests.skips import SkipPin


def report(name: str, seconds: float) -> pytest.TestReport:
    """What pytest says of a test that passed."""
    return pytest.TestReport(name, (name, 1, name), {}, "passed", None, "call", duration=seconds)


def test_every_long_file_is_there_once() -> None:
    assert [file for file in LONGEST if not (TESTS / file).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)


def test_long_files_come_first_and_others_in_their_order() -> None:
    files = ["a.py", LONGEST[1], "b.py", LONGEST[0]]
    assert sorted(files, key=turn) == [LONGEST[0], LONGEST[1], "a.py", "b.py"]


def test_file_time_is_the_sum_of_its_tests_and_unlisted_long_file_is_named() -> None:
    times = FileTimes()
    for name, seconds in (("tests/a.py::one", 2.0), (f"tests/{LONGEST[0]}::two", 3.0), ("tests/a.py::three[x::y]", 2.0)):
        times.pytest_runtest_logreport(report(name, seconds))
    assert times.seconds == {"a.py": 4.0, LONGEST[0]: 3.0}
    lines: list[str] = []

    class Reporter:
        """Takes lines."""

        def section(self, title: str) -> None:
            lines.append(title)

        def write_line(self, line: str) -> None:
            lines.append(line)

    reporter: Any = Reporter()
    times.pytest_terminal_summary(reporter)
    assert lines == ["files that took longest", "   4.0 s  a.py  (not in LONGEST)", f"   3.0 s  {LONGEST[0]}"]


def test_listed_unit_tests_are_left_out_and_pin_no_skip(capsys: pytest.CaptureFixture[str]) -> None:
    left_out = {file for file in LONGEST if is_long(TESTS / file)}
    assert left_out == {file for file in LONGEST if file.startswith("unit/")} and len(left_out) > 40
    assert not is_long(TESTS / "test_layers.py") and not is_long(TESTS / "unit/tooling/test_file_times.py")
    for without, told in ((True, "expected lines 0"), (False, "in expected_skips.txt, but not skipped")):
        pin, session = (
            SkipPin({True: lambda _: True, False: lambda _: False}[without]),
            SimpleNamespace(exitstatus=pytest.ExitCode.OK),
        )
        pin.pytest_sessionfinish(session)  # type: ignore[arg-type]
        assert told in capsys.readouterr().out and (session.exitstatus == pytest.ExitCode.OK) == without
