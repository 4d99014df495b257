"""Exact integer matrix products, and the interchangeable ways to compute them (design section 6).

Every backend returns the same integers, as float64; all sums stay below 2^53. `product` multiplies 14-bit activations with int8
weights; `batched` multiplies the integers of attention. Bounds: arithmetic review 1.1.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from bytewise.inference.exact.cache import AttendingCache
from bytewise.inference.manifest import Architecture
from bytewise.protocol.errors.actors import CannotExecute

MIN_DEPTH = 8
"""Shortest sum of a product. The library's int8 kernel returns unwritten memory for K = 1 (torch 2.13)."""

MAX_DEPTH = 65_536
"""Longest sum of int8 products: 255 · 127 · K stays below 2^31 even in the unsigned form of VNNI."""

MAX_KEYS = 131_072
"""Longest sum of attention: 2^22 · 2^14 · T stays within 2^53."""

FLOAT_CHUNK = 1024
"""128 · 127 · 1024 < 2^24: float32 sums of limb products are exact in any order."""

DIGIT_CHUNK = 512
"""255 · 128 · 512 < 2^24: the same for the base-256 digits of attention."""


class Backend(Hashable, Protocol):
    """One way to multiply integers."""

    name: str
    """Name by which it is chosen and recorded."""

    def pack(self, weight: Tensor) -> Tensor:
        """int8 weights [N, K] in the layout that `product` reads."""
        ...

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """Exact values · weightᵀ: float32 integers [M, K], |v| < 2^14, with packed weights, to float64 [M, N]."""
        ...

    def batched(self, left: Tensor, right: Tensor, bits: int) -> Tensor:
        """Exact batched product: float32 integers [n, M, K] below 2^bits, float64 integers [n, K, N] below 2^14."""
        ...


@dataclass(frozen=True, slots=True)
class Weights:
    """One linear layer, as the artifact holds it."""

    high: Tensor
    """int8 [N, K]."""
    low: Tensor | None
    """int8 [N, K]: the weight is 256 · high + low. None: it has 8 bits."""
    scale: Tensor
    """float32 [N]."""
    bias: Tensor | None
    """float32 [N]."""


@runtime_checkable
class FusedBackend(Backend, Protocol):
    """A backend that also computes what is between the products, each in one call instead of a dozen. The bytes are the same."""

    def linear(self, layers: Sequence[Weights]) -> Callable[[Tensor], Tensor]:
        """Quantiser, product, scale and bias of layers with the same input: float32 [..., K] to [..., N of all of them]."""
        ...

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """RMSNorm of rows, float32 [..., D]."""
        ...

    def silu(self, x: Tensor) -> Tensor:
        """x · σ(x) of each element, float32."""
        ...

    def cache(self, shape: Architecture, batch: int, capacity: int) -> AttendingCache | None:
        """A cache that also attends; None if the backend has no attention for such a model."""
        ...

    def cache_bytes(self, shape: Architecture, batch: int, capacity: int) -> int | None:
        """Size in bytes of the cache that `cache` would make; None if there is none."""
        ...


class Int8Backend:
    """Two int8 limbs through the library's int8 kernel (VNNI, AMX, SDOT where the processor has them)."""

    name = "int8"

    def pack(self, weight: Tensor) -> Tensor:
        """Contiguous [K, N]."""
        return weight.t().contiguous()

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """hi = floor(q / 128) and lo = q - 128 hi, stacked into one product."""
        integers = values.to(torch.int16)
        limbs = torch.cat((integers >> 7, integers & 127)).to(torch.int8)
        sums = torch._int_mm(limbs, packed)
        rows = values.shape[0]
        return sums[:rows].to(torch.float64).mul_(128.0).add_(sums[rows:])

    def batched(self, left: Tensor, right: Tensor, bits: int) -> Tensor:
        """One float64 product. Int8 calls per head cost more than they save."""
        return torch.bmm(left.to(torch.float64), right)


