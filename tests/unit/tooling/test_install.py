"""`make install`: the interpreter is checked before a download, and an environment of another Python is made again."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = ("Makefile", "pyproject.toml", "constraints.txt")
RANGE = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
assert RANGE, "the Makefile reads it like this"
OLDEST, NEWEST = int(RANGE[1]), int(RANGE[2]) - 1
NEEDS = f"Bytewise needs Python 3.{OLDEST} to 3.{NEWEST}. Nothing was downloaded"
OTHERS = [f"3.{OLDEST - 1}", f"3.{NEWEST + 1}", "2.7"]
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What `make install` reads first."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def interpreter(path: Path, version: str) -> Path:
    """One of another version; it says which, and can do nothing else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\ncase "$1" in -c) echo {version};; *) echo "$@" >> {path}.asked; exit 1;; esac\n')
    path.chmod(0o755)
    return path


def install(checkout: Path, python: Path | str, goal: str = "install") -> "subprocess.CompletedProcess[str]":
    """Without an index: what would be downloaded is refused by pip instead."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "MAKE", "MFLAGS"))}
    command = ["make", goal, f"PYTHON={python}"]
    environment = {**kept, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=300)


def test_tools_check_for_the_oldest_python() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert (tools["mypy"]["python_version"], tools["ruff"]["target-version"]) == (f"3.{OLDEST}", f"py3{OLDEST}")


@pytest.mark.parametrize(
    ("goal", "version"),
    [
        *(("install", each) for each in OTHERS),
        *((goal, OTHERS[0]) for goal in ("demo", "build/analysis-venv/.installed", "build/bench-venv/.plots")),
    ],
)
def test_another_python_is_refused_before_anything_is_downloaded_or_made(checkout: Path, goal: str, version: str) -> None:
    (checkout / "bench").mkdir()
    (checkout / "bench" / "peers.txt").touch()
    tools = checkout / "chain" / "contracts" / "tools"
    tools.mkdir(parents=True)
    (tools / "analysers.txt").touch()
    other = interpreter(checkout / "python-other", version)
    done = install(checkout, other, goal)
    assert done.returncode != 0 and "==>" not in done.stdout
    assert f"{other} is Python {version}; {NEEDS}" in done.stderr
    assert f"make {goal} PYTHON=/path/to/python3.{OLDEST}" in done.stderr
    assert not (checkout / ".venv").exists() and not (checkout / "python-other.asked").exists()


def test_missing_interpreter_is_named(checkout: Path) -> None:
    done = install(checkout, "/nowhere/python3.11")
    assert done.returncode != 0 and f"/nowhere/python3.11 does not run; {NEEDS}" in done.stderr
    assert not (checkout / ".venv").exists()


def test_environment_of_another_python_is_rebuilt(checkout: Path) -> None:
    """As a `.venv` was left by another Python of the machine."""
    interpreter(checkout / ".venv" / "bin" / "python", OTHERS[0])
    done = install(checkout, sys.executable)
    # Nothing can be installed here, and that is said by the new environment's own pip.
    assert done.returncode != 0 and "No matching distribution" in done.stderr + done.stdout, done.stderr
    asked = subprocess.run(
        [checkout / ".venv" / "bin" / "python", "-m", "pip", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert f"(python {HERE})" in asked.stdout


def test_environment_that_another_python_cannot_repair_is_left_alone(checkout: Path) -> None:
    old = interpreter(checkout / ".venv" / "bin" / "python", OTHERS[0])
    done = install(checkout, old)
    assert done.returncode != 0 and f"is Python {OTHERS[0]}" in done.stderr and old.exists()


@pytest.mark.parametrize("minor", range(OLDEST, NEWEST + 1))
def test_environment_of_any_python_in_the_range_is_kept(checkout: Path, minor: int) -> None:
    old = interpreter(checkout / ".venv" / "bin" / "python", f"3.{minor}")
    install(checkout, "/nowhere/python3.11")
    assert old.exists() and "pip install" in Path(f"{old}.asked").read_text()


def test_the_first_python_that_fits_is_taken(checkout: Path) -> None:
    names = [interpreter(checkout / f"python-{version}", version) for version in (*OTHERS, f"3.{NEWEST}", f"3.{OLDEST}")]
    install(checkout, " ".join(map(str, names)))
    assert [name for name in names if Path(f"{name}.asked").exists()] == [names[-2]]
