"""What the C engine refuses, what it leaves behind, and life without it."""

import dataclasses
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.determinism import fixed
from bytewise.inference.known_answers import known_models
from bytewise.inference.known_answers.operations import MODEL_DIGESTS
from bytewise.inference.native.backend import product
from bytewise.inference.native.library import ThreadPool, kernels, library
from bytewise.inference.native.path import NativePath
from bytewise.protocol.errors.actors import ArtifactMismatch, CannotExecute
from bytewise.protocol.errors.records import OutsideLimits
from bytewise.service.clock import monotonic_s
from tests.fixtures.inference.head_rows import forced, text

ROOT = Path(__file__).resolve().parents[3]
NATIVE = ROOT / "bytewise/inference/native"

needs_engine = pytest.mark.skipif(not kernels(), reason="no compiler here: the C engine was not built")


@pytest.fixture()
def model() -> Artifact:
    """A model in memory: two layers, width 24, vocabulary 64, context 256."""
    return known_models.built_model("bias and window")


@pytest.fixture()
def path(model: Artifact) -> Iterator[NativePath]:
    """The model on the fastest kernel, with two threads."""
    with fixed(1):
        opened = NativePath(model, threads=2)
        yield opened
        opened.close()


def altered(model: Artifact, **tensors: Tensor | None) -> Artifact:
    """The artifact with other tensors; None leaves one out."""
    given = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    kept = {name: tensor for name, tensor in (dict(model.tensors) | given).items() if tensor is not None}
    return dataclasses.replace(model, tensors=kept)


ALTERED: dict[str, tuple[dict[str, Tensor | None], str]] = {
    "a tensor is missing": ({"layers__1__up_proj": None}, "a tensor is missing"),
    "a scale is missing": ({"layers__0__q_proj__scale": None}, "a tensor is missing"),
    "the head is too short": ({"head": torch.zeros((63, 24), dtype=torch.int8)}, "head has shape"),
    "a low limb is too short": ({"layers__0__k_proj__low": torch.zeros((1, 24), dtype=torch.int8)}, "k_proj.low has shape"),
    "a norm is too long": ({"layers__1__input_layernorm": torch.ones(25)}, "input_layernorm has shape"),
    "a scale has another type": ({"head__scale": torch.ones(64, dtype=torch.float64)}, "head.scale is not float32"),
    "weights are floats": ({"layers__0__o_proj": torch.zeros((24, 24))}, "o_proj is not int8"),
    "weights are not contiguous": ({"head": torch.zeros((24, 64), dtype=torch.int8).t()}, "head is not int8"),
    "the embedding has another type": ({"embedding": torch.zeros((64, 24), dtype=torch.float64)}, "embedding"),
    "the embedding is too short": ({"embedding": torch.zeros((63, 24))}, "embedding has shape"),
    "a rotary table is too short": ({"rope__high__cos": torch.zeros((1, 3), dtype=torch.float64)}, "rope.high.cos has shape"),
    "epsilon is not a number": ({"epsilon": torch.full((1,), torch.nan)}, "epsilon"),
    "the scale of scores is missing": ({"attention_scale": None}, "attention_scale is missing"),
}  # fmt: skip


@needs_engine
@pytest.mark.parametrize("name", ALTERED)
def test_an_artifact_of_other_tensors_is_refused_by_name(model: Artifact, name: str) -> None:
    tensors, reason = ALTERED[name]
    with pytest.raises(ArtifactMismatch, match=reason):
        NativePath(altered(model, **tensors))


