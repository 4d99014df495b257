"""A second implementation of exact-1 in Python integers and fractions alone, written from docs/reference/exact-arithmetic.md.

Slow and plain; shares no arithmetic with the engine, and its neighbours in this folder read the artifact's files themselves. Here
are sections 4, 6 and 7: one sequence, token by token.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from tests.reference.engine import arithmetic, attention
from tests.reference.engine.arithmetic import Vector, dot, f32, quantised, scale
from tests.reference.engine.attention import Row
from tests.reference.engine.files import Files

ACTIVATIONS = {"silu": arithmetic.silu, "gelu_tanh": arithmetic.gelu_tanh}


@dataclass(frozen=True)
class Step:
    """What the head saw and said after one token."""

    integers: list[int]
    exponent: int
    logits: Vector


class SecondEngine:
    """A model of any family."""

    def __init__(self, files: Files) -> None:
        self.files, self.shape = files, files.shape
        self.weights = cache(files.weights)
        self.activation = ACTIVATIONS[self.shape["activation"]]
        self.keys: list[list[list[Row]]] = [[] for _ in range(self.shape["layers"])]
        self.values: list[list[list[Row]]] = [[] for _ in range(self.shape["layers"])]

    def step(self, token: int) -> Step:
        """Head row and logits after one more token."""
        position = len(self.keys[0])
        x: Vector = self.files.tensors["embedding"][token]
        if "embedding_scale" in self.files.tensors:
            x = [f32(v * self.files.vector("embedding_scale")[0]) for v in x]
        for layer in range(self.shape["layers"]):
            x = self._block(x, layer, position)
        integers, exponent = quantised(self._norm(x, "norm"), 14)
        logits = self._linear((integers, exponent), "head")
        cap = Fraction(self.shape["final_softcap"])
        return Step(integers, exponent, [arithmetic.softcap(v, f32(cap)) for v in logits] if cap else logits)

    def _block(self, x: Vector, layer: int, position: int) -> Vector:
        prefix = f"layers.{layer}."
        mixed = self._attention(self._norm(x, prefix + "input_layernorm"), layer, position)
        extra = self.shape["extra_norms"]
        if extra:
            mixed = self._norm(mixed, prefix + "post_attention_layernorm")
        x = _sum(x, mixed)
        inner = self._norm(x, prefix + ("pre_feedforward_layernorm" if extra else "post_attention_layernorm"))
        outer = self._experts(inner, prefix) if self.shape["experts"] else self._unit(quantised(inner, 14), prefix)
        if extra:
            outer = self._norm(outer, prefix + "post_feedforward_layernorm")
        return _sum(x, outer)

    def _linear(self, row: Row, name: str) -> Vector:
        integers, exponent = row
        unit, scales = scale(exponent, 14), self.files.vector(f"{name}.scale")
        sums = [dot(integers, weights) for weights in self.weights(name)]
        result = [f32(f32(f32(Fraction(s)) * unit) * w) for s, w in zip(sums, scales, strict=True)]
        return _sum(result, self.files.vector(f"{name}.bias")) if f"{name}.bias" in self.files.tensors else result

    def _norm(self, x: Vector, name: str) -> Vector:
        return arithmetic.norm(x, self.files.vector(name), self.files.vector("epsilon")[0])

    def _unit(self, row: Row, prefix: str) -> Vector:
        gate, up = self._linear(row, prefix + "gate_proj"), self._linear(row, prefix + "up_proj")
        inner = [f32(self.activation(g) * u) for g, u in zip(gate, up, strict=True)]
        return self._linear(quantised(inner, 14), prefix + "down_proj")

    def _experts(self, x: Vector, prefix: str) -> Vector:
        row = quantised(x, 14)
        result = [Fraction(0)] * len(x)
        for expert, share in attention.routed(self._linear(row, prefix + "router"), self.shape["experts_per_token"]).items():
            result = _sum(result, [f32(v * share) for v in self._unit(row, f"{prefix}experts.{expert}.")])
        return result

    def _attention(self, x: Vector, layer: int, position: int) -> Vector:
        prefix, row = f"layers.{layer}.", quantised(x, 14)
        query, key, value = (self._heads(self._linear(row, prefix + name)) for name in ("q_proj", "k_proj", "v_proj"))
        if self.shape["query_key_norm"]:
            query, key = (
                [self._norm(head, prefix + name) for head in heads] for heads, name in ((query, "q_norm"), (key, "k_norm"))
            )
        self.keys[layer].append([quantised(self._rotated(head, position), 14) for head in key])
        self.values[layer].append([quantised(head, 14) for head in value])
        window = self.shape["windows"][layer] if self.shape["windows"] else 0
        seen = range(max(0, position - window + 1) if window else 0, position + 1)
        group, mixed = len(query) // len(key), []
        for h, head in enumerate(query):
            keys, values = ([rows[layer][p][h // group] for p in seen] for rows in (self.keys, self.values))
            factor, cap = self.files.vector("attention_scale")[0], f32(Fraction(self.shape["attention_softcap"]))
            mixed += attention.mixed(quantised(self._rotated(head, position), 14), keys, values, factor, cap)
        return self._linear(quantised(mixed, 14), prefix + "o_proj")

    def _heads(self, x: Vector) -> list[Vector]:
        width = self.shape["head_width"]
        return [x[i : i + width] for i in range(0, len(x), width)]

    def _rotated(self, head: Vector, position: int) -> Vector:
        tables, half, turned = self.files.tensors, len(head) // 2, list(head)
        for i in range(half):
            high = [tables[f"rope.high.{part}"][position // 256][i] for part in ("cos", "sin")]
            low = [tables[f"rope.low.{part}"][position % 256][i] for part in ("cos", "sin")]
            cos, sin = attention.turn(high, low)
            first, second = head[i], head[half + i]
            turned[i] = f32(f32(first * cos) + f32(-second * sin))
            turned[half + i] = f32(f32(second * cos) + f32(first * sin))
        return turned


def _sum(x: Vector, y: Vector) -> Vector:
    return [f32(a + b) for a, b in zip(x, y, strict=True)]
