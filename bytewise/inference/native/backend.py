"""Backend of the torch path that uses operations of the C engine: linear layers, norms, SiLU and attention.

Weights stay int8, and a linear layer is one call.
"""

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Self

import torch
from torch import Tensor

from bytewise.inference.exact.cache import AttendingCache
from bytewise.inference.exact.matmul import Weights
from bytewise.inference.manifest import Architecture
from bytewise.inference.native.library import ThreadPool, checked
from bytewise.protocol.errors.actors import CannotExecute
from bytewise.protocol.errors.records import OutsideLimits
from bytewise.protocol.records.statements import CannotReason

# Attention for the torch path in one call to C. It uses only the cache of the C engine.

MOST_HEAD_WIDTH = 256
"""Largest head width that the C engine supports. The file attention.h has the same number."""


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


# Products, linear layers, norms and activations.

EDGE = 32
"""Rows of integers are padded with zeros to a multiple of this number. The file kernel.h has the same number as EDGE."""

SHARED_ELEMENTS = 2**15
"""Least number of elements for which elementwise work is divided among threads. Waking a thread costs about as much as
computing so many elements."""


def product(pool: ThreadPool, values: Tensor, weight: Tensor) -> Tensor:
    """Returns the exact product values · weightᵀ as float64 [M, N].

    `values` are integers [M, K] of any type with |v| < 2^14. `weight` is contiguous int8 [N, K].
    """
    (rows, depth), outputs = values.shape, weight.shape[0]
    if weight.dtype != torch.int8 or not weight.is_contiguous() or weight.shape[1] != depth:
        raise ValueError(f"weights {weight.dtype} {tuple(weight.shape)} for rows of {depth}")
    padded = torch.zeros((rows, -(-depth // EDGE) * EDGE), dtype=torch.int16)
    padded[:, :depth] = values
    sums = torch.empty((rows, outputs), dtype=torch.float64)
    status = pool.library.native_product(
        pool.handle, padded.data_ptr(), rows, padded.shape[1], weight.data_ptr(), outputs, depth, sums.data_ptr()
    )
    checked(status)
    return sums


class NativeBackend:
    """Backend that computes linear layers, norms, SiLU and most attention in C. It computes other attention products in
    float64."""

    def __init__(self, pool: ThreadPool) -> None:
        self._pool, self._alone = pool, ThreadPool(pool.kernel, 1)
        self.kernel, self.name = pool.kernel, f"native-{pool.kernel}"

    def pack(self, weight: Tensor) -> Tensor:
        """Returns the int8 weights [N, K] in contiguous memory."""
        return weight.contiguous()

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """Returns the exact product values · weightᵀ as float64 [M, N]."""
        return product(self._pool, values, packed)

    def batched(self, left: Tensor, right: Tensor, bits: int) -> Tensor:
        """Returns the exact batched product as float64 [n, M, N]. It is one float64 product of the library, not of the C
        engine."""
        return torch.bmm(left.to(torch.float64), right)

    def linear(self, layers: Sequence[Weights]) -> Callable[[Tensor], Tensor]:
        """Returns a function that computes all these layers for one input. It uses the layers' weights in place, without a
        copy."""
        return NativeLinear(self._pool, layers)

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Returns the RMSNorm of the rows of x."""
        rows = _rows(x)
        _verify("weights of a norm", weight, torch.float32, rows.shape[1])
        out, pool = torch.empty(rows.shape), self._fitting(rows)
        checked(pool.library.native_norm(pool.handle, *_place(rows), weight.data_ptr(), epsilon, out.data_ptr()))
        return out.view(x.shape)

    def silu(self, x: Tensor) -> Tensor:
        """Returns x · σ(x) for each element."""
        rows = _rows(x)
        out, pool = torch.empty(rows.shape), self._fitting(rows)
        checked(pool.library.native_silu(pool.handle, *_place(rows), out.data_ptr()))
        return out.view(x.shape)

    def cache(self, shape: Architecture, batch: int, capacity: int) -> NativeHeads | None:
        """Returns a cache that computes attention in C. Returns None if the C engine does not support the model's heads, or if
        the model has soft caps."""
        return NativeHeads(self._pool, shape, batch, capacity) if can_attend(shape) else None

    def cache_bytes(self, shape: Architecture, batch: int, capacity: int) -> int | None:
        """Returns the size in bytes of the cache that `cache` would make, or None if `cache` returns None. The code that
        allocates the cache computes the size."""
        return bytes_of(self._pool, shape, batch, capacity) if can_attend(shape) else None

    def _fitting(self, rows: Tensor) -> ThreadPool:
        return self._pool if rows.numel() >= SHARED_ELEMENTS else self._alone


class _Part(ctypes.Structure):
    """The struct Part of torch_interface.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("high", "low", "scale", "bias")),
        ("outputs", ctypes.c_int64),
    )


class NativeLinear:
    """Linear layers with the same input. Their weights stay in the artifact's memory."""

    def __init__(self, pool: ThreadPool, layers: Sequence[Weights]) -> None:
        """Passes the addresses of the weights to the C engine. Raises `ValueError` if shapes or types of a layer do not fit
        together. Raises `CannotExecute` if memory is short or there are too many layers."""
        self._pool, self._depth = pool, layers[0].high.shape[1]
        self._outputs = sum(layer.high.shape[0] for layer in layers)
        self._held: list[Tensor] = []
        parts = (_Part * len(layers))(*(self._bound(layer) for layer in layers))
        self._handle = pool.library.native_layers_open(parts, len(parts), self._depth)
        if self._handle is None:
            raise CannotExecute(f"no {len(parts)} layers of {self._depth} inputs", CannotReason.RESOURCES)
        self._free = weakref.finalize(self, pool.library.native_layers_close, self._handle)

    def __call__(self, x: Tensor) -> Tensor:
        """Returns the float32 outputs of all layers side by side."""
        rows = _rows(x)
        if rows.shape[1] != self._depth:
            raise ValueError(f"rows of {rows.shape[1]} for a layer of {self._depth}")
        out, pool = torch.empty((rows.shape[0], self._outputs)), self._pool
        checked(pool.library.native_linear(pool.handle, self._handle, *_place(rows), out.data_ptr()))
        return out.view(*x.shape[:-1], self._outputs)

    def _bound(self, layer: Weights) -> _Part:
        outputs, size = layer.high.shape[0], layer.high.shape[0] * self._depth
        return _Part(
            self._address("weights", layer.high, torch.int8, size), self._address("low limbs", layer.low, torch.int8, size),
            self._address("scales", layer.scale, torch.float32, outputs),
            self._address("biases", layer.bias, torch.float32, outputs), outputs,
        )  # fmt: skip

    def _address(self, what: str, tensor: Tensor | None, dtype: torch.dtype, count: int) -> int | None:
        if tensor is None:
            return None
        _verify(what, tensor, dtype, count)
        if tensor.data_ptr() % tensor.element_size():
            tensor = tensor.clone()
        self._held.append(tensor)
        return tensor.data_ptr()


def _rows(x: Tensor) -> Tensor:
    """Returns x as rows of consecutive elements. It copies only if x does not have such rows in memory."""
    rows = x.reshape(-1, x.shape[-1])
    if rows.dtype != torch.float32 or rows.device.type != "cpu":
        raise ValueError(f"rows of {rows.dtype} on {rows.device}")
    return rows if rows.stride(1) == 1 and rows.stride(0) >= rows.shape[1] else rows.contiguous()


def _place(rows: Tensor) -> tuple[int, int, int, int]:
    """Returns the address, number, stride and width of rows."""
    return rows.data_ptr(), rows.shape[0], rows.stride(0), rows.shape[1]


def _verify(what: str, tensor: Tensor, dtype: torch.dtype, count: int) -> None:
    # C reads as many elements as it is told, so check that they exist.
    if tensor.dtype != dtype or tensor.numel() != count or not tensor.is_contiguous():
        raise ValueError(f"{what} {tensor.dtype} {tuple(tensor.shape)} where {count} of {dtype} belong")
