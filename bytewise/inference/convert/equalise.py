"""Channel equalisation by exact powers of two (design section 6). It costs nothing when the model runs.

A producer is a norm or linear layer. Its consumers are linear layers, and the producer's channels are their input. The
equalisation divides each channel j of a producer by 2^k_j, and multiplies the consumers' columns by 2^k_j. The exponents are
k_j = round(alpha · log2 rms_j), centred on their median. The strength alpha is one of 0, 1/4, 1/2, 3/4 and 1. The equalisation
takes the strength with the least error of the consumers' outputs on calibration tokens. The reference has 16-bit weights and
22-bit activations. All decisions use integers, so every machine decides alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import torch
from torch import Tensor

from bytewise.inference.artifact.families import Linear, linears
from bytewise.inference.convert.shards import TensorReader
from bytewise.inference.exact.modules import Tensors
from bytewise.inference.exact.quantise import ACTIVATION_BITS, power_of_two, quantise, round_weight
from bytewise.inference.manifest import Architecture, Equalisation, ScaledPair
from bytewise.protocol import digests
from bytewise.protocol.digests import Label

# Powers of two that move magnitude from a producer's channels to its consumers' columns, and cancel exactly.

MAX_SHIFT = 24
"""Largest exponent of a factor. Up to this exponent, a float32 weight loses only what rounding to 8 or 16 bits would lose
anyway."""


@dataclass(slots=True)
class Shifts:
    """Factors of the channels by tensor name. A tensor without a factor stays unchanged."""

    rows: dict[str, Tensor] = field(default_factory=dict)
    """Factors of producers: 2^-k as float32 for each output channel, or for each element of a norm's weight."""
    columns: dict[str, Tensor] = field(default_factory=dict)
    """Factors of consumers: 2^k as float32 for each input channel."""

    def add(self, producer: str, exponents: Tensor, consumers: dict[str, Tensor]) -> None:
        """Records the factors of a producer and its consumers.

        Each channel of the producer is divided by 2^k, with k from `exponents`. Each column of a consumer is multiplied by 2^k,
        with k from `consumers`. It maps a consumer's name to one tensor, with the exponents in the order of the columns.
        """
        self.rows[producer] = power_of_two(-exponents)
        for name, columns in consumers.items():
            self.columns[name] = power_of_two(columns)

    def weight(self, name: str, start: int, block: Tensor) -> Tensor:
        """Returns scaled rows of a linear layer's weight. `block` has the unscaled rows from row `start` on."""
        if name in self.columns:
            block = block * self.columns[name]
        if name in self.rows:
            block = block * self.rows[name][start : start + len(block), None]
        return block

    def vector(self, name: str, values: Tensor) -> Tensor:
        """Returns a norm's weight or a bias after scaling."""
        return values * self.rows[name] if name in self.rows else values


QUARTERS = (0, 1, 2, 3, 4)
"""Values of alpha that the equalisation tries, in quarters. The first value leaves the channels unchanged."""

WORTH = Fraction(7, 8)
"""A pair is scaled only if its error falls below this share of the original error. A smaller gain may be chance, and may
increase the error elsewhere."""

SAMPLE_ROWS = 128
"""Most outputs of a consumer on which the error is measured. They are evenly spaced."""

REFERENCE_BITS = (22, 16)
"""Bits of activations and weights in the reference computation. Sums of 2^16 products of 2^22 · 2^15 stay within 2^53."""

ERROR_BITS = 20
"""Precision of errors: they are counted in units of 2^-20 of the largest output."""


@dataclass(frozen=True, slots=True)
class PairScaling:
    """Equalisation of one producer with its consumers: its strength, and the exponents of the factors."""

    quarters: int
    """Strength of the equalisation: alpha = quarters / 4."""
    exponents: Tensor
    """Exponent k of each of the producer's channels, int64."""


def choose(inputs: Tensor, consumers: list[Tensor], channel: Tensor, bits: int) -> PairScaling:
    """Returns the equalisation of one producer with the least error. Returns an equalisation with `quarters` 0, which changes
    nothing, if the error falls too little.

    `inputs` [T, K] are the consumers' inputs. `consumers` has a sample of rows [n, K] of each consumer's weight. `channel` [K]
    has the producer's channel of each of the K columns. `bits` is the precision of the consumers.
    """
    energy = _energy(inputs, channel)
    references = [_outputs(inputs, weight, *REFERENCE_BITS) for weight in consumers]
    choices = [PairScaling(quarters, _exponents(energy, quarters)) for quarters in QUARTERS]
    errors = []
    for choice in choices:
        exponents = choice.exponents[channel]
        moved, factor = inputs * power_of_two(-exponents), power_of_two(exponents)
        outputs = [_outputs(moved, weight * factor, ACTIVATION_BITS, bits) for weight in consumers]
        errors.append(sum(map(_error, outputs, references), Fraction(0)))
    best = min(range(len(choices)), key=lambda i: errors[i])
    return choices[best] if errors[best] < errors[0] * WORTH else choices[0]


