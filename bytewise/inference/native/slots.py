"""Where each tensor of an artifact goes in the C engine: the numbers of model.h."""

import torch

_LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_PARTS = {"": torch.int8, ".low": torch.int8, ".scale": torch.float32, ".bias": torch.float32}
_NORMS = ("input_layernorm", "post_attention_layernorm", "q_norm", "k_norm")
_TABLES = ("rope.low.cos", "rope.low.sin", "rope.high.cos", "rope.high.sin")

EMBEDDING_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
"""Types of the embedding and their numbers."""

LAYER_SLOTS: dict[str, tuple[int, torch.dtype]] = {
    **{
        f"{linear}{part}": (index * len(_PARTS) + place, dtype)
        for index, linear in enumerate(_LINEARS)
        for place, (part, dtype) in enumerate(_PARTS.items())
    },
    **{norm: (len(_LINEARS) * len(_PARTS) + index, torch.float32) for index, norm in enumerate(_NORMS)},
}
"""Slot and type of the tensors of a layer, by name after `layers.{i}.`."""

GLOBAL_SLOTS: dict[str, tuple[int, torch.dtype | None]] = {
    **{f"head{part}": (place, dtype) for place, (part, dtype) in enumerate(_PARTS.items())},
    "norm": (len(_PARTS), torch.float32),
    # The embedding keeps the type of the checkpoint.
    "embedding": (len(_PARTS) + 1, None),
    **{table: (len(_PARTS) + 2 + index, torch.float64) for index, table in enumerate(_TABLES)},
}
"""The same of tensors outside the layers."""