@needs_engine
@pytest.mark.parametrize(
    "changes",
    [
        {"heads": 0}, {"heads": 5}, {"layers": 0}, {"vocabulary": 2**21}, {"width": 2**17}, {"max_context": 2**18},
        # Loading refuses these windows too; a negative one would lead outside the memory of the cache.
        {"windows": (-1, 0)}, {"windows": (0, -100_000)}, {"windows": (0, 2**17 + 1)},
    ],
)  # fmt: skip
def test_a_shape_beyond_the_profile_is_refused(model: Artifact, changes: dict[str, Any]) -> None:
    shape = dataclasses.replace(model.manifest.architecture, **({"windows": ()} | changes))
    with pytest.raises(ArtifactMismatch, match="sizes of the architecture" if "windows" in changes else None):
        NativePath(dataclasses.replace(model, manifest=dataclasses.replace(model.manifest, architecture=shape)))


@needs_engine
def test_tokens_and_positions_out_of_range_are_refused(path: NativePath) -> None:
    cache = path.cache(1, 4)
    for token in (-1, 64, 2**31 - 1):
        with pytest.raises(OutsideLimits, match="token"):
            path.feed(cache, token, 0)
    with pytest.raises(OutsideLimits, match="position"):
        path.feed(cache, 1, 1)
    with pytest.raises(OutsideLimits, match="cache"):
        path.teacher_force(cache, [[1] * 5], [0])
    for batch, capacity in ((0, 4), (1, 0), (1, 2**17 + 1), (2**13, 4)):
        with pytest.raises(CannotExecute):
            path.cache(batch, capacity)


BAD_CALLS: list[tuple[int, int, int, int]] = [
    (64, 0, 0, 0), (-1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 64, 0), (0, 0, -1, 0), (0, 0, 0, 1),
]  # fmt: skip


@needs_engine
@pytest.mark.parametrize("call", BAD_CALLS)
def test_c_refuses_arguments_that_python_would_refuse(path: NativePath, call: tuple[int, int, int, int]) -> None:
    """Token, sequence, position and kept row straight to the C function: nothing is computed, nothing written."""
    cache, rows, exponents, logits = path.cache(1, 64), torch.zeros(24).short(), torch.zeros(2).int(), torch.zeros(64)
    token, sequence, position, kept = (torch.tensor([number], dtype=torch.int32) for number in call)
    status = path.pool.library.native_forward(
        path.handle, cache.handle, 1, token.data_ptr(), sequence.data_ptr(), position.data_ptr(), 1, kept.data_ptr(),
        rows.data_ptr(), exponents[:1].data_ptr(), exponents[1:].data_ptr(), logits.data_ptr(),
    )  # fmt: skip
    assert status == 3
    assert not rows.any() and not logits.any() and not exponents.any()


@needs_engine
@pytest.mark.parametrize("exponent", [-1, 63, 256])
def test_c_refuses_a_head_row_with_an_impossible_scale(path: NativePath, exponent: int) -> None:
    row, logits = torch.ones(24).short(), torch.zeros(64)
    assert path.pool.library.native_logits(path.handle, row.data_ptr(), exponent, logits.data_ptr()) == 3
    assert not logits.any()


@needs_engine
def test_products_outside_the_profile_are_refused() -> None:
    pool = ThreadPool()
    with pytest.raises(CannotExecute, match="refused"):
        product(pool, torch.zeros((1, 65537)), torch.zeros((2, 65537), dtype=torch.int8))
    with pytest.raises(ValueError, match="weights"):
        product(pool, torch.zeros((1, 8)), torch.zeros((2, 9), dtype=torch.int8))
    with pytest.raises(ValueError, match="weights"):
        product(pool, torch.zeros((1, 8)), torch.zeros((2, 8)))
    pool.close()
    with pytest.raises(CannotExecute, match="no native kernel sse"):
        ThreadPool("sse")
    with pytest.raises(CannotExecute, match="threads"):
        ThreadPool(threads=0)


@needs_engine
def test_a_row_that_is_not_finite_has_no_logits(model: Artifact) -> None:
    with fixed(1):
        path = NativePath(altered(model, norm=torch.full((24,), 3e38)))
        (row,) = path.teacher_force(path.cache(1, 1), [[5]], [0])[0]
        path.close()
    assert (row.exponent, row.logits, row.row) == (255, None, bytes(48))


