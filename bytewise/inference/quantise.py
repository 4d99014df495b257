"""The one quantiser of the profile: rows of floats to integers under a power-of-two scale (design section 6).

`Q(x, b)` per row: E = max(exponent field of max|x|, 64), s = 2^(E - 126 - b), q = clamp(round half even(x / s), ±(2^b - 1)).
The scale is read from the bits, so there is no division, no zero row, no dependence on flush-to-zero.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

ACTIVATION_BITS = 14
"""Magnitude bits of activations, queries, keys and values (design section 6)."""

PROBABILITY_BITS = 22
"""Magnitude bits of attention weights (arithmetic review 1.4: 15 bits lose long contexts)."""

MIN_EXPONENT = 64
"""Floor of E: scales stay normal floats and tiny rows become zeros."""

NOT_FINITE = 255
"""E of a row that holds an infinity or a NaN; its integers are all zero."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Quantised rows: integers held in float32 (exact up to 2^24), and one exponent per row."""

    values: Tensor
    """Integers as float32, last dimension is the row."""
    exponent: Tensor
    """E per row, int32, last dimension 1."""
    bits: int
    """Magnitude bits b."""

    @property
    def scale(self) -> Tensor:
        """s = 2^(E - 126 - b) as float32, exactly."""
        return ((self.exponent + (1 - self.bits)) << 23).view(torch.float32)


def quantise(x: Tensor, bits: int) -> Rows:
    """Q(x, bits) over the last dimension of a float32 tensor."""
    exponent = ((x.abs().amax(-1, keepdim=True).view(torch.int32) >> 23) & 255).clamp_(min=MIN_EXPONENT)
    inverse = ((253 + bits - exponent) << 23).view(torch.float32)
    limit = float(2**bits - 1)
    values = (x * inverse).round_().clamp_(-limit, limit)
    # Elsewhere than on a processor, looking at a value would wait for the device and cannot be part of a graph.
    if x.device.type != "cpu" or int(exponent.amax()) == NOT_FINITE:
        # NaN has no integer: such a row is defined as zeros, so that Infer stays total.
        values = torch.where(exponent == NOT_FINITE, torch.zeros_like(values), values)
    return Rows(values, exponent, bits)
