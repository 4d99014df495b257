"""Models for speed measurements: random weights from a seed, as a `transformers` checkpoint, our artifact and a GGUF file.

Speed does not depend on the values of the weights, so no model has to be downloaded. Everything is cached under `build/bench/`.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from bytewise.inference.convert.make import BEGIN, CHAT_TEMPLATE, END, SPECIAL_TOKENS, tokenizer

LAST = "model.norm.weight"
"""Name of the last tensor of a checkpoint."""

SHARD_BYTES = 256 * 2**20
"""Approximate bytes of the tensors in one file of a checkpoint."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of one Llama model."""

    name: str
    """Name of the model, which is its number of parameters in millions."""
    layers: int
    width: int
    intermediate: int
    heads: int
    key_value_heads: int
    vocabulary: int
    context: int
    """Most tokens of prompt and answer."""
    seed: int = 1

    @property
    def config(self) -> dict[str, Any]:
        """Content of `config.json` for `transformers`."""
        return {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_act": "silu",
            "hidden_size": self.width, "intermediate_size": self.intermediate, "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads, "num_key_value_heads": self.key_value_heads,
            "head_dim": self.width // self.heads, "max_position_embeddings": self.context, "vocab_size": self.vocabulary,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "attention_bias": False,
            "mlp_bias": False, "bos_token_id": BEGIN, "eos_token_id": END,
        }  # fmt: skip

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """Name and shape [outputs, inputs] of every matrix of one decoder layer."""
        inner, shared = self.width, self.key_value_heads * (self.width // self.heads)
        return {
            "self_attn.q_proj": (inner, self.width), "self_attn.k_proj": (shared, self.width),
            "self_attn.v_proj": (shared, self.width), "self_attn.o_proj": (self.width, inner),
            "mlp.gate_proj": (self.intermediate, self.width), "mlp.up_proj": (self.intermediate, self.width),
            "mlp.down_proj": (self.width, self.intermediate),
        }  # fmt: skip

    @property
    def body(self) -> int:
        """Multiplications of one token in the linear layers without the head, which is also the number of their weights."""
        return self.layers * sum(rows * columns for rows, columns in self.matrices.values())

    @property
    def head(self) -> int:
        """Multiplications of one token in the output head, which is also the number of its weights."""
        return self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """Number of all weights: linear layers, head, embedding, norms."""
        return self.body + 2 * self.head + (2 * self.layers + 1) * self.width

    @property
    def cache_bytes_per_token(self) -> int:
        """Bytes of key and value of one token in all layers, with 16 bits an element. Profile exact-1 needs no more bits."""
        return 2 * 2 * self.layers * self.key_value_heads * (self.width // self.heads)


SMALL = Shape("134M", 12, 768, 2048, 12, 12, 32000, 8192)
LARGE = Shape("475M", 24, 896, 4864, 14, 2, 65536, 8192)


def cached(root: Path, kind: str, key: object, make: Callable[[Path], None]) -> Path:
    """Returns the file or folder that `make` writes for this key. Later calls return the same file. After an interruption it is
    made again."""
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    path = root / f"{kind}-{digest}"
    if not path.exists():
        partial = path.with_name(path.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.unlink(missing_ok=True)
        root.mkdir(parents=True, exist_ok=True)
        make(partial)
        partial.rename(path)
    return path


def checkpoint(root: Path, shape: Shape) -> Path:
    """Returns the folder of the checkpoint, in bfloat16 and in several files. Makes the checkpoint if it is missing."""
    return cached(root, f"checkpoint-{shape.name}", asdict(shape), lambda path: _write(path, shape))


def _write(path: Path, shape: Shape) -> None:
    path.mkdir()
    files = {
        "config.json": shape.config, "generation_config.json": {"bos_token_id": BEGIN, "eos_token_id": END},
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIAL_TOKENS[0]},
    }  # fmt: skip
    for name, value in files.items():
        (path / name).write_text(json.dumps(value))
    (path / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    where = _write_shards(path, _weights(shape))
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))


def _write_shards(path: Path, tensors: Iterator[tuple[str, Tensor]]) -> dict[str, str]:
    # Returns the name of the file that contains each tensor. Only one file's tensors are in memory at a time.
    where: dict[str, str] = {}
    held: dict[str, Tensor] = {}
    for name, tensor in tensors:
        held[name] = tensor
        if name == LAST or sum(each.nbytes for each in held.values()) > SHARD_BYTES:
            file = f"model-{len(set(where.values())) + 1:05}.safetensors"
            save_file(held, path / file, metadata={"format": "pt"})
            where |= dict.fromkeys(held, file)
            held = {}
    return where


def _weights(shape: Shape) -> Iterator[tuple[str, Tensor]]:
    generator = np.random.Generator(np.random.SFC64(shape.seed))

    def matrix(rows: int, columns: int) -> Tensor:
        values = generator.standard_normal((rows, columns), np.float32) * np.float32(columns**-0.5)
        return torch.from_numpy(values).to(torch.bfloat16)

    yield "model.embed_tokens.weight", matrix(shape.vocabulary, shape.width)
    yield "lm_head.weight", matrix(shape.vocabulary, shape.width)
    for layer in range(shape.layers):
        for name, (rows, columns) in shape.matrices.items():
            yield f"model.layers.{layer}.{name}.weight", matrix(rows, columns)
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"model.layers.{layer}.{name}.weight", torch.ones(shape.width, dtype=torch.bfloat16)
    yield LAST, torch.ones(shape.width, dtype=torch.bfloat16)
