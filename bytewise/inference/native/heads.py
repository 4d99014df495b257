"""Attention for the torch path in one call to C. It uses only the cache of the C engine."""

import ctypes
import weakref
from typing import Self

import torch
from torch import Tensor

from bytewise.inference.exact.cache import AttendingCache
from bytewise.inference.manifest import Architecture
from bytewise.inference.native.library import ThreadPool, checked
from bytewise.protocol.errors.actors import CannotExecute
from bytewise.protocol.errors.records import OutsideLimits
from bytewise.protocol.records.statements import CannotReason

MOST_HEAD_WIDTH = 256
"""Largest head width that the C engine supports, from attention.h."""


class _Shape(ctypes.Structure):
    """The struct Shape of model.h."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            "layers", "width", "intermediate", "heads", "key_value_heads", "head_width", "vocabulary", "positions",
            "query_key_norm", "embedding_type",
        )
    )  # fmt: skip


class _Attended(ctypes.Structure):
    """The struct Attended of attended.h."""

    _fields_ = (
        ("shape", _Shape), ("cache", ctypes.c_void_p), ("layer", ctypes.c_int64), ("window", ctypes.c_int64),
        ("sequence", ctypes.c_int64), ("sequences", ctypes.c_int64), ("position", ctypes.c_int64), ("tokens", ctypes.c_int64),
        ("scale", ctypes.c_float), ("queries", ctypes.c_void_p), ("keys", ctypes.c_void_p), ("values", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
    )  # fmt: skip


def can_attend(shape: Architecture) -> bool:
    """Returns whether the C engine supports the attention of such a model."""
    return shape.attention_softcap == "0" and shape.head_width <= MOST_HEAD_WIDTH and shape.head_width % 2 == 0


def bytes_of(pool: ThreadPool, shape: Architecture, batch: int, capacity: int) -> int:
    """Returns the size in bytes of a `NativeHeads` for such a model."""
    return int(pool.library.native_heads_bytes(ctypes.byref(_shape(shape)), batch, capacity))


def _shape(shape: Architecture) -> _Shape:
    return _Shape(layers=shape.layers, heads=shape.heads, key_value_heads=shape.key_value_heads, head_width=shape.head_width)


class NativeHeads(AttendingCache):
    """Cache of the keys and values of a batch in the C engine's layout."""

    def __init__(self, pool: ThreadPool, shape: Architecture, batch: int, capacity: int) -> None:
        """Allocates the cache. Raises `CannotExecute` if memory is short."""
        self._pool, self._batch, self._first, self.capacity = pool, batch, 0, capacity
        self._shape = _shape(shape)
        self._handle = pool.library.native_heads_open(ctypes.byref(self._shape), batch, capacity)
        if self._handle is None:
            raise CannotExecute("out of memory", CannotReason.RESOURCES)
        self._free = weakref.finalize(self, pool.library.native_cache_close, self._handle)
        self._whole: NativeHeads | None = None

    def select(self, sequence: int) -> Self:
        """Returns the cache of one sequence of the batch. It shares memory with the batch."""
        one = object.__new__(type(self))
        # The view keeps the whole cache alive until the last view is gone.
        one._whole, one._pool, one._shape, one._handle = self, self._pool, self._shape, self._handle
        one._batch, one._first, one.length, one.capacity = 1, self._first + sequence, self.length, self.capacity
        return one

    def attend(self, layer: int, window: int, scale: float, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Stores keys and values [B, heads, T, d], and returns the mixed values [B, T, H, d] of the queries [B, H, T, d].
        Raises `OutsideLimits` if the cache has no room."""
        batch, heads, tokens, width = query.shape
        if self.length + tokens > self.capacity:
            raise OutsideLimits("cache", self.length + tokens, self.capacity)
        shared = (batch, self._shape.key_value_heads, tokens, self._shape.head_width)
        if (
            batch != self._batch
            or (heads, width) != (self._shape.heads, shared[-1])
            or (keys.shape, values.shape) != (shared, shared)
        ):
            raise ValueError(f"queries {tuple(query.shape)}, keys {tuple(keys.shape)}, values {tuple(values.shape)}")
        rows = [_by_token(x) for x in (query, keys, values)]
        out = torch.empty((batch, tokens, heads, width))
        call = _Attended(
            self._shape, self._handle, layer, window, self._first, batch, self.length, tokens, scale,
            *(x.data_ptr() for x in rows), out.data_ptr(),
        )  # fmt: skip
        checked(self._pool.library.native_attended(self._pool.handle, ctypes.byref(call)))
        return out


def _by_token(x: Tensor) -> Tensor:
    """Returns x [B, heads, T, d] as contiguous [B, T, heads, d]."""
    if x.dtype != torch.float32:
        raise ValueError(f"heads of {x.dtype}")
    return x.transpose(1, 2).contiguous()
