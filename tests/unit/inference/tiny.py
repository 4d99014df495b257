"""Tiny checkpoints of every family: width 16, two layers, weights from a counter-mode hash, the tokenizer of `make.py`."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from bytewise.inference.artifact import artifact
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.artifact.families import family_of, linears, norms
from bytewise.inference.convert import checkpoint
from bytewise.inference.convert.convert import convert
from bytewise.inference.convert.make import CHAT_TEMPLATE, tokenizer
from bytewise.inference.known_answers.operations import integers

COMMON: dict[str, Any] = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 264, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "bos_token_id": 256,
    "eos_token_id": 257, "tie_word_embeddings": False, "torch_dtype": "float32",
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
}  # fmt: skip
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}

VARIANTS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", "hidden_act": "silu"},
    "llama3": {
        "model_type": "llama", "hidden_act": "silu", "rope_scaling": LLAMA3, "attention_bias": True, "mlp_bias": True,
        "tie_word_embeddings": True,
    },
    "mistral": {"model_type": "mistral", "hidden_act": "silu", "sliding_window": 6, "head_dim": 6},
    "qwen2": {"model_type": "qwen2", "hidden_act": "silu", "rope_scaling": YARN, "tie_word_embeddings": True},
    "qwen2-window": {
        "model_type": "qwen2", "hidden_act": "silu", "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1,
    },
    "qwen3": {"model_type": "qwen3", "hidden_act": "silu", "head_dim": 8},
    "gemma2": {
        "model_type": "gemma2", "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "head_dim": 8,
        "query_pre_attn_scalar": 12, "sliding_window": 5, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.5,
        "tie_word_embeddings": True,
    },
    "mixtral": {
        "model_type": "mixtral", "hidden_act": "silu", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None,
    },
    "qwen3_moe": {
        "model_type": "qwen3_moe", "hidden_act": "silu", "num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 8,
        "head_dim": 4, "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True,
    },
}  # fmt: skip
"""What config.json says of each, besides `COMMON`."""


def tiny(variant: str, folder: Path, **changes: Any) -> Artifact:
    """The converted and loaded artifact of a variant; `folder` holds checkpoint and artifact."""
    write_checkpoint(variant, folder / "checkpoint", **changes)
    convert(folder / "checkpoint", folder / "artifact")
    return artifact.load(folder / "artifact")


def write_checkpoint(variant: str, path: Path, dtype: torch.dtype = torch.float32, **changes: Any) -> None:
    """Writes the checkpoint of a variant at `path`; `changes` are members of config.json."""
    path.mkdir(parents=True)
    config = COMMON | VARIANTS[variant] | changes
    config = {"architectures": [family_of(config["model_type"]).model_class]} | config
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (path / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    (path / "generation_config.json").write_text(json.dumps({"bos_token_id": 256, "eos_token_id": 257}))
    tensors = {name: tensor.to(dtype) for name, tensor in _tensors(path, bool(config["tie_word_embeddings"])).items()}
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})


def _tensors(path: Path, tied: bool) -> dict[str, Tensor]:
    shape = checkpoint.read(path).architecture
    centre = 0.0 if family_of(shape.family).norm_offset else 1.0
    tensors = {
        "model.embed_tokens.weight": _numbers("embedding", (shape.vocabulary, shape.width), 1),
        "model.norm.weight": _numbers("norm", (shape.width,), 0.25) + centre,
    }
    if not tied:
        tensors["lm_head.weight"] = _numbers("head", (shape.vocabulary, shape.width), 0.5)
    for layer in range(shape.layers):
        for linear in linears(shape, layer):
            tensors[f"{linear.source}.weight"] = _numbers(linear.source, (linear.rows, linear.columns), 0.5)
            if linear.biased:
                tensors[f"{linear.source}.bias"] = _numbers(f"{linear.source}.bias", (linear.rows,), 0.5)
        for norm in norms(shape, layer):
            tensors[norm.source] = _numbers(norm.source, (norm.width,), 0.25) + centre
    return tensors


def _numbers(name: str, shape: tuple[int, ...], largest: float) -> Tensor:
    """Multiples of largest / 4096 in ±largest."""
    count = torch.Size(shape).numel()
    return torch.tensor(integers(name, count, 4096), dtype=torch.float32).view(shape) * (largest / 4096)
