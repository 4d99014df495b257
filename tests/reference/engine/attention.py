"""Section 6 of the text: one query over its keys, rotation, and the choice of experts."""

from fractions import Fraction

from tests.reference.engine import arithmetic
from tests.reference.engine.arithmetic import Vector, dot, f32, f64, quantised, scale

Row = tuple[list[int], int]
"""Integers of 15 bits and their E."""


def mixed(query: Row, keys: list[Row], values: list[Row], factor: Fraction, cap: Fraction) -> Vector:
    """One head's output for a query over the keys that it sees; `cap` 0 for none."""
    folded = f32(factor * scale(query[1], 14))
    scores = [f32(f32(f32(Fraction(dot(query[0], key))) * folded) * scale(e, 14)) for key, e in keys]
    if cap:
        scores = [arithmetic.softcap(score, cap) for score in scores]
    weights, total = arithmetic.softmax(scores)
    shares, top = quantised([weight * scale(e, 14) for weight, (_, e) in zip(weights, values, strict=True)], 22)
    sums = [dot(shares, column) for column in zip(*(value for value, _ in values), strict=True)]
    return [f32(f32(Fraction(s)) * scale(top, 22) / total) for s in sums]


def turn(high: Vector, low: Vector) -> tuple[Fraction, Fraction]:
    """Cosine and sine of a position from those of its multiple of 256 and of the rest."""
    cos = f32(f64(f64(high[0] * low[0]) - f64(high[1] * low[1])))
    return cos, f32(f64(f64(high[1] * low[0]) + f64(high[0] * low[1])))


def routed(logits: Vector, count: int) -> dict[int, Fraction]:
    """The chosen experts in ascending index, and their weights."""
    order = sorted(range(len(logits)), key=lambda expert: (-logits[expert], expert))
    chosen = sorted(order[:count])
    e, total = arithmetic.softmax([logits[expert] for expert in chosen])
    return {expert: f32(weight / total) for expert, weight in zip(chosen, e, strict=True)}
