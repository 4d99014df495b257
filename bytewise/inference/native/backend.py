"""The C engine's product as a backend of the torch path: weights stay int8, a quarter of float32's bytes."""

import torch
from torch import Tensor

from bytewise.inference.native.library import Pool, checked

EDGE = 32
"""Rows of integers are padded with zeros to a multiple of this: EDGE of kernel.h."""


def product(pool: Pool, values: Tensor, weight: Tensor) -> Tensor:
    """Exact values · weightᵀ: integers [M, K] of any type, |v| < 2^14, with contiguous int8 [N, K], to float64 [M, N]."""
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
    """Products of linear layers in C, those of attention in float64."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.name = f"native-{pool.kernel}"

    def pack(self, weight: Tensor) -> Tensor:
        """int8 [N, K], as it is."""
        return weight.contiguous()

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """Exact values · weightᵀ, to float64 [M, N]."""
        return product(self._pool, values, packed)

    def batched(self, left: Tensor, right: Tensor, bits: int) -> Tensor:
        """One float64 product."""
        return torch.bmm(left.to(torch.float64), right)
