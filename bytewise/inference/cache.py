"""Keys and values, quantised once per token and head: a row in the cache never changes (design section 6).

Slots are filled in the order of computation and carry their absolute position, so that sequences of different lengths share
a batch: which slot holds a key cannot matter, because sums of integers have no order.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bytewise.inference.quantise import ACTIVATION_BITS, Rows, quantise


@dataclass(frozen=True, slots=True)
class Stored:
    """Keys or values of one layer: all slots filled so far."""

    values: Tensor
    """Integers as float64 [B, heads, S, d]: the dtype of the product that reads them at every step."""
    scale: Tensor
    """float32 [B, heads, 1, S]."""


class ExactCache:
    """What `past_key_values` is to transformers' Llama: it calls `update` in each layer."""

    def __init__(self, layers: int, batch: int, heads: int, head_width: int, capacity: int) -> None:
        shape = (2, layers, batch, heads, capacity)
        self._values = torch.zeros((*shape, head_width), dtype=torch.float64)
        self._scale = torch.zeros((2, layers, batch, heads, 1, capacity), dtype=torch.float32)
        self.positions = torch.zeros((batch, capacity), dtype=torch.int64)
        self.length = 0
        self.capacity = capacity

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Stored, Stored]:
        """Quantises new float32 keys and values [B, heads, T, d] into the next slots; returns all of the layer."""
        return self._store(0, layer, quantise(keys, ACTIVATION_BITS)), self._store(1, layer, quantise(values, ACTIVATION_BITS))

    def place(self, positions: Tensor) -> None:
        """Absolute positions [B, T] of the slots that the next forward pass fills."""
        self.positions[:, self.length : self.length + positions.shape[1]] = positions

    def advance(self, count: int) -> None:
        """The forward pass over `count` tokens is over in every layer."""
        self.length += count

    def crop(self, length: int) -> None:
        """Forgets the slots from `length` on; the others stay as they are."""
        self.length = min(length, self.length)

    def select(self, sequence: int) -> "ExactCache":
        """The cache of one sequence of the batch, sharing memory."""
        one = object.__new__(ExactCache)
        one._values = self._values[:, :, sequence : sequence + 1]
        one._scale = self._scale[:, :, sequence : sequence + 1]
        one.positions, one.length = self.positions[sequence : sequence + 1], self.length
        one.capacity = self.capacity
        return one

    def _store(self, kind: int, layer: int, rows: Rows) -> Stored:
        stop = self.length + rows.values.shape[2]
        values, scale = self._values[kind, layer], self._scale[kind, layer]
        values[:, :, self.length : stop] = rows.values
        scale[:, :, 0, self.length : stop] = rows.scale.squeeze(-1)
        return Stored(values[:, :, :stop], scale[..., :stop])
