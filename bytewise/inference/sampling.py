"""The sampler: a pure function of (logits, decode policy, key, position), in integers (design section 6).

weights = round(exp((x - max x) / float32(temperature)) · 2^40), which is total: the largest logit always weighs 2^40;
top-k and top-p keep a set by threshold (weight, then lowest id); the draw runs over kept tokens in ascending token id, with
256 bits of SHA-256 per position.
"""

from collections.abc import Callable
from fractions import Fraction

import torch
from torch import Tensor

from bytewise.inference.elementwise import exp
from bytewise.inference.rounding import nearest_float32
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.request import DecodePolicy
from bytewise.protocol.units import Digest

WEIGHT_ONE = float(2**40)
"""Fixed point of the weights: sums over any vocabulary below 2^22 stay below 2^62."""


def greedy(logits: Tensor) -> list[int]:
    """Token of the largest logit in each row [M, V]; of equals the lowest id."""
    ids = torch.arange(logits.shape[-1])
    best = logits.amax(-1, keepdim=True)
    return [int(token) for token in torch.where(logits == best, ids, logits.shape[-1]).amin(-1).tolist()]


def choose(logits: Tensor, policy: DecodePolicy, seed: int, execution: Digest, position: int) -> int:
    """The token at one position: greedy at temperature 0, else drawn."""
    if policy.temperature_fraction == 0:
        return greedy(logits[None])[0]
    kept = keep(weigh(logits, policy.temperature_fraction), policy.top_k, policy.top_p_fraction)
    key = digests.labelled(Label.SAMPLER, seed, execution, position)
    return draw(kept, key)


def weigh(logits: Tensor, temperature: Fraction) -> Tensor:
    """int64 weights of finite float32 logits [V]; the largest is 2^40."""
    divisor = torch.full((1,), nearest_float32(temperature), dtype=torch.float32)
    return (exp((logits - logits.amax()) / divisor) * WEIGHT_ONE).round_().to(torch.int64)


def keep(weights: Tensor, top_k: int, top_p: Fraction) -> Tensor:
    """Weights with those of tokens outside top-k, then outside top-p, set to zero."""
    if 0 < top_k < weights.shape[0]:
        threshold = _largest(weights, lambda t: int((weights >= t).sum()) >= top_k)
        weights = _cut(weights, threshold, top_k - int((weights > threshold).sum()))
    if top_p < 1:
        total = int(weights.sum())
        need = -(-total * top_p.numerator // top_p.denominator)
        threshold = _largest(weights, lambda t: int(weights[weights >= t].sum()) >= need)
        above = int(weights[weights > threshold].sum())
        weights = _cut(weights, threshold, -(-(need - above) // threshold))
    return weights


def draw(weights: Tensor, key: Digest) -> int:
    """The token id whose interval of cumulated weights, in ascending id, holds floor(key · total / 2^256)."""
    cumulated = weights.cumsum(0)
    point = int.from_bytes(key) * int(cumulated[-1]) >> 256
    return int((cumulated <= point).sum())


def _largest(weights: Tensor, holds: Callable[[int], bool]) -> int:
    # Largest threshold at which a condition that falls with the threshold still holds; it holds at 0.
    low, high = 0, int(weights.amax())
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _cut(weights: Tensor, threshold: int, ties: int) -> Tensor:
    # Everything above the threshold stays, and of those at it the first `ties` by id.
    at = weights == threshold
    return torch.where((weights > threshold) | (at & (at.cumsum(0) <= ties)), weights, torch.zeros_like(weights))
