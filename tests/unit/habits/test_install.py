"""`make install`: the interpreter is checked before a download, and an environment of another Python is made again."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = ("Makefile", "pyproject.toml", "constraints.txt")
WANTED = "3.11"


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


def test_checked_python_version_is_the_one_that_the_package_needs() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].startswith(f">={WANTED},")


@pytest.mark.parametrize("goal", ["install", "demo", "build/analysis-venv/.installed", "build/bench-venv/.plots"])
def test_another_python_is_refused_before_anything_is_downloaded_or_made(checkout: Path, goal: str) -> None:
    (checkout / "bench").mkdir()
    (checkout / "bench" / "peers.txt").touch()
    tools = checkout / "chain" / "contracts" / "tools"
    tools.mkdir(parents=True)
    (tools / "analysers.txt").touch()
    other = interpreter(checkout / "python3.12", "3.12")
    done = install(checkout, other, goal)
    assert done.returncode != 0 and "==>" not in done.stdout
    assert f"{other} is Python 3.12" in done.stderr and f"needs Python {WANTED}" in done.stderr
    assert f"PYTHON=/path/to/python{WANTED}" in done.stderr
    assert not (checkout / ".venv").exists() and not (checkout / "python3.12.asked").exists()


def test_missing_interpreter_is_named(checkout: Path) -> None:
    done = install(checkout, "/nowhere/python3.11")
    assert done.returncode != 0 and "/nowhere/python3.11 does not run" in done.stderr
    assert f"PYTHON=/path/to/python{WANTED}" in done.stderr and not (checkout / ".venv").exists()


def test_environment_of_another_python_is_rebuilt(checkout: Path) -> None:
    """As one was left by an earlier `make install PYTHON=python3.12`."""
    interpreter(checkout / ".venv" / "bin" / "python", "3.12")
    done = install(checkout, sys.executable)
    # Nothing can be installed here, and that is said by the new environment's own pip.
    assert done.returncode != 0 and "No matching distribution" in done.stderr + done.stdout, done.stderr
    asked = subprocess.run(
        [checkout / ".venv" / "bin" / "python", "-m", "pip", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert f"(python {WANTED})" in asked.stdout


def test_environment_that_another_python_cannot_repair_is_left_alone(checkout: Path) -> None:
    old = interpreter(checkout / ".venv" / "bin" / "python", "3.12")
    done = install(checkout, old)
    assert done.returncode != 0 and "is Python 3.12" in done.stderr and old.exists()
