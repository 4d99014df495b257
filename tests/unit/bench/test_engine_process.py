"""A measured engine is a process: it answers, or its end is reported with what it printed."""

import sys
from pathlib import Path

import pytest

from bench.child import Child, ChildFailed
from bench.worker import CLOCK

ENGINE = """
import sys
import time
from bench.worker import serve

class Doubling:
    name = "doubling 2.0"
    def generate(self, prompt, count):
        print("noise of a library")
        time.sleep(prompt[0] - 3)
        return [2 * prompt[0]] * (count if count < 9 else 8)
    def prepare(self, claims):
        self.claims = claims
    def judge(self, claims, together):
        if self.claims != claims:
            sys.exit("not prepared")
        if together:
            sys.exit("one at a time")
    def logits(self, tokens):
        return [0.5, tokens[-1]]

block = []
serve(lambda: block.append(b"x" * 50_000_000) or Doubling())
"""


@pytest.fixture
def engine(tmp_path: Path) -> list[str | Path]:
    (tmp_path / "engine.py").write_text(ENGINE)
    return [sys.executable, "-c", f"import runpy; runpy.run_path({str(tmp_path / 'engine.py')!r})"]


def test_an_engine_answers_whatever_its_libraries_print(engine: list[str | Path]) -> None:
    with Child("doubling", engine) as child:
        assert child.engine == "doubling 2.0"
        assert child.generate([3], 2) >= 0
        assert child.judge([([1, 2], 3)]) >= 0
        assert child.logits([7]) == [0.5, 7.0]


def test_cpu_time_measurement_excludes_waiting(engine: list[str | Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLOCK, "processor")
    with Child("doubling", engine) as child:
        assert child.generate([4], 2) < 1, "it slept for a second"


def test_memory_is_what_loading_added(engine: list[str | Path]) -> None:
    with Child("doubling", engine) as child:
        assert 50_000_000 <= child.memory() < 70_000_000


def test_an_engine_that_stops_early_is_not_timed(engine: list[str | Path]) -> None:
    with Child("doubling", engine) as child, pytest.raises(ChildFailed, match="gave 8 tokens, not 9"):
        child.generate([3], 9)


def test_error_of_an_ended_engine_is_reported_with_its_message(engine: list[str | Path]) -> None:
    with Child("doubling", engine) as child:
        with pytest.raises(ChildFailed, match=r"doubling ended with 1:\n(.*\n)*one at a time"):
            child.judge([([1], 1)], together=True)
        with pytest.raises(ChildFailed, match="doubling ended"):
            child.memory()


def test_an_engine_that_does_not_start_is_reported() -> None:
    with pytest.raises(ChildFailed, match="no such model"):
        Child("broken", [sys.executable, "-c", "raise SystemExit('no such model')"])
