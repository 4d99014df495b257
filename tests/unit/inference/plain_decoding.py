"""Every knob of decoding a second time, in Python integers, fractions and sorting: slow, plain, sharing nothing with torch."""

import math
from collections.abc import Sequence
from fractions import Fraction

from bytewise.protocol.request import DecodePolicy
from tests.unit.inference.reference import exponential, f32

Scores = list[Fraction | None]
"""A logit for each token; None for what may not be chosen."""


def adjusted(logits: Sequence[Fraction], policy: DecodePolicy, prompt: Sequence[int], answer: Sequence[int]) -> list[Fraction]:
    """Logits after repetition, frequency and presence penalty and bias, each a rounding to float32 of its own."""
    found, bias = [], dict(policy.logit_bias)
    repetition = f32(Fraction(policy.repetition_penalty))
    for token, x in enumerate(logits):
        count = list(answer).count(token)
        if count or token in prompt:
            x = f32(x / repetition) if x > 0 else f32(x * repetition)
        x = f32(x - f32(count * Fraction(policy.frequency_penalty)))
        x = f32(x - f32(Fraction(policy.presence_penalty))) if count else x
        found.append(f32(x + f32(Fraction(bias.get(token, "0")))))
    return found


def weights(scores: Scores, temperature: Fraction) -> list[int]:
    """Integer weights; the largest is 2^40."""
    best = max(x for x in scores if x is not None)
    divisor = f32(temperature)
    return [0 if x is None else round(exponential(f32(f32(x - best) / divisor)) * 2**40) for x in scores]


def kept(given: Sequence[int], top_k: int, top_p: Fraction, min_p: Fraction) -> list[int]:
    """Weights after top-k, then the shortest prefix that holds top-p of the mass, then min-p."""
    order = sorted(range(len(given)), key=lambda i: (-given[i], i))[: top_k or None]
    total, mass, chosen = sum(given[i] for i in order), 0, []
    for i in order:
        if top_p < 1 and mass >= top_p * total:
            break
        chosen.append(i)
        mass += given[i]
    return [weight if i in chosen and weight >= min_p * max(given) else 0 for i, weight in enumerate(given)]


def drawn(given: Sequence[int], key: bytes) -> int:
    """The token whose interval holds the point."""
    point, end = int.from_bytes(key) * sum(given) >> 256, 0
    for token, weight in enumerate(given):
        end += weight
        if point < end:
            return token
    raise AssertionError("the point lies in no interval")


def best(scores: Scores) -> int:
    """The largest logit, of equals the lowest id."""
    return max(range(len(scores)), key=lambda i: (scores[i] is not None, scores[i] or 0 if scores[i] is not None else 0, -i))


def log_of(weight: int, total: int) -> Fraction:
    """ln(weight / total) within 10^-20, by the series of the inverse hyperbolic tangent after taking out powers of two."""
    ratio, shift = Fraction(weight, total), 0
    while ratio < Fraction(2, 3):
        ratio, shift = ratio * 2, shift + 1
    return _series(ratio) - shift * _series(Fraction(2))


def _series(x: Fraction) -> Fraction:
    z, found = (x - 1) / (x + 1), Fraction(0)
    power = z
    for n in range(1, 120, 2):
        found += power / n
        # Below 2^-90 nothing matters; without rounding the numbers would grow with every turn.
        power = Fraction(math.floor(power * z * z * 2**100), 2**100)
    return 2 * found
