"""Keys and values, quantised once per token and head. A row in the cache never changes (design section 6).

Slot and absolute position are equal, because a sequence fills its slots from 0 on. Shorter sequences of a batch are padded on
the right. No token of a sequence sees its padding.
"""

import abc
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from bytewise.inference.exact.quantise import ACTIVATION_BITS, Rows, quantise


@dataclass(frozen=True, slots=True)
class CachedTensor:
    """Keys or values of one layer, in all filled slots or in a range of them."""

    values: Tensor
    """Integers of 15 bits with sign, as int16 [B, heads, S, d]. They take a quarter of the bytes that the float64 product
    reads."""
    scale: Tensor
    """Scale of each row of integers, float32 [B, heads, 1, S]."""
    filled: Tensor | None = None
    """Mask of the slots that have a token, bool [S]. None if all slots have one. If decoding has a fixed shape, slots can be
    empty."""

    def slots(self, start: int, stop: int) -> "CachedTensor":
        """Returns the slots from `start` to before `stop`. It shares memory with this object."""
        filled = None if self.filled is None else self.filled[start:stop]
        return CachedTensor(self.values[:, :, start:stop], self.scale[..., start:stop], filled)


class TokenCache(abc.ABC):
    """Base class of caches. transformers' models get a cache as `past_key_values`, and call its method `update` in each layer."""

    length = 0
    """Number of tokens of each sequence in the cache."""
    capacity = 0
    """Number of tokens of each sequence for which the cache has room."""

    def advance(self, count: int) -> None:
        """Adds `count` tokens to the length. Call it after a forward pass has stored these tokens in every layer."""
        self.length += count

    def crop(self, length: int) -> None:
        """Drops the slots from index `length` on. Earlier slots stay unchanged."""
        self.length = min(length, self.length)

    @abc.abstractmethod
    def select(self, sequence: int) -> Self:
        """Returns the cache of one sequence of the batch. It shares memory with the batch."""


@dataclass(frozen=True, slots=True)
class NewKeys:
    """New keys or values that are not stored yet. The cache stores them when it computes attention."""

    cache: "AttendingCache"
    """Cache that will store these keys or values."""
    layer: int
    """Index of the model's layer."""
    floats: Tensor
    """The keys or values, float32 [B, heads, T, d]."""


class AttendingCache(TokenCache):
    """Base class of caches that compute attention themselves. Only such a cache knows how its memory is laid out."""

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[NewKeys, NewKeys]:
        """Returns the new keys and values without storing them. `attend` stores them and computes attention in one call."""
        return NewKeys(self, layer, keys), NewKeys(self, layer, values)

    @abc.abstractmethod
    def attend(self, layer: int, window: int, scale: float, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Stores keys and values [B, heads, T, d] in the next slots. Returns the mixed values [B, T, H, d] of the queries [B,
        H, T, d] at these slots."""


class ExactCache(TokenCache):
    """Cache that stores keys and values as tensors."""

    def __init__(self, layers: int, batch: int, heads: int, head_width: int, capacity: int) -> None:
        shape = (2, layers, batch, heads, capacity)
        self._values = torch.zeros((*shape, head_width), dtype=torch.int16)
        self._scale = torch.zeros((2, layers, batch, heads, 1, capacity), dtype=torch.float32)
        self.capacity = capacity

    @staticmethod
    def bytes_of(layers: int, batch: int, heads: int, head_width: int, capacity: int) -> int:
        """Returns the size in bytes of a cache with this shape."""
        return 2 * layers * batch * heads * capacity * (2 * head_width + 4)

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[CachedTensor, CachedTensor]:
        """Quantises new float32 keys and values [B, heads, T, d] into the next slots. Returns all keys and all values of the
        layer."""
        both = quantise(torch.stack((keys, values)), ACTIVATION_BITS)
        first, second = (Rows(both.values[kind], both.scale[kind], ACTIVATION_BITS) for kind in (0, 1))
        return self._store(0, layer, first), self._store(1, layer, second)

    def select(self, sequence: int) -> Self:
        """Returns the cache of one sequence of the batch. It shares memory with the batch."""
        one = object.__new__(type(self))
        one._values = self._values[:, :, sequence : sequence + 1]
        one._scale = self._scale[:, :, sequence : sequence + 1]
        one.length, one.capacity = self.length, self.capacity
        return one

    def _store(self, kind: int, layer: int, rows: Rows) -> CachedTensor:
        stop = self.length + rows.values.shape[2]
        values, scale = self._values[kind, layer], self._scale[kind, layer]
        values[:, :, self.length : stop] = rows.values
        scale[:, :, 0, self.length : stop] = rows.scale.squeeze(-1)
        return CachedTensor(values[:, :, :stop], scale[..., :stop])
