"""Every engine of the comparison runs the same weights, and a measurement of something else ends it."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from bench import models, workload
from bench.models import Shape, cached
from bench.ours import Ours
from bench.peer_transformers import Transformers
from bytewise.inference.convert.convert import convert
from bytewise.inference.convert.make import BEGIN

TINY = Shape("tiny", 2, 64, 96, 4, 2, 300, 128)
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.checkpoint(tmp_path_factory.mktemp("bench"), TINY)


@pytest.fixture(scope="module")
def ours(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Ours:
    artifact = tmp_path_factory.mktemp("bench") / "artifact"
    convert(checkpoint, artifact)
    return Ours(artifact, "torch-alone", 1)


def test_a_checkpoint_has_the_parameters_that_its_shape_says(checkpoint: Path) -> None:
    held = {file.name: load_file(file) for file in checkpoint.glob("*.safetensors")}
    assert sum(tensor.numel() for tensors in held.values() for tensor in tensors.values()) == TINY.parameters
    where = json.loads((checkpoint / "model.safetensors.index.json").read_text())["weight_map"]
    assert where == {name: file for file, tensors in held.items() for name in tensors}


def test_a_checkpoint_is_split_into_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Path) -> None:
    monkeypatch.setattr(models, "SHARD_BYTES", 30_000)
    split = models.checkpoint(tmp_path, TINY)
    assert len(list(split.glob("*.safetensors"))) > 2
    tokens = Transformers(checkpoint, "float32", 1).generate(PROMPT, 4)
    assert Transformers(split, "float32", 1).generate(PROMPT, 4) == tokens


def test_we_and_transformers_run_the_same_model(checkpoint: Path, ours: Ours) -> None:
    theirs, mine = np.asarray(Transformers(checkpoint, "float32", 1).logits(PROMPT)), np.asarray(ours.logits(PROMPT))
    assert theirs @ mine / np.linalg.norm(theirs) / np.linalg.norm(mine) > workload.ALIKE


def test_a_claim_is_generated_once_and_verified_alone_or_in_a_batch(ours: Ours) -> None:
    claims = [(PROMPT, 5), (PROMPT[:3], 2)]
    ours.prepare(claims)
    assert len(ours.generate(PROMPT, 5)) == 5
    ours.judge(claims, together=True)
    ours.judge(claims, together=False)


def test_a_verification_that_does_not_match_ends_the_measurement(ours: Ours) -> None:
    ours.prepare([(PROMPT, 4), (PROMPT[:4], 4)])
    made = ours._made
    made[tuple(PROMPT), 4] = made[tuple(PROMPT[:4]), 4]
    with pytest.raises(SystemExit, match="contradicts itself"):
        ours.judge([(PROMPT, 4)], together=False)


def test_claims_of_a_batch_are_ragged() -> None:
    lengths = [(len(prompt), answer) for prompt, answer in workload.claims(TINY, 4, 1)]
    assert lengths == [(4 + i, 1 + i) for i in range(workload.CLAIMS)]


def test_file_is_made_once_and_again_after_an_interruption(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(path: Path) -> None:
        path.mkdir()
        made.append(path)
        if len(made) == 1:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cached(tmp_path, "thing", {"key": 1}, make)
    first = cached(tmp_path, "thing", {"key": 1}, make)
    assert first.exists() and cached(tmp_path, "thing", {"key": 1}, make) == first
    assert cached(tmp_path, "thing", {"key": 2}, make) != first
    assert len(made) == 3


def test_the_special_tokens_are_in_every_vocabulary() -> None:
    assert min(TINY.vocabulary, models.SMALL.vocabulary, models.LARGE.vocabulary) > BEGIN