@needs_engine
def test_no_thread_is_leaked(model: Artifact) -> None:
    NativePath(model, threads=3).close()  # Whatever else starts threads of its own at first use has done so.
    before = tasks()
    path = NativePath(model, threads=3)
    started = tasks() - before
    assert len(started) == 2
    path.close()
    path.close()
    # The system tells that a thread ended a moment before it takes it off this list.
    deadline, idle = monotonic_s() + 60, threading.Event()
    while started & tasks() and monotonic_s() < deadline:
        idle.wait(0.01)
    assert not started & tasks()
    with pytest.raises(CannotExecute, match="closed"):
        path.feed(path.cache(1, 2) if path.handle else NativePath(model).cache(1, 2), 1, 0)


def tasks() -> set[str]:
    """Threads of this process, as the system numbers them."""
    return set(os.listdir("/proc/self/task"))


@needs_engine
def test_forked_child_may_close_its_pool() -> None:
    """Forked once the pool's thread sleeps, as it does when nothing was asked for a while: what it sleeps on is then in use."""
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom bytewise.inference.native.library import ThreadPool\n"
        "tasks = Path('/proc/self/task')\nbefore = set(os.listdir(tasks))\npool = ThreadPool(None, 2)\n"
        "(thread,) = set(os.listdir(tasks)) - before\n"
        "while (tasks / thread / 'stat').read_text().rpartition(')')[2].split()[0] != 'S': os.sched_yield()\n"
        "child = os.fork()\npool.close()\nsys.exit(0 if child == 0 else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@needs_engine
def test_forked_child_is_refused_instead_of_waiting_for_threads(path: NativePath) -> None:
    cache = path.cache(1, 2)
    child = os.fork()
    if not child:
        try:
            path.feed(cache, 1, 0)
        except CannotExecute as error:
            os._exit(7 if "fork" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert path.feed(cache, 1, 0).logits is not None


@needs_engine
def test_subnormals_are_not_flushed_inside_and_the_mode_is_restored(path: NativePath, model: Artifact) -> None:
    tokens = [token % 64 for token in text("subnormal", 20)]
    plain = forced(path, tokens)
    try:
        assert torch.set_flush_denormal(True)
        with_flush = forced(path, tokens)
        assert not (torch.full((1,), 1e-40) * 1.0).any()
    finally:
        torch.set_flush_denormal(False)
    assert with_flush == plain


def test_folder_without_a_fitting_library_gives_none(tmp_path: Path) -> None:
    assert library(tmp_path) is None
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "_engine.abi3.so").write_bytes(b"not a library")
    assert library(tmp_path / "a") is None


@needs_engine
def test_library_built_from_other_sources_is_not_loaded(tmp_path: Path) -> None:
    for file in NATIVE.iterdir():
        if file.suffix in (".c", ".h", ".so"):
            shutil.copy(file, tmp_path)
    assert library(tmp_path) is not None
    other = tmp_path / "other"
    shutil.copytree(tmp_path, other)
    with (other / "forward.c").open("a") as source:
        source.write("/* changed */\n")
    assert library(other) is None


def test_without_the_engine_the_torch_path_gives_the_same_bytes(tmp_path: Path, model: Artifact) -> None:
    """A copy of the package that has no compiled engine."""
    shutil.copytree(ROOT / "bytewise", tmp_path / "bytewise", ignore=shutil.ignore_patterns("*.so"))
    program = (
        "from bytewise.inference.known_answers import known_models as k\n"
        "from bytewise.inference.backend_selection import open_path\n"
        "from bytewise.inference.determinism import fixed\n"
        "with fixed(1):\n"
        "    path = open_path(k.built_model('bias and window'), 1)\n"
        "    print(path.name, k.digest_on(path).hex())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    name, digest = done.stdout.split()
    assert name.startswith("torch-") and "native" not in name
    assert digest == MODEL_DIGESTS["bias and window"].hex()
