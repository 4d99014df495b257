"""Functions between the matrix products. Each is a fixed sequence of single IEEE-754 float32 operations (design section 6).

They use no library exp, sin, rsqrt or sigmoid, because these differ between instruction sets, and even between positions in one
tensor.
"""

from fractions import Fraction

import torch
from torch import Tensor

from bytewise.inference.exact.quantise import ACTIVATION_BITS, quantise

LOG2_E = float.fromhex("0x1.715476p+0")
"""1 / ln 2, rounded to float32."""

LN2_HIGH = float.fromhex("0x1.63p-1")
"""First ten bits of ln 2. Its product with an integer below 2^14 is exact."""

LN2_LOW = float.fromhex("-0x1.bd0106p-13")
"""ln 2 - LN2_HIGH, rounded to float32."""

EXP_COEFFICIENTS = tuple(
    float(torch.tensor(float(value), dtype=torch.float32)) for value in (Fraction(1, d) for d in (5040, 720, 120, 24, 6, 2, 1, 1))
)
"""Coefficients 1/7! down to 1/0! of the series of exp, rounded to float32. For |r| < 0.35 the next term is below 2^-27."""

EXP_LOWEST = -86.0
"""Smallest argument for which `exp` computes a value. Below it, exp is exactly 0. From here to 0 all intermediate values are
normal floats."""


GELU_SLOPE = float.fromhex("0x1.988454p+0")
"""Factor 2√(2/π) of GELU, rounded to float32."""

GELU_CUBIC = float.fromhex("0x1.6e4e26p-5")
"""Factor 0.044715 of the cube in GELU, rounded to float32."""


def exp(t: Tensor) -> Tensor:
    """Returns exp(t) for t <= 0. The error is below 1.2 ulp, and the function is monotone. For t < -86 and for NaN the result
    is exactly 0."""
    bounded = t.clamp(min=EXP_LOWEST)
    n = (bounded * LOG2_E).round_()
    r = bounded.sub_(n * LN2_HIGH).sub_(n * LN2_LOW)
    result = r * EXP_COEFFICIENTS[0]
    for coefficient in EXP_COEFFICIENTS[1:-1]:
        result = result.add_(coefficient).mul_(r)
    result = result.add_(EXP_COEFFICIENTS[-1])
    # n is in [-124, 0] and the polynomial in [0.7, 1.42]: adding to the exponent field is an exact multiplication by 2^n.
    bits = result.view(torch.int32).add_(n.to(torch.int32) << 23)
    return torch.where(t >= EXP_LOWEST, bits.view(torch.float32), 0.0)


def sigmoid(x: Tensor) -> Tensor:
    """Returns σ(x). With e = exp(-|x|), the result is e / (e + 1) for x < 0, and 1 / (e + 1) for all other x."""
    e = exp(x.abs().neg_())
    return torch.where(x < 0, e, 1.0) / e.add_(1.0)


def silu(x: Tensor) -> Tensor:
    """Returns x · σ(x)."""
    return x * sigmoid(x)


def gelu_tanh(x: Tensor) -> Tensor:
    """Returns the tanh form of GELU: x · σ(v) with v = (x + x·x·x · 0.044715) · 2√(2/π). This is equal, because (1 + tanh u) /
    2 = σ(2u)."""
    return x * sigmoid((x * x * x * GELU_CUBIC + x) * GELU_SLOPE)


def tanh(x: Tensor) -> Tensor:
    """Returns tanh(x) as (1 - e) / (e + 1) with e = exp(-2|x|) and the sign of x. The error is below 2^-23."""
    e = exp(x.abs().mul_(-2.0))
    size = (1.0 - e) / (e + 1.0)
    return torch.where(x >= 0, size, size.neg())


def softcap(x: Tensor, cap: Tensor) -> Tensor:
    """Returns cap · tanh(x / cap). The tensor `cap` has one element and one dimension."""
    return tanh(x / cap).mul_(cap)


def sqrt32(x: Tensor) -> Tensor:
    """Returns the correctly rounded float32 root, computed as float32(sqrt64(float64(x))). This is correct for every faithful
    sqrt64."""
    return x.to(torch.float64).sqrt().to(torch.float32)


def rms_norm(x: Tensor, weight: Tensor, epsilon: Tensor, width: Tensor) -> Tensor:
    """Returns x / sqrt32(v) · w with v = float32(Σq² / D) · s² + ε. The integers q and the scale s come from Q(x, 14).

    `epsilon` is float32 and `width` (D) float64. Each has one element and one dimension, because some devices turn a division
    by a scalar into a multiplication by its reciprocal.
    """
    rows = quantise(x, ACTIVATION_BITS)
    integers = rows.values.to(torch.float64)
    mean = ((integers * integers).sum(-1, keepdim=True) / width).to(torch.float32)
    scale = rows.scale
    return x / sqrt32(mean * (scale * scale) + epsilon) * weight
