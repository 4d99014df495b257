"""Options and fixtures that every test may use."""

import gc
from collections.abc import Iterator

import hypothesis
import pytest

from tests.anvil import Anvil, running_anvil
from tests.skips import SkipPin

COMPUTING = ("inference", "protocol", "tee", "storage", "models", "bench")
"""Folders of what computes and waits for nobody: whole runs begin with it."""

LONG = (
    "test_operator_crash.py", "test_verify.py", "test_on_chain.py", "test_laws.py", "test_answers.py", "test_reorganisations.py",
    "test_gate.py", "test_operator_process.py", "test_doubt.py", "test_process.py", "test_sender.py", "test_court_walk.py",
    "test_convert.py", "test_sender_reorganisations.py", "test_walkthrough.py", "test_conformance.py", "test_layers.py",
    "test_court_on_chain.py", "test_many_claims.py", "test_native_refusals.py",
)  # fmt: skip
"""Files that take longest, longest first: whole runs end with them, so that no core ends long before another."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--pin-skips`: compare the skipped tests with tests/expected_skips.txt; for whole runs. `--court-walks`: how many."""
    parser.addoption("--court-walks", type=int, default=1, help="walks through disputes beside the model of the court")
    parser.addoption("--pin-skips", action="store_true", help="fail unless exactly the expected tests are skipped")


def pytest_configure(config: pytest.Config) -> None:
    """Starts counting skips where asked. No test asserts wall time, those with made-up examples included."""
    hypothesis.settings.register_profile("no-deadline", deadline=None)
    hypothesis.settings.load_profile("no-deadline")
    # A worker of pytest-xdist sees only its own share; the process that collects all reports counts.
    if config.getoption("--pin-skips") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipPin(), "skip-pin")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What computes first, long files last (`--no-loadscope-reorder` keeps the order among processes)."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.path.name in LONG:
        return 2 + LONG.index(item.path.name)
    return 0 if item.path.parent.name in COMPUTING else 1


def pytest_collection_finish() -> None:
    """What was imported and collected stays: enclaves, which search the heap for what a job left, need not read it each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    """A fresh chain that mines each transaction at once; its exit code is asserted."""
    with running_anvil() as chain:
        yield chain
