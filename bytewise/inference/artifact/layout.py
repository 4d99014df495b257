"""Layout of the weights file. The model's shape determines the layout: a header is checked by making it again and comparing."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import torch

from bytewise.inference.artifact.families import family_of, linears, norms
from bytewise.inference.exact import rope
from bytewise.inference.manifest import Architecture, Precision

DTYPES = {
    "float64": (torch.float64, "F64", 8), "float32": (torch.float32, "F32", 4), "bfloat16": (torch.bfloat16, "BF16", 2),
    "float16": (torch.float16, "F16", 2), "int8": (torch.int8, "I8", 1),
}  # fmt: skip
"""Maps each type in an artifact to torch's type, its name in a safetensors header, and its bytes per element."""

ALIGNMENT = 64
"""Alignment in bytes: the header is padded so that it ends at a multiple of this number."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Description of one tensor of the weights file."""

    name: str
    """Name of the tensor, unique in the file."""
    dtype: str
    """Type of the elements: a key of `DTYPES`."""
    shape: tuple[int, ...]
    """Sizes of the tensor's one or two dimensions."""

    @property
    def size(self) -> int:
        """Number of bytes of the tensor."""
        return prod(self.shape) * DTYPES[self.dtype][2]


def tensor_specs(shape: Architecture, precision: Precision) -> list[TensorSpec]:
    """Returns the tensors in file order. Wider element types come first, so that each tensor begins at a multiple of its
    element size. Tensors of equal element size stay in the order in which the model uses them."""
    return sorted(_in_order(shape, precision), key=lambda spec: -DTYPES[spec.dtype][2])


def header(specs: list[TensorSpec]) -> bytes:
    """Returns the safetensors header of these tensors: 8 bytes of length, then JSON padded with spaces."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for spec in specs:
        code, stop = DTYPES[spec.dtype][1], offset + spec.size
        entries[spec.name] = {"dtype": code, "shape": list(spec.shape), "data_offsets": [offset, stop]}
        offset = stop
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _in_order(shape: Architecture, precision: Precision) -> Iterator[TensorSpec]:
    yield TensorSpec("embedding", precision.embedding, (shape.vocabulary, shape.width))
    if family_of(shape.family).scaled_embedding:
        yield TensorSpec("embedding_scale", "float32", (1,))
    for layer in range(shape.layers):
        for linear in linears(shape, layer):
            yield from _linear(linear.name, (linear.rows, linear.columns), precision.weight_bits)
            if linear.biased:
                yield TensorSpec(f"{linear.name}.bias", "float32", (linear.rows,))
        for norm in norms(shape, layer):
            yield TensorSpec(norm.name, "float32", (norm.width,))
    yield TensorSpec("norm", "float32", (shape.width,))
    yield from _linear("head", (shape.vocabulary, shape.width), precision.head_bits)
    # Positions 0 to max_context: one more than a context holds.
    for part, rows in (("low", rope.STRIDE), ("high", shape.max_context // rope.STRIDE + 1)):
        for name in ("cos", "sin"):
            yield TensorSpec(f"rope.{part}.{name}", "float64", (rows, shape.head_width // 2))
    yield TensorSpec("epsilon", "float32", (1,))
    yield TensorSpec("attention_scale", "float32", (1,))


def _linear(name: str, shape: tuple[int, int], bits: int) -> Iterator[TensorSpec]:
    yield TensorSpec(name, "int8", shape)
    if bits == 16:
        yield TensorSpec(f"{name}.low", "int8", shape)
    yield TensorSpec(f"{name}.scale", "float32", shape[:1])
