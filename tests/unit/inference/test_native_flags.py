"""The C engine as it is built: no flag of the environment makes floats associative, or contracts them."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bytewise.inference.known_answers.operations import MODEL_DIGESTS
from bytewise.service.settings import child_environment
from tests.source import ROOT

COMPILER = shutil.which("gcc") or shutil.which("cc")

FAST = "-Ofast -ffast-math -funsafe-math-optimizations -fassociative-math -freciprocal-math -ffinite-math-only -ffp-contract=fast"

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no compiler here: the C engine was not built")

Lines = list[list[str]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Lines]:
    """The package with an engine that was built under `FAST`, and the arguments of each call of the compiler."""
    folder = tmp_path_factory.mktemp("flags")
    log, compiler = folder / "calls", folder / "compiler"
    compiler.write_text(f'#!/bin/sh\necho "$*" >> {shlex.quote(str(log))}\nexec {COMPILER} "$@"\n')
    compiler.chmod(0o755)
    shutil.copytree(ROOT / "bytewise", folder / "bytewise", ignore=shutil.ignore_patterns("*.so"))
    shutil.copy(ROOT / "setup.py", folder)
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", "--force"], cwd=folder, capture_output=True, text=True,
        env=child_environment({"PATH": os.environ["PATH"], "CC": str(compiler), "CFLAGS": FAST}), timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, [line.split() for line in log.read_text().splitlines()]


def last(line: list[str], *flags: str) -> str:
    """Which of some flags that exclude each other is the last on a line, and so is obeyed."""
    return next(flag for flag in reversed(line) if flag in flags)


def test_our_compiler_flags_come_after_those_of_the_environment(built: tuple[Path, Lines]) -> None:
    lines = built[1]
    compiled, linked = [line for line in lines if "-c" in line], [line for line in lines if "-shared" in line]
    assert len(compiled) == len(list((ROOT / "bytewise/inference/native").glob("*.c"))) and len(linked) == 1
    for line in lines:
        # In the linker's line, too: for these, some compilers add an object that switches subnormals off when it is loaded.
        assert set(FAST.split()) <= set(line)
        assert last(line, "-O0", "-O1", "-O2", "-O3", "-Ofast") == "-O3"
        assert last(line, "-ffast-math", "-fno-fast-math") == "-fno-fast-math"
        assert last(line, "-funsafe-math-optimizations", "-fno-unsafe-math-optimizations") == "-fno-unsafe-math-optimizations"
    for line in compiled:
        # In some compilers `-fno-fast-math` gives contraction its default back: ours comes after it.
        assert last(line, "-ffp-contract=fast", "-ffp-contract=off", "-fno-fast-math") == "-ffp-contract=off"
        assert max(map(line.index, FAST.split())) < line.index("-fno-fast-math")


def test_compiler_reports_no_fast_math_flag(built: tuple[Path, Lines]) -> None:
    """What the preprocessor tells programs of the line's flags."""
    line = next(line for line in built[1] if "-c" in line)
    flags = [flag for flag in line if flag.startswith(("-O", "-f"))]
    assert COMPILER is not None
    told = subprocess.run(
        [COMPILER, *flags, "-dM", "-E", "-x", "c", "/dev/null"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    macros = dict(text.split(maxsplit=2)[1:] for text in told.splitlines() if len(text.split()) > 2)
    assert macros["__FINITE_MATH_ONLY__"] == "0"
    assert not macros.keys() & {"__FAST_MATH__", "__ASSOCIATIVE_MATH__", "__RECIPROCAL_MATH__", "__NO_SIGNED_ZEROS__"}


def test_engine_built_under_fast_math_flags_changes_no_floats(built: tuple[Path, Lines]) -> None:
    program = (
        "import torch\n"
        "from bytewise.inference.known_answers import known_models as k\n"
        "from bytewise.inference.determinism import fixed\n"
        "from bytewise.inference.native.path import NativePath, missing_feature\n"
        "from bytewise.inference.native.library import kernels\n"
        "for kernel in kernels():\n"
        "    for name in k.KNOWN_MODELS:\n"
        "        if missing_feature(k.KNOWN_MODELS[name].architecture) is None:\n"
        "            with fixed(1):\n"
        "                print(name, k.digest_on(NativePath(k.built_model(name), kernel=kernel)).hex(), sep=',')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=built[0], env=child_environment({"PATH": os.environ["PATH"]}), capture_output=True,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [line.split(",") for line in done.stdout.splitlines() if "," in line]
    rows = [(",".join(name), digest) for *name, digest in found]
    assert len(rows) >= 3
    assert all(digest == MODEL_DIGESTS[name].hex() for name, digest in rows)
