"""How `make bench-inference` builds the peers: what fails is found before the long compile, and a crash of theirs is left out."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.source import ROOT

AMX = "flags\t\t: fpu sse2 avx512f avx512_vnni amx_bf16 avx512_bf16 amx_tile amx_int8\n"
NO_AMX = ["-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16"]


def steps(tmp_path: Path, processor: str) -> list[str]:
    """The commands that build the peers from nothing on this processor, in order."""
    (tmp_path / "cpuinfo").write_text(processor)
    target = tmp_path / "venv" / ".installed"
    command = ["make", "--dry-run", f"PEERS={target.parent}", f"CPUINFO={tmp_path / 'cpuinfo'}", str(target)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()


def test_requirements_are_checked_before_anything_is_compiled(tmp_path: Path) -> None:
    found = steps(tmp_path, "flags\t\t: sse2 avx2\n")
    checks = [i for i, step in enumerate(found) if "pip check" in step]
    compiled = next(i for i, step in enumerate(found) if "CMAKE_ARGS" in step)
    assert checks[0] < compiled < checks[-1]


@pytest.mark.parametrize(("processor", "left_out"), [(AMX, True), (AMX.replace("amx_int8", ""), False), ("", False)])
def test_amx_is_left_out_where_the_processor_has_it(tmp_path: Path, processor: str, left_out: bool) -> None:
    (compiled,) = (step for step in steps(tmp_path, processor) if "CMAKE_ARGS" in step)
    assert [flag in compiled for flag in NO_AMX] == [left_out] * 3


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_peer_flags_undo_what_march_native_adds() -> None:
    """llama.cpp compiles its AMX product where `__AMX_INT8__` is defined, and adds `-march=native` after the given flags."""

    def macros(*flags: str) -> str:
        command = ["gcc", *flags, "-march=sapphirerapids", "-dM", "-E", "-x", "c", "/dev/null"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    assert "__AMX_INT8__" in macros() and "__AMX" not in macros(*NO_AMX)
    assert "__AVX512VNNI__" in macros(*NO_AMX)
