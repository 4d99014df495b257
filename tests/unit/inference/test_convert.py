"""Conversion streams, is all or nothing, gives one digest wherever it runs, and says what is wrong with a checkpoint."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bytewise.inference.artifact import artifact
from bytewise.inference.convert.checkpoint import all_stop_tokens
from bytewise.inference.convert.convert import ConversionOptions, convert
from bytewise.inference.convert.staging_dir import staging_dir
from bytewise.protocol.errors.actors import ConfigurationError, UnsupportedModel
from bytewise.service.settings import child_environment
from tests.fixtures.inference.large_checkpoint import write_large
from tests.fixtures.inference.tiny import write_checkpoint
from tests.source import ROOT

INDEX, GENERATION = "model.safetensors.index.json", "generation_config.json"
DEEP = '{"a":' * 200_000
"""JSON that ends a process with a segmentation fault where the chain client's library raised the recursion limit."""
MIB = 2**20


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a process under other instruction sets and thread counts printed of a tiny and a large conversion."""
    folder = tmp_path_factory.mktemp("elsewhere")
    write_checkpoint("llama", folder / "tiny")
    sizes = write_large(folder / "large")
    assert sum(sizes) > 90 * MIB and len(sizes) >= 4
    variables = {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-m", "tests.fixtures.inference.conversion_process", str(folder)]
    ended = subprocess.run(
        command, cwd=ROOT, env=child_environment(variables), capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return dict(line.split(" ", 1) for line in ended.stdout.splitlines()) | {"shard": str(max(sizes))}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A tiny checkpoint in two shards."""
    write_checkpoint("llama", tmp_path / "checkpoint")
    return sharded(tmp_path / "checkpoint")


