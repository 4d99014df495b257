"""Rounding of weights to integers, row by row, with IEEE operations only, so every machine gets the same bytes (design section
6).

scale = float32(max|w| / limit), q = round half even(float32(w / scale)); limit 127 for 8 bits, 32639 for 16 bits in two limbs.
"""

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

LIMITS = {8: 127, 16: 32639}
"""Largest integer of a weight for each precision in bits. -128 would shorten the longest exact sum, and 32639 = 256 · 127 + 127
fits two limbs."""

BLOCK = 2**17
"""Number of elements that are rounded at a time. They fit a processor's cache, and a conversion's memory does not grow with the
model."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """Rows of a linear layer as integers."""

    integers: Tensor
    """Integers within the limit, as float32 [N, K]."""
    scale: Tensor
    """Scale of each row, float32 [N]. A weight is its integer times the scale of its row."""

    def limbs(self, bits: int) -> tuple[Tensor, ...]:
        """Returns the integers as int8 [N, K]. For 16 bits it returns two tensors, high and low: an integer is 256 · high +
        low, with low from -128 to 127."""
        if bits == 8:
            return (self.integers.to(torch.int8),)
        wide = self.integers.to(torch.int32)
        high = (wide + 128) >> 8
        return high.to(torch.int8), (wide - (high << 8)).to(torch.int8)


def round_weight(weight: Tensor, bits: int = 8) -> Rounded:
    """Rounds float32 rows [N, K] to 8 or 16 bits, and gives each row its own scale. A zero row has scale 1."""
    limit = LIMITS[bits]
    largest = weight.abs().amax(-1, keepdim=True)
    scale = largest / torch.full((1, 1), float(limit))
    # A row below the smallest normal quotient becomes zero.
    scale = torch.where(scale < float(Fraction(1, 2**60)), torch.ones_like(scale), scale)
    integers = (weight / scale).round_().clamp_(-limit, limit)
    return Rounded(integers, scale.squeeze(-1))


def power_of_two(exponents: Tensor) -> Tensor:
    """Returns 2^k as float32 for int32 exponents k within ±126. The number is made from its bits, so it is exact."""
    return ((exponents.to(torch.int32) + 127) << 23).view(torch.float32)
