"""The measurement on a GPU, as far as a machine without one can run it: its arithmetic, its checks, its refusal."""

from pathlib import Path

import pytest
import torch

from bench import gpu, models
from bench.models import Shape
from bench.peer_transformers import Transformers
from bytewise.inference.convert.convert import convert
from bytewise.inference.cuda.runner import CUDA_BACKENDS

TINY = Shape("tiny", 2, 64, 96, 4, 2, 300, 128)
OTHER = Shape("tiny", 2, 64, 96, 4, 2, 300, 128, seed=2)
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]

without_gpu = pytest.mark.xfail(torch.cuda.is_available(), reason="says what happens without a GPU", run=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints and artifacts of two models."""
    root = tmp_path_factory.mktemp("gpu")
    for name, shape in (("one", TINY), ("two", OTHER)):
        convert(models.checkpoint(root / name, shape), root / f"artifact-{name}")
    return root


@pytest.fixture(scope="module")
def ours(folder: Path) -> gpu.Hashing:
    return gpu.Hashing(folder / "artifact-one", "torch-alone", 1)


def test_ratios_compare_work_done_in_turn(folder: Path, ours: gpu.Hashing) -> None:
    peer = Transformers(models.checkpoint(folder / "one", TINY), "bfloat16", 1)
    found = gpu.measure(ours, peer, PROMPT, 4, 2)
    assert found.keys() >= {"generate_over_hf_bf16", "verify_over_hf_prefill", "verify_over_generate"}
    assert all(value > 0 for value in found.values())


def test_hashes_of_two_models_differ_and_those_of_one_do_not(folder: Path, ours: gpu.Hashing) -> None:
    other = gpu.Hashing(folder / "artifact-two", "torch-alone", 1)
    assert gpu.same_hashes(ours, ours, PROMPT, 4) and not gpu.same_hashes(ours, other, PROMPT, 4)


@without_gpu
def test_without_a_card_no_backend_is_called_exact(folder: Path) -> None:
    said = gpu.exactness(folder / "artifact-one")
    assert said.keys() == {backend.name for backend in CUDA_BACKENDS} and all("CUDA" in why for why in said.values())


@without_gpu
def test_without_a_card_nothing_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["bench.gpu"])
    assert gpu.main() == 69 and not list(tmp_path.iterdir())
