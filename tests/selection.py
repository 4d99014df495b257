"""`python -m tests.selection`: runs the test files nearest to what changed since `main`, for a limited time (`make quick`).

The nearest test files of a changed module import it. If there are none, those of the modules that import it are taken, and so on.
`make test` runs everything.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.file_times import turn
from tests.source import ROOT

BASE = "main"
LIMIT_S = 35
"""No test starts later than so many seconds after the first: lint and types take the rest of a minute."""

_IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import (?:\(([^)]*)\)|([^\n]*))|import ([^\n]*))", re.MULTILINE)
_TESTS = re.compile(r"tests/(?:unit/(?:\w+/)*)?test_\w+\.py")


def changed_files(root: Path = ROOT) -> set[str]:
    """Files that differ from where this branch left `main`, committed or not, and new ones."""
    base = _git(root, "merge-base", "HEAD", BASE) or ["HEAD"]
    return {*_git(root, "diff", "--name-only", base[0]), *_git(root, "ls-files", "--others", "--exclude-standard")}


def import_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Of each Python file those that it imports, by name and source text of all."""
    return {name: {file for module in _modules(text) if (file := _file_of(module, sources))} for name, text in sources.items()}


def nearest_tests(changed: Iterable[str], graph: Mapping[str, set[str]], texts: Mapping[str, str]) -> list[str]:
    """Test files for these changes: first those of several changes, or of a change that has few; last those that take long.

    A changed file that is not Python counts as the modules of its folder; without any, tests that name it are taken.
    """
    importers: dict[str, set[str]] = {name: set() for name in graph}
    for name, imported in graph.items():
        for each in imported:
            importers[each].add(name)
    weights: dict[str, float] = {}
    for file in sorted(changed):
        found = _near(file, importers, texts)
        for test in found:
            weights[test] = weights.get(test, 0.0) + 1 / len(found)
    return sorted(weights, key=lambda test: (-weights[test], -turn(test.removeprefix("tests/")), test))


class TimeLimit:
    """The pytest plugin that starts no test after so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def pytest_runtest_setup(self) -> None:
        """Skips what is left."""
        if time.monotonic() > self._end:
            pytest.skip("not run: time is up; `make test` runs it")


def main() -> int:
    """Prints which test files are chosen and runs them; the exit code of pytest, 0 if there are none."""
    names = _git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "*.py")
    sources = {name: (ROOT / name).read_text() for name in names if (ROOT / name).is_file()}
    changed = changed_files()
    tests = nearest_tests(changed, import_graph(sources), sources)
    print(f"    {len(changed)} files changed since {BASE}; test files: {' '.join(tests) or 'none'}", flush=True)
    if not tests:
        return 0
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        f"--within={LIMIT_S}",
        "--numprocesses=2",
        "--dist=loadfile",
        "--no-loadscope-reorder",
    ]
    return subprocess.run([sys.executable, "-m", "pytest", *options, *tests], cwd=ROOT, timeout=3600).returncode


def _near(file: str, importers: Mapping[str, set[str]], texts: Mapping[str, str]) -> set[str]:
    if _TESTS.fullmatch(file):
        return {file} & importers.keys()
    start = {file} if file in importers else {name for name in importers if Path(name).parent == Path(file).parent}
    start = {name for name in start if not name.endswith("/__init__.py")}
    seen, tests = set(start), set[str]()
    while start and not tests:
        start = {importer for each in start for importer in importers[each]} - seen
        tests = {each for each in start if _TESTS.fullmatch(each)}
        seen |= start
    name = Path(file).name
    return tests or {test for test, text in texts.items() if _TESTS.fullmatch(test) and name in text}


def _modules(text: str) -> set[str]:
    found = set[str]()
    for module, wrapped, names, plain in _IMPORT.findall(text):
        if module:
            found |= {module} | {f"{module}.{name.split()[0]}" for name in (wrapped or names).split(",") if name.split()}
        else:
            found |= {name.split()[0] for name in plain.split(",") if name.split()}
    return found


def _file_of(module: str, sources: Mapping[str, str]) -> str | None:
    stem = module.replace(".", "/")
    return next((name for name in (f"{stem}.py", f"{stem}/__init__.py") if name in sources), None)


def _git(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines() if done.returncode == 0 else []


if __name__ == "__main__":
    sys.exit(main())
