"""Reading a Hugging Face checkpoint: what the profile can run exactly, refused by name otherwise (design section 6)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bytewise.inference.manifest import Architecture
from bytewise.inference.matmul import MAX_DEPTH, MAX_KEYS, MIN_DEPTH
from bytewise.protocol.errors import UnsupportedModel
from bytewise.protocol.units import Decimal

_KNOWN_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A readable checkpoint of a supported family."""

    path: Path
    """Folder."""
    architecture: Architecture
    """Shape."""
    epsilon: float
    """RMSNorm epsilon."""
    rope: dict[str, Any]
    """Parameters of the rotary embedding."""
    tied: bool
    """Whether the output head is the embedding."""
    begin_token: int | None
    """bos token."""
    stop_tokens: tuple[int, ...]
    """eos tokens, ascending."""


def read(path: Path) -> Checkpoint:
    """The checkpoint of a folder; `UnsupportedModel` names what the profile cannot run."""
    config = _json(path / "config.json")
    family = str(config.get("model_type"))
    if family != "llama" or config.get("architectures", ["LlamaForCausalLM"]) != ["LlamaForCausalLM"]:
        raise UnsupportedModel(f"architecture {family[:40]} {str(config.get('architectures'))[:60]}")
    if config.get("hidden_act", "silu") != "silu":
        raise UnsupportedModel(f"activation {str(config['hidden_act'])[:40]}")
    if "quantization_config" in config:
        raise UnsupportedModel("a checkpoint that is already quantised")
    architecture = _architecture(config)
    epsilon = float(config.get("rms_norm_eps", 1e-6))
    if not 2.0**-40 <= epsilon < 1:
        raise UnsupportedModel(f"rms_norm_eps {epsilon}: below 2^-40 results would depend on flush-to-zero")
    stop = config.get("eos_token_id")
    stops = stop if isinstance(stop, list) else [] if stop is None else [stop]
    return Checkpoint(
        path, architecture, epsilon, _rope(config), bool(config.get("tie_word_embeddings", False)),
        config.get("bos_token_id"), tuple(sorted(set(stops))),
    )  # fmt: skip


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UnsupportedModel(f"{path.name}: {error}") from None
    if not isinstance(value, dict):
        raise UnsupportedModel(f"{path.name}: not an object")
    return value


def _architecture(config: dict[str, Any]) -> Architecture:
    try:
        heads, width = config["num_attention_heads"], config["hidden_size"]
        shape = Architecture(
            "llama", config["num_hidden_layers"], width, config["intermediate_size"], heads,
            config.get("num_key_value_heads") or heads, config.get("head_dim") or width // heads, config["vocab_size"],
            config.get("max_position_embeddings", 2048), bool(config.get("attention_bias")), bool(config.get("attention_bias")),
            bool(config.get("mlp_bias")), "silu", False, False, (), Decimal("0"), Decimal("0"), 0, 0,
        )  # fmt: skip
    except KeyError as error:
        raise UnsupportedModel(f"config.json lacks {error}") from None
    depths = (shape.width, shape.intermediate, shape.heads * shape.head_width)
    if not MIN_DEPTH <= min(depths) <= max(depths) <= MAX_DEPTH:
        raise UnsupportedModel(f"a sum of fewer than {MIN_DEPTH} or more than {MAX_DEPTH} products")
    if shape.max_context > MAX_KEYS:
        raise UnsupportedModel(f"context of {shape.max_context} tokens: attention is exact up to {MAX_KEYS}")
    if shape.head_width % 2 or shape.head_width > 512 or shape.heads % shape.key_value_heads:
        raise UnsupportedModel(f"{shape.heads} heads of width {shape.head_width} on {shape.key_value_heads}")
    return shape


def _rope(config: dict[str, Any]) -> dict[str, Any]:
    # Newer checkpoints have one member rope_parameters, older ones rope_theta and rope_scaling.
    parameters = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    parameters.setdefault("rope_type", parameters.pop("type", "default"))
    parameters.setdefault("rope_theta", config.get("rope_theta", 10000.0))
    if config.get("partial_rotary_factor", 1) != 1 or parameters.get("partial_rotary_factor", 1) != 1:
        raise UnsupportedModel("partial rotary embedding")
    return parameters


class TensorReader:
    """Tensors of a checkpoint by name, as float32, whichever file holds them."""

    def __init__(self, path: Path) -> None:
        self._where: dict[str, Path] = {}
        for file in sorted(path.glob("*.safetensors")):
            try:
                with safe_open(file, framework="pt") as tensors:
                    self._where.update(dict.fromkeys(tensors.keys(), file))
            except SafetensorError as error:
                raise UnsupportedModel(f"{file.name}: {error}") from None
        self._unread = set(self._where)

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """The tensor as float32 (exact); `UnsupportedModel` if it is missing, misshapen, integer or not finite."""
        if name not in self._where:
            raise UnsupportedModel(f"checkpoint lacks {name}")
        with safe_open(self._where[name], framework="pt") as tensors:
            tensor: Tensor = tensors.get_tensor(name)
        self._unread.discard(name)
        if tuple(tensor.shape) != shape or tensor.dtype not in _KNOWN_DTYPES:
            raise UnsupportedModel(f"{name} is {tensor.dtype} {tuple(tensor.shape)}, expected {shape}")
        tensor = tensor.to(torch.float32)
        if not bool(torch.isfinite(tensor).all()):
            raise UnsupportedModel(f"{name} holds an infinity or a NaN")
        return tensor

    def finish(self) -> None:
        """`UnsupportedModel` if a tensor was never read: an operation that the profile does not know."""
        left = sorted(name for name in self._unread if not name.endswith("rotary_emb.inv_freq"))
        if left:
            raise UnsupportedModel(f"unknown tensors {', '.join(left[:3])}")
