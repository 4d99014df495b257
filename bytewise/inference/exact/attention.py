"""Attention with exact scores, an exact maximum, integer weights and integer sums (design section 6). It does not use online
softmax.

a = q · k; x = float32(a) · (c · s_q) · s_k; x = cap · tanh(x / cap) if the model has a cap; x = -inf for a key that the query
does not see; e = exp(x - max x); den = Σ round(e · 2^30); w = Q(e · s_v, 22); o = float32(Σ w · v) · s_w / (float32(den) ·
2^-30).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bytewise.inference.exact.cache import CachedTensor, NewKeys
from bytewise.inference.exact.elementwise import exp, softcap
from bytewise.inference.exact.matmul import Backend
from bytewise.inference.exact.quantise import ACTIVATION_BITS, PROBABILITY_BITS, Rows, quantise

IMPLEMENTATION = "exact-1"
"""Name under which transformers finds `exact_attention`."""

DENOMINATOR_ONE = float(2**30)
"""Number that stands for 1 in the denominator, which is a fixed-point number."""

TILE_SCORES = 2**20
"""Most scores in memory at a time. To stay below it, queries are processed in tiles of at least one query for each head. No byte
depends on it."""


@dataclass(frozen=True, slots=True)
class AttentionRule:
    """Parameters of exact attention in one layer."""

    backend: Backend
    """Backend that multiplies the integers."""
    scale: Tensor
    """Factor of the scores, float32 [1]."""
    window: int = 0
    """Number of positions that a query sees, including its own. With 0 it sees all positions up to its own."""
    cap: Tensor | None = None
    """Soft cap of the scores, float32 [1]; None if the model has none."""


def exact_attention(module: Any, query: Tensor, key: Any, value: Any, _mask: None, **_: Any) -> tuple[Tensor, None]:
    """Computes attention for transformers, from queries, float32 [B, H, T, d], and cached keys and values. Returns [B, T, H,
    d].

    `key` and `value` are the results of the cache's `update`. Both are a `NewKeys` if the cache computes attention itself,
    otherwise a `CachedTensor`. The queries belong to the last T slots. `module.rule` is the layer's `AttentionRule`. The
    library's other arguments (mask, scaling, window) say the same in floats, and this function does not read them.
    """
    rule: AttentionRule = module.rule
    if isinstance(key, NewKeys):
        return key.cache.attend(key.layer, rule.window, float(rule.scale), query, key.floats, value.floats), None
    return attend(rule, query, key, value).transpose(1, 2).contiguous(), None


def attend(rule: AttentionRule, query: Tensor, keys: CachedTensor, values: CachedTensor) -> Tensor:
    """Returns the mixed values [B, H, T, d] of queries [B, H, T, d]. The queries belong to the last T slots of the keys."""
    batch, heads, length, _ = query.shape
    slots = keys.values.shape[2]
    rows = quantise(query, ACTIVATION_BITS)
    step = max(1, TILE_SCORES // (batch * heads * min(slots, rule.window + length if rule.window else slots)))
    tiles = []
    for start in range(0, length, step):
        stop = min(start + step, length)
        # Slots of the tile's first and last query. Slots that neither of them sees are not read.
        first, last = slots - length + start, slots - length + stop
        seen = max(0, first - rule.window + 1) if rule.window else 0
        part = Rows(rows.values[:, :, start:stop], rows.scale[:, :, start:stop], ACTIVATION_BITS)
        tiles.append(_tile(rule, part, keys.slots(seen, last), values.slots(seen, last)))
    return tiles[0] if len(tiles) == 1 else torch.cat(tiles, dim=2)


def _tile(rule: AttentionRule, query: Rows, keys: CachedTensor, values: CachedTensor) -> Tensor:
    """Returns the mixed values of queries at the last slots of the keys. If there is a window, the first query sees the slots
    from the first one on."""
    batch, heads, length, width = query.values.shape
    shared, slots = keys.values.shape[1:3]
    grouped = query.values.reshape(batch * shared, -1, width)
    sums = rule.backend.batched(grouped, _operand(keys).transpose(1, 2), ACTIVATION_BITS).to(torch.float32)
    factor = (query.scale * rule.scale).view(batch, shared, -1, 1)
    scores = sums.view(batch, shared, -1, slots).mul_(factor).mul_(keys.scale)
    if rule.cap is not None:
        scores = softcap(scores, rule.cap)
    if length > 1:
        visible = _visible(length, slots, rule.window).expand(batch, heads, length, slots)
        scores = torch.where(visible.reshape(scores.shape), scores, -torch.inf)
    if keys.filled is not None:
        scores = torch.where(keys.filled, scores, -torch.inf)
    weights = exp(scores.sub_(scores.amax(-1, keepdim=True)))
    total = (
        (weights * DENOMINATOR_ONE)
        .round_()
        .sum(-1, keepdim=True, dtype=torch.float64)
        .to(torch.float32)
        .mul_(1 / DENOMINATOR_ONE)
    )
    weighted = quantise(weights.mul_(values.scale), PROBABILITY_BITS)
    mixed = rule.backend.batched(weighted.values.flatten(0, 1), _operand(values), PROBABILITY_BITS)
    numerator = mixed.to(torch.float32).view(batch, shared, -1, width).mul_(weighted.scale)
    return (numerator / total).view(batch, heads, length, width)


def _operand(stored: CachedTensor) -> Tensor:
    """Returns the integers as float64 [B · heads, S, d], the operand of exact attention products."""
    return stored.values.flatten(0, 1).to(torch.float64)


def _visible(length: int, slots: int, window: int) -> Tensor:
    """Returns bool [length, slots]: whether each query sees each key. The queries are at the last slots."""
    own, other = torch.arange(slots - length, slots)[:, None], torch.arange(slots)[None, :]
    visible = other <= own
    return visible & (other > own - window) if window else visible
