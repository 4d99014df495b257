"""A checkpoint of some hundred megabytes in shards, made in a second: to measure memory; what its weights say does not matter."""

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from bytewise.inference.artifact.families import linears, norms
from bytewise.inference.convert import checkpoint as checkpoints
from bytewise.inference.convert.make import CHAT_TEMPLATE, tokenizer
from bytewise.inference.manifest import Architecture

SHARD_BYTES = 32 * 2**20

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 512,
    "intermediate_size": 1536, "num_hidden_layers": 14, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 8192,
    "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
    "bos_token_id": 256, "eos_token_id": 257,
}  # fmt: skip


def write_large(folder: Path) -> list[int]:
    """Writes the checkpoint; the sizes of its shards in bytes."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    names: dict[str, str] = {}
    shard: dict[str, Tensor] = {}
    sizes: list[int] = []
    for name, tensor in [*_tensors(checkpoints.read(folder).architecture), ("", torch.empty(0))]:
        held = sum(each.nbytes for each in shard.values())
        if not name or held + tensor.nbytes > SHARD_BYTES:
            file = f"model-{len(sizes) + 1:05}.safetensors"
            save_file(shard, folder / file)
            names |= dict.fromkeys(shard, file)
            sizes.append((folder / file).stat().st_size)
            shard = {}
        shard[name] = tensor
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return sizes


def _tensors(shape: Architecture) -> Iterator[tuple[str, Tensor]]:
    generator = torch.Generator().manual_seed(1)

    def numbers(rows: int, columns: int) -> Tensor:
        return (torch.randn(rows, columns, generator=generator) / 32).to(torch.bfloat16)

    yield "model.embed_tokens.weight", numbers(shape.vocabulary, shape.width)
    for index in range(shape.layers):
        for linear in linears(shape, index):
            yield f"{linear.source}.weight", numbers(linear.rows, linear.columns)
        for norm in norms(shape, index):
            yield norm.source, torch.ones(norm.width, dtype=torch.bfloat16)
    yield "model.norm.weight", torch.ones(shape.width, dtype=torch.bfloat16)
    yield "lm_head.weight", numbers(shape.vocabulary, shape.width)
