"""Which channels of a decoder layer can be scaled against each other, and the record of what was done with them."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bytewise.inference.artifact.families import Linear, linears
from bytewise.inference.convert.equalise import choose, sampled
from bytewise.inference.convert.shards import TensorReader
from bytewise.inference.convert.shifts import Shifts
from bytewise.inference.exact.linear import Tensors
from bytewise.inference.manifest import Architecture, Equalisation, Pair
from bytewise.protocol import digests
from bytewise.protocol.digests import Label


@dataclass(frozen=True, slots=True)
class _Pair:
    producer: str
    consumers: tuple[str, ...]
    channel: Tensor
    """Producer's channel of each column of the consumers."""

    @property
    def name(self) -> str:
        return f"{self.producer} > {', '.join(self.consumers)}"


class Equaliser:
    """Chooses the shifts of each layer and remembers the choices."""

    def __init__(self, shape: Architecture, reader: TensorReader, bits: int, tokens: tuple[int, ...]) -> None:
        self._shape, self._reader, self._bits, self._tokens = shape, reader, bits, tokens
        self._pairs: list[Pair] = []
        self._skipped: list[str] = []

    def layer(self, index: int, inputs: Tensors) -> Shifts:
        """The shifts of a decoder layer whose linear layers saw these inputs [T, K]."""
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
        """The shifts between the last norm, whose outputs [T, D] these are, and the head."""
        shifts = Shifts()
        self._choose(shifts, "", _Pair("norm", ("head",), torch.arange(self._shape.width)), inputs, {"head": head}, bits)
        return shifts

    def record(self) -> Equalisation:
        """For the manifest."""
        calibration = digests.labelled(Label.CALIBRATION, *self._tokens)
        return Equalisation(calibration, len(self._tokens), tuple(self._pairs), tuple(self._skipped))

    def _choose(self, shifts: Shifts, prefix: str, pair: _Pair, inputs: Tensor, consumers: dict[str, Linear], bits: int) -> None:
        weights = [
            self._reader.tensor(f"{linear.source}.weight", (linear.rows, linear.columns)).pick(sampled(linear.rows))
            for linear in consumers.values()
        ]
        choice = choose(inputs, weights, pair.channel, bits)
        names = tuple(prefix + part for part in pair.consumers)
        self._pairs.append(Pair(_Pair(prefix + pair.producer, names, pair.channel).name, choice.quarters))
        if choice.quarters:
            shifts.add(prefix + pair.producer, choice.exponents, {name: choice.exponents[pair.channel] for name in names})


def _pairs(shape: Architecture) -> Iterator[_Pair]:
    across = torch.arange(shape.width)
    yield _Pair("input_layernorm", ("q_proj", "k_proj", "v_proj"), across)
    # Each head of the output reads the value head that its query heads share.
    group, inner = shape.heads // shape.key_value_heads, torch.arange(shape.heads * shape.head_width)
    head, place = inner // shape.head_width, inner % shape.head_width
    yield _Pair("v_proj", ("o_proj",), head // group * shape.head_width + place)
    if not shape.experts:
        before = "pre_feedforward_layernorm" if shape.extra_norms else "post_attention_layernorm"
        yield _Pair(before, ("gate_proj", "up_proj"), across)
        yield _Pair("up_proj", ("down_proj",), torch.arange(shape.intermediate))
