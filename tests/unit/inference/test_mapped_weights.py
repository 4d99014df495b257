"""Memory that weights are held in: huge pages, read-only, and a clear answer where there is not enough."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bytewise.inference import memory
from bytewise.inference.artifact import artifact
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.manifest import WEIGHTS_FILE
from bytewise.protocol.errors.actors import CannotExecute
from bytewise.protocol.records.statements import CannotReason


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


def test_writing_to_loaded_weights_ends_the_process(model: Artifact, tmp_path: Path) -> None:
    """Reading does not: the name is still printed."""
    folder = shutil.copytree(model.path, tmp_path / "copy")
    script = (
        "import sys, pathlib as p, bytewise.inference.artifact.artifact as a; loaded = a.load(p.Path(sys.argv[1]))\n"
        "weights = next(iter(loaded.tensors.values())); print(loaded.name, weights.max() >= weights.min(), flush=True)\n"
        "weights.fill_(1); print('written')"
    )
    done = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (-signal.SIGSEGV, "copy tensor(True)"), done.stderr


def test_weights_not_in_memory_are_no_mismatch(tmp_path: Path) -> None:
    script = (
        "import pathlib, resource, sys; from bytewise.inference.artifact import mapped_weights\n"
        "from bytewise.inference.manifest import ArtifactFile, FilePiece\n"
        "from bytewise.protocol.errors.actors import CannotExecute\n"
        "mapped = int(pathlib.Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**27, mapped + 2**27))\n"
        "big = ArtifactFile('big', (FilePiece('big', 2**28, bytes(32)),))\n"
        "try: mapped_weights.verified(pathlib.Path(sys.argv[1]), big, None)\n"
        "except CannotExecute as error: print(error)"
    )
    (tmp_path / "big").touch()
    os.truncate(tmp_path / "big", 2**28)
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and f"out of memory for big, {2**28} bytes" in done.stdout, done.stderr


def test_weights_beyond_the_machines_memory_are_refused_before_reading(
    model: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine being a control group that a test writes down."""
    size = next(file.size for file in model.manifest.files if file.name == WEIGHTS_FILE)
    (tmp_path / "membership").write_text("0::/small\n")
    (tmp_path / "small").mkdir()
    monkeypatch.setattr(memory, "MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    (tmp_path / "small/memory.max").write_text(str(size))
    assert artifact.load(model.path).model_id == model.model_id
    (tmp_path / "small/memory.max").write_text(str(size - 1))
    told: list[int] = []
    with pytest.raises(CannotExecute, match=f"{WEIGHTS_FILE} has {size} bytes, this process can have {size - 1}") as caught:
        artifact.load(model.path, lambda name, done, _total: told.append(done) if name == WEIGHTS_FILE else None)
    assert caught.value.values[1] is CannotReason.RESOURCES and told == []
