"""Memory that weights are held in: huge pages, read-only, and a clear answer where there is not enough."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bytewise.inference import artifact
from bytewise.inference.artifact import Artifact


def test_weights_ask_for_huge_pages(model: Artifact) -> None:
    loaded = artifact.load(model.path)
    address = next(iter(loaded.tensors.values())).data_ptr()
    assert "hg" in flags_of(address), "the advice is kept by every kernel, also where it has no such pages to give"


def flags_of(address: int) -> list[str]:
    """What the kernel says of the pages around an address (proc(5), smaps)."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head, *rest = line.split()
        if "-" in head and not head.endswith(":"):
            low, high = (int(each, 16) for each in head.split("-"))
            inside = low <= address < high
        elif inside and head == "VmFlags:":
            return rest
    raise AssertionError("no such pages")


@pytest.mark.parametrize(
    ("doing", "code", "said"),
    [("next(iter(loaded.tensors.values())).fill_(1)", -signal.SIGSEGV, ""), ("print(loaded.name)", 0, "copy")],
)
def test_writing_to_loaded_weights_ends_the_process(model: Artifact, tmp_path: Path, doing: str, code: int, said: str) -> None:
    folder = shutil.copytree(model.path, tmp_path / "copy")
    script = f"import sys, pathlib as p, bytewise.inference.artifact as a; loaded = a.load(p.Path(sys.argv[1])); {doing}"
    done = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (code, said), done.stderr


def test_weights_that_memory_does_not_hold_are_no_mismatch(tmp_path: Path) -> None:
    script = (
        "import pathlib, resource, sys; from bytewise.inference import held\n"
        "from bytewise.inference.manifest import ArtifactFile, Piece\n"
        "from bytewise.protocol.errors import CannotExecute\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))\n"
        "try: held.verified(pathlib.Path(sys.argv[1]), ArtifactFile('big', (Piece('big', 2**35, bytes(32)),)), None)\n"
        "except CannotExecute as error: print(error)"
    )
    (tmp_path / "big").touch()
    os.truncate(tmp_path / "big", 2**35)
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and f"out of memory for big, {2**35} bytes" in done.stdout, done.stderr
