"""Exact integer products on a CUDA device: the units of a GPU that multiply 8-bit integers, bfloat16, TF32 and float64.

Each class runs on any device (there slowly), so that its arithmetic is tested without a GPU; which of them are exact on a card
is for the known answers to say.
"""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from bytewise.inference.exact.matmul import Backend, Float32Backend, Float64Backend

LEAST_ROWS = 32
"""The library's int8 product wants more than 16 rows on CUDA; 32 is the next height of a tile."""

UNIT = 8
"""It wants sizes that are multiples of 8."""


class CudaInt8Backend(Float64Backend):
    """Two int8 limbs through the int8 tensor cores; attention in float64."""

    name = "cuda-int8"

    def pack(self, weight: Tensor) -> Tensor:
        """[K, N] as a view of padded memory [N', K'], the order of operands that the tensor cores read."""
        padded = torch.zeros((_up(weight.shape[0]), _up(weight.shape[1])), dtype=torch.int8, device=weight.device)
        padded[: weight.shape[0], : weight.shape[1]] = weight
        return padded[: weight.shape[0], : weight.shape[1]].t()

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """hi = floor(q / 128) and lo = q - 128 hi, stacked and padded with zeros into one product."""
        (rows, depth), columns, deep = values.shape, packed.shape[1], packed.stride(1)
        whole = packed.as_strided((deep, _up(columns)), (1, deep))
        integers = values.to(torch.int16)
        limbs = torch.zeros((max(LEAST_ROWS, _up(2 * rows)), deep), dtype=torch.int8, device=values.device)
        limbs[:rows, :depth] = (integers >> 7).to(torch.int8)
        limbs[rows : 2 * rows, :depth] = (integers & 127).to(torch.int8)
        sums = torch._int_mm(limbs, whole)[: 2 * rows, :columns]
        return sums[:rows].to(torch.float64).mul_(128.0).add_(sums[rows:])


class CudaFloat64Backend(Float64Backend):
    """Float64 on the tensor cores, or beside them."""

    name = "cuda-float64"


class CudaBfloat16Backend(Float32Backend):
    """bfloat16 limbs, which it holds exactly (|v| <= 256), summed in float32 in chunks below 2^24."""

    name = "cuda-bfloat16"
    kind = torch.bfloat16

    def multiply(self, left: Tensor, right: Tensor) -> Tensor:
        """float32 sums; on a processor, which has no such product, those of the widened operands."""
        if not left.is_cuda:
            return super().multiply(left.to(torch.float32), right.to(torch.float32))
        function = torch.mm if left.dim() == 2 else torch.bmm
        return function(left, right, out_dtype=torch.float32)


class CudaTf32Backend(Float32Backend):
    """float32 operands of 8 bits through the TF32 tensor cores, which read 11 of them."""

    name = "cuda-tf32"

    def multiply(self, left: Tensor, right: Tensor) -> Tensor:
        """The product with TF32 allowed for its duration."""
        with _tf32():
            return super().multiply(left, right)


@contextlib.contextmanager
def _tf32() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _up(size: int) -> int:
    return -(-size // UNIT) * UNIT


CUDA_BACKENDS: tuple[Backend, ...] = (CudaInt8Backend(), CudaBfloat16Backend(), CudaTf32Backend(), CudaFloat64Backend())
"""All of them, in order of the rates that their units have on paper."""
