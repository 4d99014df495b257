"""Rounding of weights to integers, row by row, with IEEE operations only, so every machine gets the same bytes (design section
6).

scale = float32(max|w| / limit), q = round half even(float32(w / scale)); limit 127 for 8 bits, 32639 for 16 bits in two limbs.
"""

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

LIMITS = {8: 127, 16: 32639}
"""Largest weight of each precision. -128 would shorten the longest exact sum, and 32639 = 256 · 127 + 127 fits two limbs."""

BLOCK = 2**17
"""Elements rounded at a time. They fit a processor's cache, and the memory of a conversion does not grow with the model."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """Rows of a linear layer as integers."""

    integers: Tensor
    """float32 [N, K], integers within the limit."""
    scale: Tensor
    """float32 [N]: weight = integer · scale."""

    def limbs(self, bits: int) -> tuple[Tensor, ...]:
        """int8 [N, K]: the integers. With 16 bits high and low of 256 · high + low, with low in -128 to 127."""
        if bits == 8:
            return (self.integers.to(torch.int8),)
        wide = self.integers.to(torch.int32)
        high = (wide + 128) >> 8
        return high.to(torch.int8), (wide - (high << 8)).to(torch.int8)


def round_weight(weight: Tensor, bits: int = 8) -> Rounded:
    """float32 rows [N, K] rounded to 8 or 16 bits, each with its own scale. A zero row has scale 1."""
    limit = LIMITS[bits]
    largest = weight.abs().amax(-1, keepdim=True)
    scale = largest / torch.full((1, 1), float(limit))
    # A row below the smallest normal quotient becomes zero.
    scale = torch.where(scale < float(Fraction(1, 2**60)), torch.ones_like(scale), scale)
    integers = (weight / scale).round_().clamp_(-limit, limit)
    return Rounded(integers, scale.squeeze(-1))


def power_of_two(exponents: Tensor) -> Tensor:
    """float32 2^k of int32 exponents within ±126, made from the bits."""
    return ((exponents.to(torch.int32) + 127) << 23).view(torch.float32)
