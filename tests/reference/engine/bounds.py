"""Section 3.6 of the text: the bound of activations, in fractions, line by line."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt
from typing import Any

from tests.reference.engine.arithmetic import f64
from tests.reference.engine.files import Files

SLACK, LEAST = Fraction(9, 8), Fraction(1, 2**30)

Line = tuple[str, Fraction]
"""Name and result of one line with `up`."""


@dataclass(frozen=True)
class Linear:
    """Maxima over the rows of a linear layer."""

    a: Fraction
    s: Fraction
    b: Fraction


@dataclass(frozen=True)
class Maxima:
    """What the bound is made of. Linear layers and norms by the names of their tensors."""

    embedding: Fraction
    table: Fraction
    attention_scale: Fraction
    linears: dict[str, Linear]
    norms: dict[str, Fraction]


def root(x: Fraction) -> Fraction:
    """Above the square root."""
    return Fraction(isqrt(ceil(x * 2**80)) + 1, 2**40)


def maxima(files: Files) -> Maxima:
    """Of an artifact."""
    tensors = files.tensors
    scale = files.vector("embedding_scale")[0] if "embedding_scale" in tensors else Fraction(1)
    return Maxima(
        _largest(x for row in tensors["embedding"] for x in row) * scale,
        _largest(x for name, table in tensors.items() if name.startswith("rope.") for row in table for x in row),
        files.vector("attention_scale")[0],
        {name.removesuffix(".scale"): _linear(files, name.removesuffix(".scale")) for name in tensors if name.endswith(".scale")},
        {name: _largest(files.vector(name)) for name in tensors if name.split(".")[-1].endswith("norm")},
    )


def _linear(files: Files, name: str) -> Linear:
    rows = list(zip(files.weights(name), files.vector(f"{name}.scale"), strict=True))
    return Linear(
        max(f64(sum(map(abs, row)) * scale) for row, scale in rows),
        max(f64(sum(w * w for w in row) * scale**2) for row, scale in rows),
        _largest(files.vector(f"{name}.bias")) if f"{name}.bias" in files.tensors else Fraction(0),
    )


def _largest(numbers: Iterable[Fraction]) -> Fraction:
    return max(map(abs, numbers))


class Lines:
    """The lines of one model, one after the other."""

    def __init__(self, shape: dict[str, Any], given: Maxima) -> None:
        self.shape, self.given, self.lines = shape, given, list[Line]()
        self.residual = given.embedding
        self.up("embedding", self.residual)
        for index in range(shape["layers"]):
            self._layer(f"layers.{index}.")
        self.up("norm", self.normed("norm", shape["width"]))
        self.up("head", self.after("head", "norm"))

    def bound(self) -> int:
        """The largest E; `OverflowError` for a model that is refused."""
        largest = max(value for _, value in self.lines)
        if largest > 2**60:
            raise OverflowError(f"2^{ceil(largest).bit_length()}")
        return max(64, 126 + len(f"{ceil(largest):b}"))

    def up(self, name: str, x: Fraction) -> Fraction:
        """One line."""
        self.lines.append((name, SLACK * x + LEAST))
        return self.lines[-1][1]

    def normed(self, norm: str, width: int) -> Fraction:
        """What a norm gives."""
        return SLACK * root(Fraction(width)) * self.given.norms[norm] + LEAST

    def after(self, linear: str, norm: str) -> Fraction:
        """What a linear layer gives after a norm."""
        layer = self.given.linears[linear]
        return SLACK * root(self.shape["width"] * self.given.norms[norm] ** 2 * layer.s) + layer.b

    def of(self, linear: str, x: Fraction) -> Fraction:
        """What another linear layer gives."""
        layer = self.given.linears[linear]
        return SLACK * layer.a * x + layer.b

    def _layer(self, at: str) -> None:
        four, experts = self.shape["extra_norms"], self.shape["experts"]
        o = self.up(f"{at}o_proj", self.of(f"{at}o_proj", self._mixed(at)))
        self._add(at, self.normed(f"{at}post_attention_layernorm", self.shape["width"]) if four else o)
        norm = at + ("pre_feedforward_layernorm" if four else "post_attention_layernorm")
        self.up(norm, self.normed(norm, self.shape["width"]))
        if experts:
            f = self.shape["experts_per_token"] * max(self._unit(f"{at}experts.{i}.", norm) for i in range(experts))
        else:
            f = self._unit(at, norm)
        self._add(at, self.normed(f"{at}post_feedforward_layernorm", self.shape["width"]) if four else f)

    def _add(self, at: str, change: Fraction) -> None:
        self.residual += change
        self.up(f"{at}residual stream", self.residual)

    def _mixed(self, at: str) -> Fraction:
        norm, head = f"{at}input_layernorm", self.shape["head_width"]
        self.up(norm, self.normed(norm, self.shape["width"]))
        q, k, v = (self.up(f"{at}{name}", self.after(f"{at}{name}", norm)) for name in ("q_proj", "k_proj", "v_proj"))
        if self.shape["query_key_norm"]:
            q, k = self.normed(f"{at}q_norm", head), self.normed(f"{at}k_norm", head)
        q = self.up(f"{at}rotation of queries", q * Fraction(3, 2) * self.given.table)
        k = self.up(f"{at}rotation of keys", k * Fraction(3, 2) * self.given.table)
        self.up(f"{at}scores", head * q * k * self.given.attention_scale)
        return self.up(f"{at}mixed values", v)

    def _unit(self, at: str, norm: str) -> Fraction:
        a = self.up(f"{at}gate_proj", self.after(f"{at}gate_proj", norm))
        u = self.up(f"{at}up_proj", self.after(f"{at}up_proj", norm))
        h = self.up(f"{at}unit", a * u)
        return self.up(f"{at}down_proj", self.of(f"{at}down_proj", h))
