"""`make quick` runs the test files nearest to what changed (`tests/selection.py`)."""

import subprocess
from pathlib import Path

import pytest

from tests.file_times import LONGEST
from tests.selection import TimeLimit, changed_files, import_graph, nearest_tests

LONG = f"tests/{LONGEST[0]}"
SOURCES = {
    "app/__init__.py": "",
    "app/core.py": "import json\n",
    "app/top.py": "def late():\n    from app.core import (\n        one,\n        two,\n    )\n",
    "app/alone.py": "",
    "tests/helper.py": "from app import alone\n",
    "tests/unit/test_core.py": "import app.core as core, os\n",
    "tests/unit/test_helped.py": "from tests.helper import thing\n",
    "tests/unit/test_names.py": "NAME = 'words.txt'\n",
    "tests/unit/test_top.py": "from app import top\nfrom app import core\n",
    LONG: "from app.core import one\n",
}
GRAPH = import_graph(SOURCES)


def test_graph_has_late_wrapped_and_package_imports() -> None:
    assert GRAPH["app/top.py"] == {"app/core.py"}
    assert GRAPH["tests/unit/test_core.py"] == {"app/core.py"}
    assert GRAPH["tests/unit/test_top.py"] == {"app/__init__.py", "app/top.py", "app/core.py"}


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        (["app/core.py"], ["tests/unit/test_core.py", "tests/unit/test_top.py", LONG]),
        (["app/top.py", "app/core.py"], ["tests/unit/test_top.py", "tests/unit/test_core.py", LONG]),
        (["app/alone.py"], ["tests/unit/test_helped.py"]),
        (["tests/helper.py"], ["tests/unit/test_helped.py"]),
        (["tests/unit/test_top.py"], ["tests/unit/test_top.py"]),
        (["tests/unit/test_gone.py", "README.md"], []),
        (["words.txt"], ["tests/unit/test_names.py"]),
        (["app/engine.c"], ["tests/unit/test_core.py", "tests/unit/test_top.py", LONG]),
    ],
)
def test_nearest_tests_come_first_and_long_ones_last(changed: list[str], tests: list[str]) -> None:
    assert nearest_tests(changed, GRAPH, SOURCES) == tests


def test_changes_are_those_since_main_and_new_files(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        names = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *names, *arguments], cwd=tmp_path, check=True, capture_output=True, timeout=60)

    git("init", "-q", "-b", "main")
    for name in ("kept", "edited", "committed"):
        (tmp_path / name).write_text("before")
    git("add", ".")
    git("commit", "-qm", "first")
    assert changed_files(tmp_path) == set()
    git("checkout", "-qb", "work")
    (tmp_path / "committed").write_text("after")
    git("commit", "-qam", "second")
    (tmp_path / "edited").write_text("after")
    (tmp_path / "new").write_text("")
    assert changed_files(tmp_path) == {"committed", "edited", "new"}


def test_no_test_starts_when_time_is_up() -> None:
    TimeLimit(60.0).pytest_runtest_setup()
    with pytest.raises(pytest.skip.Exception, match="time is up"):
        TimeLimit(-1.0).pytest_runtest_setup()
