"""Proof by interval arithmetic that no activation of a model exceeds 2^60.

Every sublayer begins with an RMSNorm, which bounds the sublayer's output for any input: |x_j| <= sqrt(D) |g_j| and, by Cauchy
and Schwarz, |Σ w x| <= sqrt(D) max|g| ‖w‖. The proof uses the artifact's own integers in exact sums and rationals. So every
machine proves the same bound. Each line of the proof is in `docs/reference/exact-arithmetic.md`, 3.6. A change of a line
changes model ids.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, isqrt

import torch
from torch import Tensor

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.artifact.families import linears, norms
from bytewise.inference.determinism import fixed
from bytewise.inference.exact.quantise import BLOCK, Rounded
from bytewise.inference.manifest import Architecture
from bytewise.protocol.errors.actors import ArtifactMismatch, UnsupportedModel

LARGEST = 2**60
"""Bound of activations. The mean of their squares, which a norm computes in float32, then stays below 2^128."""

SLACK = Fraction(9, 8)
"""Factor that covers all roundings between two norms. There are three kinds. Each quantiser adds at most 2^-4: K = 65,536
values are off by half a unit, and the unit is 2^-13 of the largest value. Attention's integer weights add 2^-6. Each float32
operation adds 2^-24."""

SMALLEST = Fraction(1, 2**30)
"""Bound of the values of rows below the quantiser's floor."""


@dataclass(slots=True)
class Magnitude:
    """Magnitudes of the weights of one linear layer. Bounds of the layer's output follow from them."""

    absolute: float = 0.0
    """Largest Σ|w| of the rows."""
    square: float = 0.0
    """Largest Σw² of the rows."""
    bias: float = 0.0
    """Largest |bias|. It is 0 if the layer has no bias."""

    def add(self, rounded: Rounded) -> None:
        """Includes more rows of the layer's weight. Sums of integers are exact in float64, and each product with a scale rounds
        once."""
        integers, scale = rounded.integers.to(torch.float64), rounded.scale.to(torch.float64)
        self.absolute = max(self.absolute, float((integers.abs().sum(-1) * scale).amax()))
        self.square = max(self.square, float(((integers * integers).sum(-1) * (scale * scale)).amax()))

    def add_bias(self, bias: Tensor) -> None:
        """Includes the bias of the layer."""
        self.bias = max(self.bias, float(bias.abs().amax()))

    def of_norm(self, gain: float, width: int) -> Fraction:
        """Returns the largest output of the layer if its input comes from an RMSNorm. The RMSNorm has `width` channels, and its
        largest |weight| is `gain`."""
        return root(width * Fraction(gain) ** 2 * Fraction(self.square)) * SLACK + Fraction(self.bias)

    def of(self, largest: Fraction) -> Fraction:
        """Returns the largest output of the layer if no input exceeds `largest`."""
        return Fraction(self.absolute) * largest * SLACK + Fraction(self.bias)


@dataclass(slots=True)
class LayerMagnitudes:
    """Magnitudes of one decoder layer. Names of tensors are without the layer's prefix."""

    linears: dict[str, Magnitude] = field(default_factory=dict)
    """Magnitudes of each linear layer."""
    gains: dict[str, float] = field(default_factory=dict)
    """Largest |weight| of each norm."""


class Bounds:
    """Two bounds of a model. One is of the residual stream, and grows with each layer. The other is the largest bound of any
    activation so far."""

    def __init__(self, shape: Architecture, embedding: Fraction, rope_gain: float, attention_scale: float) -> None:
        """`embedding` is the largest value that enters the residual stream. `rope_gain` is the largest value of the rotary
        tables."""
        self._shape = shape
        self._turn, self._scale = Fraction(3, 2) * Fraction(rope_gain), Fraction(attention_scale)
        self._largest = self._residual = Fraction(0)
        self._add("embedding", embedding)

    def layer(self, index: int, reach: LayerMagnitudes) -> None:
        """Adds one decoder layer. Raises `UnsupportedModel` if the result of an operation may exceed the bound. The error names
        the operation."""
        name, shape = f"layers.{index}.", self._shape
        first, second = ("post_attention_layernorm", "post_feedforward_layernorm") if shape.extra_norms else ("", "")
        mixed = self._attention(name, reach)
        output = self._note(f"{name}o_proj", reach.linears["o_proj"].of(mixed))
        self._add(f"{name}o_proj", self._normed(reach.gains[first]) if first else output)
        before = "pre_feedforward_layernorm" if shape.extra_norms else "post_attention_layernorm"
        gain = reach.gains[before]
        self._note(name + before, self._normed(gain))
        if not shape.experts:
            output = self._unit(name, "", gain, reach)
        else:
            parts = [f"experts.{expert}." for expert in range(shape.experts)]
            output = shape.experts_per_token * max(self._unit(name, part, gain, reach) for part in parts)
        self._add(f"{name}down_proj", self._normed(reach.gains[second]) if second else output)

    def head(self, reach: Magnitude, gain: float) -> int:
        """Adds the last norm and the head, and returns the largest exponent field E of any activation. Raises
        `UnsupportedModel` like `layer`."""
        self._note("norm", self._normed(gain))
        self._note("head", reach.of_norm(gain, self._shape.width))
        return max(64, ceil(self._largest).bit_length() + 126)

    def _attention(self, name: str, reach: LayerMagnitudes) -> Fraction:
        shape, gain = self._shape, reach.gains["input_layernorm"]
        self._note(f"{name}input_layernorm", self._normed(gain))
        query, key, value = (
            self._note(name + part, reach.linears[part].of_norm(gain, shape.width)) for part in ("q_proj", "k_proj", "v_proj")
        )
        if shape.query_key_norm:
            query, key = (self._normed(reach.gains[part], shape.head_width) for part in ("q_norm", "k_norm"))
        query, key = (self._note(f"{name}rotation", part * self._turn) for part in (query, key))
        self._note(f"{name}scores", shape.head_width * query * key * self._scale)
        # A mean of values, whose weights add up to one except for rounding.
        return self._note(f"{name}attention", value)

    def _unit(self, name: str, part: str, gain: float, reach: LayerMagnitudes) -> Fraction:
        gate, up = (
            self._note(f"{name}{part}{each}", reach.linears[part + each].of_norm(gain, self._shape.width))
            for each in ("gate_proj", "up_proj")
        )
        # Neither SiLU nor GELU makes a number larger.
        inner = self._note(f"{name}{part}unit", gate * up)
        return self._note(f"{name}{part}down_proj", reach.linears[f"{part}down_proj"].of(inner))

    def _normed(self, gain: float, width: int = 0) -> Fraction:
        return root(Fraction(width or self._shape.width)) * Fraction(gain) * SLACK + SMALLEST

    def _add(self, where: str, change: Fraction) -> None:
        self._residual += change
        self._note(f"{where} in the residual stream", self._residual)

    def _note(self, where: str, value: Fraction) -> Fraction:
        value = value * SLACK + SMALLEST
        if value > LARGEST:
            reached = ceil(value).bit_length()
            raise UnsupportedModel(f"{where}: activations up to 2^{reached} cannot be excluded, exact is up to 2^60")
        self._largest = max(self._largest, value)
        return value


