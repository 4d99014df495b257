"""Options and fixtures that every test may use."""

import gc
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.file_times import TESTS, FileTimes, is_long, turn
from tests.fixtures.chain.anvil import Anvil, running_anvil
from tests.selection import TimeLimit
from tests.skips import SkipPin


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--pin-skips`: compare skipped tests with tests/expected_skips.txt; for whole runs. `--court-walks`, `--plays`: number."""
    parser.addoption("--court-walks", type=int, default=1, help="walks through disputes beside the model of the court")
    parser.addoption("--plays", type=int, default=20, help="plays of the whole system with an operator that may lie")
    parser.addoption("--without-longest", action="store_true", help="leave out the files that only `make check` runs")
    parser.addoption("--within", type=float, help="start no test after so many seconds, and those that take long last")
    parser.addoption("--pin-skips", action="store_true", help="fail unless exactly the expected tests are skipped")


def pytest_configure(config: pytest.Config) -> None:
    """Starts counting skips where asked. No test asserts wall time, those with made-up examples included."""
    hypothesis.settings.register_profile("no-deadline", deadline=None)
    hypothesis.settings.load_profile("no-deadline")
    # A worker of pytest-xdist sees only its own share; the process that collects all reports counts.
    if config.getoption("--pin-skips") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipPin(is_long if config.getoption("--without-longest") else lambda _: False), "skip-pin")
        config.pluginmanager.register(FileTimes(), "file-times")
    if config.getoption("--within"):
        config.pluginmanager.register(TimeLimit(config.getoption("--within")), "time-limit")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out the longest files where asked, and the tests of a Ray cluster where there is no Ray (`make test-ray`)."""
    if collection_path == TESTS / "cluster" and importlib.util.find_spec("ray") is None:
        return True
    return True if config.getoption("--without-longest") and is_long(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files first (`--no-loadscope-reorder` keeps the order among processes). `--within`: in the order of the command."""
    if not config.getoption("--within"):
        items.sort(key=lambda item: turn(item.path.relative_to(TESTS).as_posix()))


def pytest_collection_finish() -> None:
    """What was imported and collected stays: enclaves, which search the heap for what a job left, need not read it each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    """A fresh chain that mines each transaction at once; its exit code is asserted."""
    with running_anvil() as chain:
        yield chain
