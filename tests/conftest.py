"""Options and fixtures that every test may use."""

from collections.abc import Iterator

import hypothesis
import pytest

from tests.anvil import Anvil, running_anvil
from tests.skips import SkipPin

LONG = (
    "test_operator_crash.py", "test_walkthrough.py", "test_verify.py", "test_on_chain.py", "test_process.py", "test_doubt.py",
    "test_operator_process.py", "test_court_walk.py", "test_laws.py", "test_gate.py", "test_court_on_chain.py", "test_sender.py",
    "test_convert.py", "test_native_refusals.py", "test_sender_reorganisations.py",
)  # fmt: skip
"""Files that take longest, longest first: whole runs begin with them, or one core would end with one of them alone."""


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
    """Long files first (`--no-loadscope-reorder` keeps the order among processes)."""
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    """A fresh chain that mines each transaction at once; its exit code is asserted."""
    with running_anvil() as chain:
        yield chain
