"""Exact integer matrix products, and the interchangeable ways to compute them (design section 6).

Every backend returns the same integers, as float64, because all sums stay below 2^53. `product` multiplies 14-bit activations
with int8 weights. `batched` multiplies the integers of attention.
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
"""Fewest terms in a sum of a product. With one term, the library's int8 kernel returns unwritten memory (torch 2.13)."""

MAX_DEPTH = 65_536
"""Most terms K in a sum of int8 products: 255 · 128 · K stays below 2^31 even in the unsigned form of VNNI. Low limbs of 16-bit
weights reach -128."""

MAX_KEYS = 131_072
"""Most terms T in a sum of attention: 2^22 · 2^14 · T stays within 2^53."""

FLOAT_CHUNK = 1024
"""Terms of limb products in one float32 sum: 128 · 128 · 1024 = 2^24, which float32 still holds, so the sum is exact in any
order."""

DIGIT_CHUNK = 512
"""Terms of base-256 digits of attention in one float32 sum: 255 · 128 · 512 < 2^24, so the sum is exact in any order."""


class Backend(Hashable, Protocol):
    """One way to multiply integers."""

    name: str
    """Name of the backend, for settings and records."""

    def pack(self, weight: Tensor) -> Tensor:
        """Returns int8 weights [N, K] in the layout that `product` reads."""
        ...

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """Returns the exact product values · weightᵀ as float64 [M, N]. `values` are integers as float32 [M, K] with |v| <
        2^14; `packed` comes from `pack`."""
        ...

    def batched(self, left: Tensor, right: Tensor, bits: int) -> Tensor:
        """Returns the exact batched product as float64 [n, M, N]. `left` are integers below 2^bits as float32 [n, M, K];
        `right` are integers below 2^14 as float64 [n, K, N]."""
        ...


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of one linear layer, as they are in the artifact."""

    high: Tensor
    """int8 [N, K]: the weights if they have 8 bits, their high limbs if they have 16 bits."""
    low: Tensor | None
    """Low limbs, int8 [N, K]. A weight is 256 · high + low. None if weights have 8 bits."""
    scale: Tensor
    """Scale of each output, float32 [N]."""
    bias: Tensor | None
    """Bias of each output, float32 [N]; None if the layer has none."""


@runtime_checkable
class FusedBackend(Backend, Protocol):
    """Backend that also computes the steps between the products: quantising, norms, activation, attention. Each step is one
    call in place of a dozen calls. The bytes are the same."""

    def linear(self, layers: Sequence[Weights]) -> Callable[[Tensor], Tensor]:
        """Returns a function for layers with the same input. The function quantises float32 [..., K], multiplies, scales and
        adds biases. It returns [..., N] with the outputs of all layers."""
        ...

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Returns the RMSNorm of rows, float32 [..., D]."""
        ...

    def silu(self, x: Tensor) -> Tensor:
        """Returns x · σ(x) for each element, float32."""
        ...

    def cache(self, shape: Architecture, batch: int, capacity: int) -> AttendingCache | None:
        """Returns a cache that computes attention itself, or None if the backend has no attention for such a model."""
        ...

    def cache_bytes(self, shape: Architecture, batch: int, capacity: int) -> int | None:
        """Returns the size in bytes of the cache that `cache` would make, or None if `cache` returns None."""
        ...


class Int8Backend:
    """Backend that multiplies two int8 limbs of each value with the library's int8 kernel (VNNI, AMX or SDOT, if the processor
    has them)."""

    name = "int8"

    def pack(self, weight: Tensor) -> Tensor:
        """Returns the weights as contiguous [K, N]."""
        return weight.t().contiguous()

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """Returns the exact product of the values q.

        Each value has the limbs hi = floor(q / 128) and lo = q - 128 hi. They are stacked, so that one int8 product is enough.
        """
        integers = values.to(torch.int16)
        limbs = torch.cat((integers >> 7, integers & 127)).to(torch.int8)
        sums = torch._int_mm(limbs, packed)
        rows = values.shape[0]
        return sums[:rows].to(torch.float64).mul_(128.0).add_(sums[rows:])

    def batched(self, left: Tensor, right: Tensor, bits: int) -> Tensor:
        """Returns the exact batched product. It is one float64 product, because int8 calls for each head cost more than they
        save."""
        return torch.bmm(left.to(torch.float64), right)


class Float64Backend:
    """Backend of plain float64 products. Every partial sum is an integer below 2^53."""

    name = "float64"

    def pack(self, weight: Tensor) -> Tensor:
        """Returns the weights as float64 [K, N]."""
        return weight.to(torch.float64).t().contiguous()

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """Returns the exact product as one float64 product. This backend does not split the activations into smaller integers."""
        return torch.mm(values.to(torch.float64), packed)

    def batched(self, left: Tensor, right: Tensor, bits: int) -> Tensor:
        """Returns the exact batched product, which is one float64 product."""
        return torch.bmm(left.to(torch.float64), right)


class Float32Backend:
    """Backend of float32 products of limbs. The chunks of a sum are so short that every partial sum is an integer of at
    most 2^24."""

    name = "float32"
    kind = torch.float32
    """Type of the operands. It represents integers up to 256 exactly."""

    def multiply(self, left: Tensor, right: Tensor) -> Tensor:
        """Returns the float32 product of operands of type `kind`, [M, K] and [K, N] or batches of them."""
        return (torch.mm if left.dim() == 2 else torch.bmm)(left, right)

    def pack(self, weight: Tensor) -> Tensor:
        """Returns the weights in the type `kind`, [K, N]."""
        return weight.to(self.kind).t().contiguous()

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """Returns the exact product. It splits values into the same limbs as `Int8Backend`, and adds the sums of the chunks in
        float64."""
        high = (values * 0.0078125).floor_()
        limbs = torch.cat((high, values - high * 128.0)).to(self.kind)
        depth, rows = packed.shape[0], values.shape[0]
        total = torch.zeros((2 * rows, packed.shape[1]), dtype=torch.float64)
        for start in range(0, depth, FLOAT_CHUNK):
            stop = min(start + FLOAT_CHUNK, depth)
            total.add_(self.multiply(limbs[:, start:stop], packed[start:stop]))
        return total[:rows].mul(128.0).add_(total[rows:])

    def batched(self, left: Tensor, right: Tensor, bits: int) -> Tensor:
        """Returns the exact product. It splits `left` into base-256 digits and `right` into 7-bit limbs."""
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
    """Backend that multiplies with weights in float32, and computes the products of attention in float64.

    Decoding reads all weights from memory for every token, so small weights are faster. The products of attention are short.
    """

    name = "mixed"

    def batched(self, left: Tensor, right: Tensor, bits: int) -> Tensor:
        """Returns the exact batched product, which is one float64 product."""
        return torch.bmm(left.to(torch.float64), right)


BACKENDS: tuple[Backend, ...] = (Int8Backend(), Float64Backend(), Float32Backend(), MixedBackend())
"""All backends that need only torch. `backend_selection.fastest_first` orders them for a machine."""


def backend_named(name: str, backends: Sequence[Backend] = BACKENDS) -> Backend:
    """Returns the backend with this name. Raises `CannotExecute` if there is none."""
    for backend in backends:
        if backend.name == name:
            return backend
    raise CannotExecute(f"no backend is called {name[:40]}: there are {', '.join(each.name for each in backends)}")