def root(value: Fraction) -> Fraction:
    """Returns an upper bound of the square root, which exceeds the root by at most 2^-39."""
    return Fraction(isqrt(ceil(value * 2**80)) + 1, 2**40)


# The bound of a finished artifact, proven again from its integers, without the checkpoint.


def verify_bound(artifact: Artifact) -> None:
    """Proves the manifest's bound again from the weights. Raises `ArtifactMismatch` if the proven bound differs.

    The proof reads every weight, which takes longer than hashing them. So loading an artifact trusts the stated bound, and
    `bytewise model check` proves it. Raises `NotExact` on a machine whose float arithmetic is not that of the profile.
    """
    stated = artifact.manifest.bound
    try:
        with fixed(torch.get_num_threads()):
            proven = bound_of(artifact)
    except UnsupportedModel as error:
        raise ArtifactMismatch(artifact.name, f"bound: {error}") from None
    if proven != stated:
        raise ArtifactMismatch(
            artifact.name, f"the manifest says that no activation's E is above {stated}, the weights say {proven}"
        )


def bound_of(artifact: Artifact) -> int:
    """Returns the proven bound: the largest float32 exponent field E that an activation of the model can have, for any input
    (`docs/reference/exact-arithmetic.md`, 3.6).

    Raises `UnsupportedModel`, which names the operation, if the result of an operation may exceed 2^60.
    """
    shape, tensors = artifact.manifest.architecture, artifact.tensors
    embedding = Fraction(_largest(tensors["embedding"])) * Fraction(float(tensors.get("embedding_scale", torch.ones(1))))
    turn = max(_largest(tensor) for name, tensor in tensors.items() if name.startswith("rope."))
    bounds = Bounds(shape, embedding, turn, float(tensors["attention_scale"]))
    for index in range(shape.layers):
        reach, prefix = LayerMagnitudes(), f"layers.{index}."
        for linear in linears(shape, index):
            reach.linears[linear.name.removeprefix(prefix)] = _magnitude(artifact, linear.name)
        for norm in norms(shape, index):
            reach.gains[norm.name.removeprefix(prefix)] = _largest(tensors[norm.name])
        bounds.layer(index, reach)
    return bounds.head(_magnitude(artifact, "head"), _largest(tensors["norm"]))


def _magnitude(artifact: Artifact, name: str) -> Magnitude:
    reach, bias = Magnitude(), artifact.tensors.get(f"{name}.bias")
    for rounded in _rounded(artifact, name):
        reach.add(rounded)
    if bias is not None:
        reach.add_bias(bias)
    return reach


def _rounded(artifact: Artifact, name: str) -> Iterator[Rounded]:
    """Yields the integers of a linear layer, some rows at a time."""
    high, low, scale = (artifact.tensors.get(f"{name}{suffix}") for suffix in ("", ".low", ".scale"))
    assert high is not None and scale is not None, name
    step = max(1, BLOCK // high.shape[1])
    for start in range(0, len(high), step):
        integers = high[start : start + step].to(torch.float32)
        if low is not None:
            integers = integers * 256 + low[start : start + step]
        yield Rounded(integers, scale[start : start + step])


def _largest(tensor: Tensor) -> float:
    step = max(1, BLOCK // max(1, tensor[0].numel()))
    return max(float(tensor[start : start + step].abs().amax()) for start in range(0, len(tensor), step))
