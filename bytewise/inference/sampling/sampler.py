"""The sampler: a pure function of (logits, decode policy, key, position), in integers (design section 6).

weights = round(exp((x - max x) / float32(temperature)) · 2^40), which is total: the largest logit always weighs 2^40; top-k
and top-p keep a set by threshold (weight, then lowest id), min-p by threshold alone; the draw runs over kept tokens in
ascending token id, with 256 bits of SHA-256 per position.
"""

from fractions import Fraction

import torch
from torch import Tensor

from bytewise.inference.exact.elementwise import exp
from bytewise.inference.exact.rounding import nearest_float32
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.records.request import DecodePolicy
from bytewise.protocol.units import Digest

WEIGHT_ONE = float(2**40)
"""Fixed point of the weights: sums over any vocabulary below 2^22 stay below 2^62."""

NUCLEUS = 256
"""Most nuclei are smaller: so many of the largest weights are looked at first, then 16 times as many, and so on."""


def greedy(logits: Tensor) -> list[int]:
    """Token of the largest logit in each row [M, V]; of equals the lowest id."""
    ids = torch.arange(logits.shape[-1])
    best = logits.amax(-1, keepdim=True)
    return [int(token) for token in torch.where(logits == best, ids, logits.shape[-1]).amin(-1).tolist()]


def choose(logits: Tensor, policy: DecodePolicy, seed: int, execution: Digest, position: int) -> int:
    """The token at one position: greedy at temperature 0, else drawn. A logit of minus infinity is never chosen."""
    if policy.temperature_fraction == 0:
        return greedy(logits[None])[0]
    weights = weigh(logits, policy.temperature_fraction)
    kept = keep(weights, policy.top_k, policy.top_p_fraction, policy.min_p_fraction)
    key = digests.labelled(Label.SAMPLER, seed, execution, position)
    return draw(kept, key)


def weigh(logits: Tensor, temperature: Fraction) -> Tensor:
    """int64 weights of float32 logits [V], the largest of them finite; the largest weight is 2^40."""
    divisor = torch.full((1,), nearest_float32(temperature), dtype=torch.float32)
    return (exp((logits - logits.amax()) / divisor) * WEIGHT_ONE).round_().to(torch.int64)


def keep(weights: Tensor, top_k: int, top_p: Fraction, min_p: Fraction = Fraction(0)) -> Tensor:
    """Weights with those of tokens outside top-k, then outside top-p, then below min-p, set to zero."""
    if 0 < top_k < weights.shape[0]:
        threshold = int(weights.topk(top_k).values[-1])
        weights = _cut(weights, threshold, top_k - int((weights > threshold).sum()))
    if top_p < 1:
        need = _ceiling(int(weights.sum()) * top_p)
        threshold, above = _nucleus(weights, need)
        weights = _cut(weights, threshold, _ceiling(Fraction(need - above, threshold)))
    if min_p > 0:
        least = _ceiling(int(weights.amax()) * min_p)
        weights = torch.where(weights >= least, weights, 0)
    return weights


def draw(weights: Tensor, key: Digest) -> int:
    """The token id whose interval of cumulated weights, in ascending id, holds floor(key · total / 2^256)."""
    cumulated = weights.cumsum(0)
    point = int.from_bytes(key) * int(cumulated[-1]) >> 256
    return int((cumulated <= point).sum())


def _nucleus(weights: Tensor, need: int) -> tuple[int, int]:
    # The weight with which the running sum over falling weights reaches `need`, and the sum of all weights above it.
    count = NUCLEUS
    while True:
        # Values alone: in which order equal weights come cannot matter.
        falling = weights.topk(count).values if count < weights.shape[0] else weights.sort(descending=True).values
        cumulated = falling.cumsum(0)
        reached = int((cumulated < need).sum())
        if reached < falling.shape[0]:
            threshold = int(falling[reached])
            before = int((falling > threshold).sum())
            return threshold, int(cumulated[before - 1]) if before else 0
        count *= 16


def _cut(weights: Tensor, threshold: int, ties: int) -> Tensor:
    # Everything above the threshold stays, and of those at it the first `ties` by id.
    at = weights == threshold
    return torch.where((weights > threshold) | (at & (at.cumsum(0) <= ties)), weights, 0)


def _ceiling(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