def sharded(folder: Path) -> Path:
    """Splits the weights of a checkpoint into two shards with an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names: dict[str, str] = {}
    for number, part in enumerate((sorted(tensors)[::2], sorted(tensors)[1::2]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, folder / file)
        names |= dict.fromkeys(part, file)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return folder


def test_peak_memory_is_below_one_and_a_half_shards_and_the_largest_tensor(elsewhere: dict[str, str]) -> None:
    peak, shard, tensor = (int(elsewhere[name]) for name in ("peak", "shard", "tensor"))
    print(f"peak {peak / MIB:.1f} MiB, largest shard {shard / MIB:.1f} MiB, largest tensor {tensor / MIB:.1f} MiB")
    assert peak < 1.5 * shard + tensor


def test_other_machines_and_other_shards_give_the_same_model_id(
    checkpoint: Path, tmp_path: Path, elsewhere: dict[str, str]
) -> None:
    write_checkpoint("llama", tmp_path / "single")
    here = convert(tmp_path / "single", tmp_path / "here")
    assert here.hex() == elsewhere["model"]
    assert convert(checkpoint, tmp_path / "shards") == here
    for file in (tmp_path / "here").iterdir():
        assert file.read_bytes() == (tmp_path / "shards" / file.name).read_bytes()


def killed_at(moment: float, checkpoint: Path, out: Path) -> int | None:
    """Exit code of a process that kills itself when that part of the weights is written."""

    def tell(_name: str, done: int, total: int) -> None:
        if done >= moment * total:
            os.kill(os.getpid(), signal.SIGKILL)

    # Forked, as a new process would import for seconds.
    process = multiprocessing.get_context("fork").Process(target=convert, args=(checkpoint, out, tell))
    process.start()
    process.join(60)
    return process.exitcode


def test_killed_conversion_leaves_nothing_and_the_next_starts_clean(checkpoint: Path, tmp_path: Path) -> None:
    out, partial = tmp_path / "artifact", tmp_path / "artifact.partial"
    for moment in (0, 0.1, 0.5, 0.9, 1):
        assert killed_at(moment, checkpoint, out) == -signal.SIGKILL
        assert partial.is_dir() and not out.exists()
    (partial / "deeper").mkdir()
    (partial / "deeper" / "file").write_text("left behind")
    model_id = convert(checkpoint, out)
    assert artifact.load(out).model_id == model_id
    assert sorted(path.name for path in out.iterdir()) == [
        "chat_template.jinja", "manifest.json", "model_id", "tokenizer.json", "weights.safetensors",
    ]  # fmt: skip
    assert not partial.exists()


def test_second_conversion_to_a_folder_is_refused_without_harm(checkpoint: Path, tmp_path: Path) -> None:
    out, refused = tmp_path / "artifact", list[int]()

    def tell(_name: str, done: int, _total: int) -> None:
        if not refused:
            refused.append(done)
            with pytest.raises(ConfigurationError, match="is being made by another process"):
                convert(checkpoint, out)

    model_id = convert(checkpoint, out, tell)
    assert len(refused) == 1
    assert artifact.load(out).model_id == model_id
    with pytest.raises(ConfigurationError, match="already exists"):
        convert(checkpoint, out)
    assert artifact.load(out).model_id == model_id


def test_many_concurrent_conversions_leave_one_complete_folder(tmp_path: Path) -> None:
    out, made, refused = tmp_path / "out", [], []

    def make(number: int) -> None:
        for _ in range(20):
            try:
                with staging_dir(out) as partial:
                    (partial / "first").write_text(str(number))
                    time.sleep(0.001)
                    (partial / "second").write_text(str(number))
                    made.append(number)
            except ConfigurationError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=make, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and len(refused) == 79
    assert [(out / name).read_text() for name in ("first", "second")] == [str(made[0])] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def first_shard(folder: Path) -> Path:
    """Path of the first of two shards."""
    return folder / "model-00001-of-00002.safetensors"


def cut(folder: Path) -> None:
    """Half of a shard is gone."""
    os.truncate(first_shard(folder), first_shard(folder).stat().st_size // 2)


def duplicate(folder: Path) -> None:
    """A tensor is in both shards."""
    second = folder / "model-00002-of-00002.safetensors"
    tensors = load_file(second)
    save_file(load_file(first_shard(folder)) | {sorted(tensors)[0]: tensors[sorted(tensors)[0]]}, first_shard(folder))


def retype(folder: Path) -> None:
    """A norm holds integers."""
    spoil(folder, "model.norm.weight", torch.ones(16, dtype=torch.int32))


def reshape(folder: Path) -> None:
    """A norm is too long."""
    spoil(folder, "model.norm.weight", torch.ones(17))


def spoil(folder: Path, name: str, value: torch.Tensor) -> None:
    """Replaces a tensor, whichever shard it is in."""
    for file in folder.glob("*.safetensors"):
        tensors = load_file(file)
        if name in tensors:
            save_file(tensors | {name: value}, file)


DEEP = "[" * 200_000
"""A document whose nesting no recursive parser survives."""


def other(name: str, text: str) -> Callable[[Path], object]:
    """Another file of that name."""
    return lambda folder: (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        (lambda folder: first_shard(folder).unlink(), r"model-00001-of-00002.safetensors: "),
        (cut, r"model-00001-of-00002.safetensors: "),
        (lambda folder: first_shard(folder).write_bytes(b"\xff" * 64), r"model-00001-of-00002.safetensors: "),
        (duplicate, r" is in model-00001-of-00002.safetensors and in model-00002-of-00002.safetensors"),
        (retype, r"model.norm.weight is I32"),
        (reshape, r"model.norm.weight is F32 \(17,\), expected \(16,\)"),
        (other(INDEX, "[]"), r"index.json: no weight_map"),
        (other(INDEX, "{"), r"index.json: no weight_map"),
        (other(INDEX, DEEP), r"index.json: no weight_map"),
        (other(GENERATION, DEEP), r"generation_config.json: .*nested deeper"),
        (other("config.json", DEEP), r"config.json: .*nested deeper"),
        (other("config.json", "{"), r"config.json: "),
        (other(INDEX, '{"weight_map": {"a": "../b.safetensors"}}'), r"index.json: weight_map must name files"),
        (other(INDEX, '{"weight_map": {"lost": "model-00001-of-00002.safetensors"}}'), r"00001-of-00002.safetensors lacks lost"),
        (lambda folder: (folder / INDEX).unlink(), r"model.safetensors: "),
        (other(GENERATION, '{"do_sample": true, "temperature": -1}'), r"temperature is -1"),
        (other(GENERATION, '{"eos_token_id": "x"}'), r"eos_token_id is x"),
        (other(GENERATION, '{"eos_token_id": [257, 1000000]}'), r"generation_config.json: eos_token_id is 1000000, the"),
        (other(GENERATION, "[]"), r"generation_config.json: not an object"),
        (other(GENERATION, DEEP), r"generation_config.json: .*nested deeper than 32"),
        (other("config.json", DEEP), r"config.json: .*nested deeper than 32"),
        (lambda folder: (folder / "tokenizer.json").unlink(), r"tokenizer.json: No such file"),
    ],
)  # fmt: skip
def test_damaged_checkpoint_is_refused_by_name(checkpoint: Path, harm: Callable[[Path], object], named: str) -> None:
    harm(checkpoint)
    with pytest.raises(UnsupportedModel, match=named):
        convert(checkpoint, checkpoint.parent / "artifact", options=ConversionOptions(equalise=False))
    assert [path.name for path in checkpoint.parent.iterdir()] == ["checkpoint"]


def test_stop_tokens_of_two_files_together_are_bounded() -> None:
    ours, theirs = tuple(range(600)), tuple(range(400, 1024))
    assert all_stop_tokens(ours, theirs) == tuple(range(1024))
    with pytest.raises(UnsupportedModel, match=r"config.json and generation_config.json name 1025 stop tokens, most are 1024"):
        all_stop_tokens(ours, (*theirs, 1024))


def test_generation_defaults_become_exact_decimals(checkpoint: Path, tmp_path: Path) -> None:
    wanted = {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_new_tokens": 512}
    (checkpoint / GENERATION).write_text(json.dumps(wanted | {"eos_token_id": [260, 257]}))
    convert(checkpoint, tmp_path / "drawn", options=ConversionOptions(equalise=False))
    manifest = artifact.read_manifest(tmp_path / "drawn")
    answers = manifest.generation
    assert (answers.temperature, answers.top_p, answers.top_k, answers.max_new_tokens) == ("0.6", "0.95", 20, 512)
    assert manifest.stop_tokens == (257, 260)
    (checkpoint / GENERATION).unlink()
    convert(checkpoint, tmp_path / "greedy", options=ConversionOptions(equalise=False))
    answers = artifact.read_manifest(tmp_path / "greedy").generation
    assert (answers.temperature, answers.top_p, answers.top_k, answers.max_new_tokens) == ("0", "1", 0, None)


def test_bit_width_and_calibration_are_part_of_the_model(checkpoint: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("What the exponents are chosen on is named in the manifest.")
    options = {
        "plain": ConversionOptions(equalise=False), "wide": ConversionOptions(16, equalise=False),
        "head": ConversionOptions(head_bits=16, equalise=False), "hash": ConversionOptions(),
        "text": ConversionOptions(calibration=text),
    }  # fmt: skip
    ids = {name: convert(checkpoint, tmp_path / name, options=option) for name, option in options.items()}
    assert len(set(ids.values())) == len(options)
    loaded = {name: artifact.load(tmp_path / name) for name in options}
    assert [name for name, model in loaded.items() if "layers.0.q_proj.low" in model.tensors] == ["wide"]
    assert [name for name, model in loaded.items() if "head.low" in model.tensors] == ["wide", "head"]
    measured = loaded["text"].manifest.equalisation
    assert measured is not None and measured.tokens == len(text.read_text())
    with pytest.raises(ConfigurationError, match=r"none.txt: no text to calibrate with"):
        convert(checkpoint, tmp_path / "x", options=ConversionOptions(calibration=tmp_path / "none.txt"))
    shutil.rmtree(tmp_path / "plain")
    assert convert(checkpoint, tmp_path / "plain", options=options["plain"]) == ids["plain"]
