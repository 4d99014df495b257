"""Channel equalisation by exact powers of two (design section 6, arithmetic review 2): it costs nothing when the model runs.

Each channel j that a producer hands to its consumers is divided by 2^k_j, and their columns multiplied by it:
k_j = round(alpha · log2 rms_j), centred on its median. alpha is the one of {0, 1/4, 1/2, 3/4, 1} with the least error of the
consumers' outputs on calibration tokens, against 16-bit weights and 22-bit activations. All that decides is integers: every
machine decides alike.
"""

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from bytewise.inference.artifact.weights import power_of_two, round_weight
from bytewise.inference.convert.shifts import MAX_SHIFT
from bytewise.inference.exact.quantise import ACTIVATION_BITS, quantise

QUARTERS = (0, 1, 2, 3, 4)
"""The grid of alpha, in quarters. The first leaves the channels as they are."""

WORTH = Fraction(7, 8)
"""A pair is left alone unless its error falls below this part of what it was: less is chance, and may cost elsewhere."""

SAMPLE_ROWS = 128
"""Outputs of a consumer on which the error is measured: evenly spaced."""

REFERENCE_BITS = (22, 16)
"""Of activations and weights of the reference: 2^22 · 2^15 · 2^16 products stay within 2^53."""

ERROR_BITS = 20
"""Errors are counted in units of 2^-20 of the largest output."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How strongly one pair is equalised."""

    quarters: int
    """alpha = quarters / 4."""
    exponents: Tensor
    """k of each of the producer's channels, int64."""


def choose(inputs: Tensor, consumers: list[Tensor], channel: Tensor, bits: int) -> Choice:
    """The best choice for a pair.

    `inputs` [T, K] are what the consumers read, `consumers` a sample of rows [n, K] of each, `channel` [K] the producer's channel
    that each of the K columns carries, `bits` the precision of the consumers.
    """
    energy = _energy(inputs, channel)
    references = [_outputs(inputs, weight, *REFERENCE_BITS) for weight in consumers]
    choices = [Choice(quarters, _exponents(energy, quarters)) for quarters in QUARTERS]
    errors = []
    for choice in choices:
        exponents = choice.exponents[channel]
        moved, factor = inputs * power_of_two(-exponents), power_of_two(exponents)
        outputs = [_outputs(moved, weight * factor, ACTIVATION_BITS, bits) for weight in consumers]
        errors.append(sum(map(_error, outputs, references), Fraction(0)))
    best = min(range(len(choices)), key=lambda i: errors[i])
    return choices[best] if errors[best] < errors[0] * WORTH else choices[0]


def sampled(rows: int) -> range:
    """Evenly spaced rows of a consumer."""
    return range(0, rows, -(-rows // SAMPLE_ROWS))


def _energy(inputs: Tensor, channel: Tensor) -> list[int]:
    """Sum of squares of each channel over the tokens, in units of the largest input: integers."""
    rows = quantise(inputs.reshape(1, -1), ERROR_BITS)
    squares = rows.values.reshape(inputs.shape).to(torch.int64).square().sum(0)
    total = torch.zeros(int(channel.max()) + 1, dtype=torch.int64).index_add_(0, channel, squares)
    return [int(value) for value in total.tolist()]


def _exponents(energy: list[int], quarters: int) -> Tensor:
    """round(alpha · log2 rms) minus its median, within ±24; channels that are never used stay.

    log2 rms = log2(energy) / 2, so k = ⌊(log2(energy^quarters) + 4) / 8⌋; ⌊log2⌋ of an integer is its bit length less one.
    """
    raw = [None if value == 0 else ((value**quarters).bit_length() + 3) // 8 for value in energy]
    known = sorted(value for value in raw if value is not None)
    middle = known[len(known) // 2] if known else 0
    return torch.tensor([0 if k is None else max(-MAX_SHIFT, min(MAX_SHIFT, k - middle)) for k in raw], dtype=torch.int64)


def _outputs(inputs: Tensor, weight: Tensor, activation_bits: int, weight_bits: int) -> Tensor:
    """The linear layer in the profile's arithmetic, float32 [T, n]."""
    rows, rounded = quantise(inputs, activation_bits), round_weight(weight, weight_bits)
    sums = rows.values.to(torch.float64) @ rounded.integers.to(torch.float64).t()
    return sums.to(torch.float32) * rows.scale * rounded.scale


def _error(found: Tensor, reference: Tensor) -> Fraction:
    """Squared error over squared reference, exactly, of outputs counted in units of the largest reference."""
    rows = quantise(reference.reshape(1, -1), ERROR_BITS)
    limit = 4.0 * 2**ERROR_BITS
    counted = (found.reshape(1, -1) * power_of_two(126 + ERROR_BITS - rows.exponent)).round_().clamp_(-limit, limit)
    wanted = rows.values.to(torch.int64)
    # At most 2^15 terms below 2^46.
    size = int(wanted.square().sum())
    return Fraction(int((counted.to(torch.int64) - wanted).square().sum()), size) if size else Fraction(0)
