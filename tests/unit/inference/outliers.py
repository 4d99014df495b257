"""Checkpoints with outlier channels: some are a hundred times larger, the next weights smaller, the function the same."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.exact.matmul import Float64Backend
from bytewise.inference.runner import Runner


def with_outliers(checkpoint: Path, out: Path, factor: float) -> Path:
    """A copy of a Llama checkpoint where 1 channel of 64 of every norm, value and up projection is `factor` times larger."""
    shutil.copytree(checkpoint, out)
    tensors = load_file(checkpoint / "model.safetensors")
    config = json.loads((checkpoint / "config.json").read_text())
    group, width = config["num_attention_heads"] // config["num_key_value_heads"], config["head_dim"]
    for index in range(config["num_hidden_layers"]):
        attention, unit = (f"model.layers.{index}.{part}." for part in ("self_attn", "mlp"))
        norms = [f"model.layers.{index}.{name}_layernorm.weight" for name in ("input", "post_attention")]
        _move(tensors, norms[0], [f"{attention}{name}_proj.weight" for name in "qkv"], 1, factor)
        _move(tensors, norms[1], [f"{unit}{name}_proj.weight" for name in ("gate", "up")], 1, factor)
        _move(tensors, f"{unit}up_proj.weight", [f"{unit}down_proj.weight"], 1, factor)
        value, output = tensors[f"{attention}v_proj.weight"], tensors[f"{attention}o_proj.weight"]
        value[5] *= factor
        for head in range(group):
            output[:, head * width + 5] /= factor
    _move(tensors, "model.norm.weight", ["lm_head.weight"], 3, factor)
    save_file(tensors, out / "model.safetensors")
    return out


def _move(tensors: dict[str, Tensor], producer: str, consumers: Sequence[str], offset: int, factor: float) -> None:
    tensors[producer][offset::64] *= factor
    for name in consumers:
        tensors[name][:, offset::64] /= factor


def decibels(model: Artifact, checkpoint: Path, tokens: Sequence[int]) -> float:
    """Signal-to-noise ratio of the artifact's logits against the checkpoint in float64."""
    reference = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float64)
    runner = Runner(model, Float64Backend())
    with torch.inference_mode():
        wanted = reference(torch.tensor([list(tokens)])).logits[0]
        rows = runner.teacher_force(runner.cache(1, len(tokens)), [tokens], [0])[0]
    found = torch.stack([row.logits for row in rows if row.logits is not None])
    error = (found - wanted).square().sum() / wanted.square().sum()
    return float(-10 * error.log10())
