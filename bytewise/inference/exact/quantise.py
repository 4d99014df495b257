"""Roundings of the profile. They use IEEE operations only, so that every machine gets the same bytes (design section 6).

There are three roundings. The quantiser turns rows of activations into integers with a power-of-two scale. A conversion rounds
weights to integers. Decoding parameters, soft caps and known answers are rationals, which are rounded to float32.

The quantiser computes `Q(x, b)` for each row: E = max(exponent field of max|x|, 64), s = 2^(E - 126 - b), q = clamp(round half
even(x / s), ±(2^b - 1)). It reads E from the bits, so the scale is an exact power of two. A zero row is no special case, and no
result depends on flush-to-zero.
"""

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from bytewise.protocol.errors.records import MalformedValue

ACTIVATION_BITS = 14
"""Magnitude bits of activations, queries, keys and values (design section 6)."""

PROBABILITY_BITS = 22
"""Magnitude bits of attention weights. 15 bits would be too few for long contexts."""

MIN_EXPONENT = 64
"""Smallest value of E. Because of this floor, scales are normal floats and tiny rows become zeros."""

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


# Rounding of weights, row by row: scale = float32(max|w| / limit), q = round half even(float32(w / scale)).


LIMITS = {8: 127, 16: 32639}
"""Largest integer of a weight for each precision in bits. -128 is not used, because it would shorten the longest exact sum.
32639 = 256 · 127 + 127 fits two limbs."""

BLOCK = 2**17
"""Number of elements that are rounded at a time. They fit a processor's cache, and the memory of a conversion does not grow
with the model."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """Rows of a linear layer as integers."""

    integers: Tensor
    """Integers within the limit, as float32 [N, K]."""
    scale: Tensor
    """Scale of each row, float32 [N]. A weight is its integer times the scale of its row."""

    def limbs(self, bits: int) -> tuple[Tensor, ...]:
        """Returns the integers as int8 [N, K]. For 16 bits it returns two tensors, high and low. An integer is 256 · high +
        low, with low from -128 to 127."""
        if bits == 8:
            return (self.integers.to(torch.int8),)
        wide = self.integers.to(torch.int32)
        high = (wide + 128) >> 8
        return high.to(torch.int8), (wide - (high << 8)).to(torch.int8)


def round_weight(weight: Tensor, bits: int = 8) -> Rounded:
    """Rounds float32 rows [N, K] to 8 or 16 bits, and gives each row its own scale. A row whose scale would be below 2^-60 gets
    scale 1 and zeros."""
    limit = LIMITS[bits]
    largest = weight.abs().amax(-1, keepdim=True)
    scale = largest / torch.full((1, 1), float(limit))
    # With scale 1, the elements of such a row round to zero.
    scale = torch.where(scale < float(Fraction(1, 2**60)), torch.ones_like(scale), scale)
    integers = (weight / scale).round_().clamp_(-limit, limit)
    return Rounded(integers, scale.squeeze(-1))


def power_of_two(exponents: Tensor) -> Tensor:
    """Returns 2^k as float32 for int32 exponents k within ±126. The result is exact, because the number is made from its bits."""
    return ((exponents.to(torch.int32) + 127) << 23).view(torch.float32)


# Conversion of rationals to float32, rounded once, for the known-answer tests, decoding parameters and soft caps.


LOWEST_EXPONENT = -149
"""Exponent of the smallest float32. All float32 values are multiples of 2^-149."""


def nearest_float32(value: Fraction) -> float:
    """Returns the float32 that is nearest to a rational. Ties go to even, and subnormals are included. Raises `MalformedValue`
    if the rational is beyond the largest float32."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length() - 24
    if size / _power(exponent) >= 2**24:
        exponent += 1
    exponent = max(exponent, LOWEST_EXPONENT)
    # Python rounds Fractions half to even.
    rounded = round(value / _power(exponent)) * _power(exponent)
    if abs(rounded) >= _power(128):
        raise MalformedValue("float32", f"{float(size):.4g}")
    return float(rounded)


def _power(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)
