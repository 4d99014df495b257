"""Backend of the torch path that uses operations of the C engine. Weights stay int8, and a linear layer is one call."""

import ctypes
import weakref
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bytewise.inference.exact.matmul import Weights
from bytewise.inference.manifest import Architecture
from bytewise.inference.native import heads
from bytewise.inference.native.library import ThreadPool, checked
from bytewise.protocol.errors.actors import CannotExecute
from bytewise.protocol.records.statements import CannotReason

EDGE = 32
"""Rows of integers are padded with zeros to a multiple of this number, which is EDGE of kernel.h."""

SHARED_ELEMENTS = 2**15
"""Number of elements from which on elementwise work is divided among threads. Waking a thread costs about as much as so many
elements."""


def product(pool: ThreadPool, values: Tensor, weight: Tensor) -> Tensor:
    """Returns the exact product values · weightᵀ as float64 [M, N]. `values` are integers [M, K] of any type with |v| < 2^14;
    `weight` is contiguous int8 [N, K]."""
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
    """Backend that computes linear layers, norms, SiLU and most attention in C, and other attention products in float64."""

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

    def cache(self, shape: Architecture, batch: int, capacity: int) -> heads.NativeHeads | None:
        """Returns a cache that attends in C, or None if the model has soft caps or heads that the C engine does not support."""
        return heads.NativeHeads(self._pool, shape, batch, capacity) if heads.can_attend(shape) else None

    def cache_bytes(self, shape: Architecture, batch: int, capacity: int) -> int | None:
        """Returns the size in bytes of the cache that `cache` would make, or None if `cache` returns None. The code that
        allocates the cache computes the size."""
        return heads.bytes_of(self._pool, shape, batch, capacity) if heads.can_attend(shape) else None

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
        """Binds the weights. Raises `ValueError` if shapes or types of a layer do not fit together, and `CannotExecute` if
        memory is short or there are too many layers."""
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