def sampled(rows: int) -> range:
    """Returns the evenly spaced rows of a consumer on which the error is measured."""
    return range(0, rows, -(-rows // SAMPLE_ROWS))


def _energy(inputs: Tensor, channel: Tensor) -> list[int]:
    """Returns the sum of squares of each channel over the tokens, in integer units of the largest input."""
    rows = quantise(inputs.reshape(1, -1), ERROR_BITS)
    squares = rows.values.reshape(inputs.shape).to(torch.int64).square().sum(0)
    total = torch.zeros(int(channel.max()) + 1, dtype=torch.int64).index_add_(0, channel, squares)
    return [int(value) for value in total.tolist()]


def _exponents(energy: list[int], quarters: int) -> Tensor:
    """Returns round(alpha · log2 rms) minus its median, within ±24. A channel that is never used gets 0.

    log2 rms = log2(energy) / 2, so k = ⌊(log2(energy^quarters) + 4) / 8⌋. The ⌊log2⌋ of an integer is its bit length less one.
    """
    raw = [None if value == 0 else ((value**quarters).bit_length() + 3) // 8 for value in energy]
    known = sorted(value for value in raw if value is not None)
    middle = known[len(known) // 2] if known else 0
    return torch.tensor([0 if k is None else max(-MAX_SHIFT, min(MAX_SHIFT, k - middle)) for k in raw], dtype=torch.int64)


def _outputs(inputs: Tensor, weight: Tensor, activation_bits: int, weight_bits: int) -> Tensor:
    """Returns the output of the linear layer in the profile's arithmetic, float32 [T, n]."""
    rows, rounded = quantise(inputs, activation_bits), round_weight(weight, weight_bits)
    sums = rows.values.to(torch.float64) @ rounded.integers.to(torch.float64).t()
    return sums.to(torch.float32) * rows.scale * rounded.scale


def _error(found: Tensor, reference: Tensor) -> Fraction:
    """Returns the exact squared error divided by the squared reference. Outputs are counted in units of the largest reference."""
    rows = quantise(reference.reshape(1, -1), ERROR_BITS)
    limit = 4.0 * 2**ERROR_BITS
    counted = (found.reshape(1, -1) * power_of_two(126 + ERROR_BITS - rows.exponent)).round_().clamp_(-limit, limit)
    wanted = rows.values.to(torch.int64)
    # At most 2^15 terms below 2^46.
    size = int(wanted.square().sum())
    return Fraction(int((counted.to(torch.int64) - wanted).square().sum()), size) if size else Fraction(0)


# Pairs of a decoder layer whose channels can be scaled against each other, and the record of the scaling.


@dataclass(frozen=True, slots=True)
class _Pair:
    producer: str
    consumers: tuple[str, ...]
    channel: Tensor
    """Producer's channel for each column of the consumers."""

    @property
    def name(self) -> str:
        return f"{self.producer} > {', '.join(self.consumers)}"


class Equaliser:
    """Chooses the factors (`Shifts`) of each layer, and records the choices for the manifest."""

    def __init__(self, shape: Architecture, reader: TensorReader, bits: int, tokens: tuple[int, ...]) -> None:
        self._shape, self._reader, self._bits, self._tokens = shape, reader, bits, tokens
        self._pairs: list[ScaledPair] = []
        self._skipped: list[str] = []

    def layer(self, index: int, inputs: Tensors) -> Shifts:
        """Chooses and returns the shifts of a decoder layer. `inputs` are the inputs [T, K] of its linear layers on the
        calibration tokens."""
        shifts, prefix = Shifts(), f"layers.{index}."
        known = {linear.name.removeprefix(prefix): linear for linear in linears(self._shape, index)}
        for pair in _pairs(self._shape):
            consumers = {part: known[part] for part in pair.consumers}
            self._choose(shifts, prefix, pair, inputs[pair.consumers[0]], consumers, self._bits)
        if self._shape.experts:
            self._skipped += [
                f"{prefix}post_attention_layernorm > {prefix}router, {prefix}experts",
                f"{prefix}experts.up_proj > {prefix}experts.down_proj",
            ]
        return shifts

    def head(self, inputs: Tensor, head: Linear, bits: int) -> Shifts:
        """Chooses and returns the shifts between the last norm and the head. `inputs` are the norm's outputs [T, D]."""
        shifts = Shifts()
        self._choose(shifts, "", _Pair("norm", ("head",), torch.arange(self._shape.width)), inputs, {"head": head}, bits)
        return shifts

    def record(self) -> Equalisation:
        """Returns the record of all choices for the manifest."""
        calibration = digests.labelled(Label.CALIBRATION, *self._tokens)
        return Equalisation(calibration, len(self._tokens), tuple(self._pairs), tuple(self._skipped))

    def _choose(self, shifts: Shifts, prefix: str, pair: _Pair, inputs: Tensor, consumers: dict[str, Linear], bits: int) -> None:
        weights = [
            self._reader.tensor(f"{linear.source}.weight", (linear.rows, linear.columns)).pick(sampled(linear.rows))
            for linear in consumers.values()
        ]
        choice = choose(inputs, weights, pair.channel, bits)
        names = tuple(prefix + part for part in pair.consumers)
        self._pairs.append(ScaledPair(_Pair(prefix + pair.producer, names, pair.channel).name, choice.quarters))
        if choice.quarters:
            shifts.add(prefix + pair.producer, choice.exponents, {name: choice.exponents[pair.channel] for name in names})


def _pairs(shape: Architecture) -> Iterator[_Pair]:
    across = torch.arange(shape.width)
    yield _Pair("input_layernorm", ("q_proj", "k_proj", "v_proj"), across)
    # Each head of the output projection reads the value head that its query heads share.
    group, inner = shape.heads // shape.key_value_heads, torch.arange(shape.heads * shape.head_width)
    head, place = inner // shape.head_width, inner % shape.head_width
    yield _Pair("v_proj", ("o_proj",), head // group * shape.head_width + place)
    if not shape.experts:
        before = "pre_feedforward_layernorm" if shape.extra_norms else "post_attention_layernorm"
        yield _Pair(before, ("gate_proj", "up_proj"), across)
        yield _Pair("up_proj", ("down_proj",), torch.arange(shape.intermediate))