class Float64Backend:
    """Plain float64 products: every partial sum is an integer below 2^53."""

    name = "float64"

    def pack(self, weight: Tensor) -> Tensor:
        """float64 [K, N]."""
        return weight.to(torch.float64).t().contiguous()

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """One float64 product. The activations are not split into smaller integers."""
        return torch.mm(values.to(torch.float64), packed)

    def batched(self, left: Tensor, right: Tensor, bits: int) -> Tensor:
        """One float64 product."""
        return torch.bmm(left.to(torch.float64), right)


class Float32Backend:
    """float32 products of limbs, in chunks so short that every partial sum is an integer below 2^24."""

    name = "float32"
    kind = torch.float32
    """Type of the operands: it holds integers up to 256 exactly."""

    def multiply(self, left: Tensor, right: Tensor) -> Tensor:
        """float32 product of operands of that type, [M, K] and [K, N] or batches of them."""
        return (torch.mm if left.dim() == 2 else torch.bmm)(left, right)

    def pack(self, weight: Tensor) -> Tensor:
        """The weights in the operand type, [K, N]."""
        return weight.to(self.kind).t().contiguous()

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """Limbs as for int8; chunks are added in float64."""
        high = (values * 0.0078125).floor_()
        limbs = torch.cat((high, values - high * 128.0)).to(self.kind)
        depth, rows = packed.shape[0], values.shape[0]
        total = torch.zeros((2 * rows, packed.shape[1]), dtype=torch.float64)
        for start in range(0, depth, FLOAT_CHUNK):
            stop = min(start + FLOAT_CHUNK, depth)
            total.add_(self.multiply(limbs[:, start:stop], packed[start:stop]))
        return total[:rows].mul(128.0).add_(total[rows:])

    def batched(self, left: Tensor, right: Tensor, bits: int) -> Tensor:
        """Base-256 digits of the left, 7-bit limbs of the right."""
        narrow = right.to(torch.float32)
        high = (narrow * 0.0078125).floor_()
        total = torch.zeros((left.shape[0], left.shape[1], right.shape[2]), dtype=torch.float64)
        for limb, weight in ((high, 128.0), (narrow - high * 128.0, 1.0)):
            for place, digit in enumerate(_digits(left, 2 if bits <= 15 else 3)):
                total.add_(self._chunks(digit.to(self.kind), limb.to(self.kind)).mul_(weight * 256.0**place))
        return total

    def _chunks(self, digit: Tensor, limb: Tensor) -> Tensor:
        total = torch.zeros((digit.shape[0], digit.shape[1], limb.shape[2]), dtype=torch.float64)
        for start in range(0, digit.shape[2], DIGIT_CHUNK):
            stop = min(start + DIGIT_CHUNK, digit.shape[2])
            total.add_(self.multiply(digit[:, :, start:stop], limb[:, start:stop]))
        return total


def _digits(values: Tensor, count: int) -> list[Tensor]:
    # Lowest digit first. All but the last are in [0, 255]; the last carries the sign.
    digits = []
    for _ in range(count - 1):
        carry = (values * 0.00390625).floor_()
        digits.append(values - carry * 256.0)
        values = carry
    return [*digits, values]


class MixedBackend(Float32Backend):
    """float32 for the weights, which decode reads from memory for every token; float64 for the short products of attention."""

    name = "mixed"

    def batched(self, left: Tensor, right: Tensor, bits: int) -> Tensor:
        """One float64 product."""
        return torch.bmm(left.to(torch.float64), right)


BACKENDS: tuple[Backend, ...] = (Int8Backend(), Float64Backend(), Float32Backend(), MixedBackend())
"""All backends of torch itself. `backend_selection.fastest_first` orders them for a machine."""


def backend_named(name: str, backends: Sequence[Backend] = BACKENDS) -> Backend:
    """The backend of that name; `CannotExecute` if there is none."""
    for backend in backends:
        if backend.name == name:
            return backend
    raise CannotExecute(f"no backend is called {name[:40]}: there are {', '.join(each.name for each in backends)}")
