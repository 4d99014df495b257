"""Quantiser of the profile. It turns rows of floats into integers with a power-of-two scale (design section 6).

`Q(x, b)` per row: E = max(exponent field of max|x|, 64), s = 2^(E - 126 - b), q = clamp(round half even(x / s), ±(2^b - 1)).
The scale is read from the bits, so there is no division, no special case for a zero row, and no dependence on flush-to-zero.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

ACTIVATION_BITS = 14
"""Magnitude bits of activations, queries, keys and values (design section 6)."""

PROBABILITY_BITS = 22
"""Magnitude bits of attention weights (arithmetic review 1.4: 15 bits lose long contexts)."""

MIN_EXPONENT = 64
"""Smallest value of E. This floor keeps scales normal floats, and tiny rows become zeros."""

NOT_FINITE = 255
"""E of a row with an infinity or a NaN. All integers of such a row are zero."""


_MAGNITUDE, _FIELD = 0x7FFFFFFF, 0x7F800000
"""Two masks: the bits of a float32 without its sign, and the bits of its exponent field."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Quantised rows: integers as float32 (exact up to 2^24), and one scale per row."""

    values: Tensor
    """Integers as float32. The last dimension is the row."""
    scale: Tensor
    """Scale of each row, s = 2^(E - 126 - b), as float32. The last dimension is 1."""
    bits: int
    """Magnitude bits b of the integers."""

    @property
    def exponent(self) -> Tensor:
        """Exponent field E of the largest value of each row, int32. It is computed from `scale`."""
        return (self.scale.view(torch.int32) >> 23) + (self.bits - 1)


def quantise(x: Tensor, bits: int) -> Rows:
    """Quantises a float32 tensor over its last dimension, and returns Q(x, bits)."""
    # As integers, magnitudes have the order of the floats, and NaN is above them all.
    largest = (x.view(torch.int32) & _MAGNITUDE).amax(-1, keepdim=True)
    field = (largest & _FIELD).clamp_(min=MIN_EXPONENT << 23)
    scale = (field + ((1 - bits) << 23)).view(torch.float32)
    limit = float(2**bits - 1)
    # Division by a power of two is exact, or the result is so small that it rounds to 0 anyway.
    values = (x / scale).round_().clamp_(-limit, limit)
    # On another device, reading a value would wait for the device, and cannot be part of a graph.
    if x.device.type != "cpu" or int(field if field.numel() == 1 else field.amax()) == _FIELD:
        # NaN has no integer. Such a row is defined as zeros, so that every request has an answer.
        values = torch.where(field == _FIELD, torch.zeros_like(values), values)
    return Rows(values, scale, bits)
