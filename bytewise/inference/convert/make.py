"""Makes a small model from a seed: a Hugging Face checkpoint with the same bytes on every machine.

Weights are integers of a counter-mode SHA-256, multiplied by a small integer over a power of two, which is exact. They need
neither a random generator nor libm. The
model is untrained. Its answers are printable nonsense that depends on all earlier tokens. For a network that compares bytes,
that is enough.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from bytewise.inference.artifact.token_table import byte_characters
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import ConfigurationError

SPECIAL_TOKENS = (
    "<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|reserved-0|>", "<|reserved-1|>",
)  # fmt: skip
"""Control tokens, with ids 256 to 263. The ids 0 to 255 are the bytes."""

BEGIN, END = 256, 257

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

Floats = NDArray[np.float32]


def make_model(
    path: Path, seed: int, *, layers: int = 4, width: int = 256, heads: int = 8, key_value_heads: int = 2, context: int = 2048
) -> None:
    """Writes a checkpoint folder at `path`. Another seed gives another model. Raises `ConfigurationError` if `path` exists."""
    if path.exists():
        raise ConfigurationError(path.name, "already exists")
    intermediate = width * 11 // 4 // 8 * 8
    config = _config(layers, width, heads, key_value_heads, context, intermediate)
    weights = dict(_weights(seed, config))
    path.mkdir(parents=True)
    _write_json(path / "config.json", config)
    _write_json(path / "generation_config.json", {"bos_token_id": BEGIN, "eos_token_id": END})
    _write_json(path / "tokenizer.json", tokenizer())
    special = {"bos_token": SPECIAL_TOKENS[0], "eos_token": SPECIAL_TOKENS[1]}
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": context}
    _write_json(path / "tokenizer_config.json", kind | special)
    (path / "chat_template.jinja").write_bytes(CHAT_TEMPLATE.encode())
    (path / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))


def _write_json(path: Path, value: object) -> None:
    path.write_bytes(json.dumps(value, indent=2, sort_keys=True).encode() + b"\n")


def _config(layers: int, width: int, heads: int, key_value_heads: int, context: int, intermediate: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32", "hidden_act": "silu",
        "hidden_size": width, "intermediate_size": intermediate, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": key_value_heads, "head_dim": width // heads, "max_position_embeddings": context,
        "vocab_size": 256 + len(SPECIAL_TOKENS), "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
        "attention_bias": False, "mlp_bias": False, "bos_token_id": BEGIN, "eos_token_id": END,
    }  # fmt: skip


def tokenizer() -> dict[str, Any]:
    """Returns the content of a tokenizer file: one token per byte, no merges, then the control tokens."""
    vocabulary = {character: byte for byte, character in enumerate(byte_characters())}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": 256 + i, "content": text, **flags} for i, text in enumerate(SPECIAL_TOKENS)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model: dict[str, Any] = {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
        "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocabulary, "merges": [],
    }  # fmt: skip
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": level,
        "post_processor": None, "decoder": level, "model": model,
    }  # fmt: skip


def _weights(seed: int, config: dict[str, Any]) -> Iterator[tuple[str, Floats]]:
    width, vocabulary, inner = config["hidden_size"], config["vocab_size"], config["intermediate_size"]
    shared = config["num_key_value_heads"] * config["head_dim"]
    yield "model.embed_tokens.weight", _matrix(seed, "embedding", vocabulary, width, 1)
    head = _matrix(seed, "head", vocabulary, width, HEAD_GAIN)
    # Only printable ASCII is generated: every other row is zero, so its logit is 0, far below the largest of 95.
    head[[i for i in range(vocabulary) if not 0x20 <= i < 0x7F]] = 0
    yield "lm_head.weight", head
    yield "model.norm.weight", np.ones(width, np.float32)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        shapes = {
            "self_attn.q_proj": (width, width, QUERY_GAIN), "self_attn.k_proj": (shared, width, QUERY_GAIN),
            "self_attn.v_proj": (shared, width, 1), "self_attn.o_proj": (width, width, 2), "mlp.gate_proj": (inner, width, 2),
            "mlp.up_proj": (inner, width, 1), "mlp.down_proj": (width, inner, 2),
        }  # fmt: skip
        for name, (rows, columns, gain) in shapes.items():
            yield f"{prefix}.{name}.weight", _matrix(seed, f"{layer}.{name}", rows, columns, gain)
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{prefix}.{name}.weight", np.ones(width, np.float32)


HEAD_GAIN = 6
"""Standard deviation of logits. A token whose row in the head is zero then has a weight of about e^-15, measured against the
best printable byte."""

QUERY_GAIN = 2
"""Factor that makes attention use few keys, so that the answer varies with the whole prompt."""


def _matrix(seed: int, name: str, rows: int, columns: int, gain: int) -> Floats:
    # Rows of about unit gain: the root of the row length is rounded to a power of two, so that scaling is exact.
    count = rows * columns
    blocks = (digests.labelled(Label.WEIGHTS, seed, name.encode(), i) for i in range(-(-count // 32)))
    raw = np.frombuffer(b"".join(blocks), np.uint8)[:count].astype(np.float32).reshape(rows, columns)
    # Centred, and doubled to stay an integer: odd numbers in ±255, with deviation 147.8, taken as 128.
    root = 1 << (columns.bit_length() // 2)
    return (raw * 2 - 255) * np.float32(gain / (128 * root))
