"""Attention without online softmax: exact scores, exact maximum, integer weights, integer sums (design section 6).

a = q · k;  x = float32(a) · (c · s_q) · s_k;  masked x = -inf;  e = exp(x - max x);  den = Σ round(e · 2^30);
w = Q(e · s_v, 22);  o = float32(Σ w · v) · s_w / (float32(den) · 2^-30).
"""

from typing import Any

import torch
from torch import Tensor

from bytewise.inference.cache import Stored
from bytewise.inference.elementwise import exp
from bytewise.inference.matmul import Backend
from bytewise.inference.quantise import ACTIVATION_BITS, PROBABILITY_BITS, quantise

IMPLEMENTATION = "exact-1"
"""Name under which transformers finds this function."""

DENOMINATOR_ONE = float(2**30)
"""Fixed point of the denominator."""


def exact_attention(
    module: Any, query: Tensor, key: Stored, value: Stored, attention_mask: Tensor | None, **_: Any
) -> tuple[Tensor, None]:
    """transformers' attention interface: query float32 [B, H, T, d], cached keys and values, to [B, T, H, d].

    `attention_mask` is bool [B, 1, T, S], true where a key is visible, or None where every key is. Each row sees a key.
    """
    backend: Backend = module.backend
    batch, heads, length, width = query.shape
    shared, slots = key.values.shape[1:3]
    rows = quantise(query, ACTIVATION_BITS)
    grouped = rows.values.reshape(batch * shared, -1, width)
    sums = backend.batched(grouped, key.values.flatten(0, 1).transpose(1, 2), ACTIVATION_BITS).to(torch.float32)
    factor = (rows.scale * module.attention_scale).view(batch, shared, -1, 1)
    scores = sums.view(batch, shared, -1, slots).mul_(factor).mul_(key.scale)
    if attention_mask is not None:
        visible = attention_mask.expand(batch, heads, length, slots).reshape(scores.shape)
        scores = torch.where(visible, scores, torch.full((1,), -torch.inf))
    weights = exp(scores - scores.amax(-1, keepdim=True))
    total = (weights * DENOMINATOR_ONE).round_().sum(-1, keepdim=True, dtype=torch.float64).to(torch.float32)
    weighted = quantise(weights * value.scale, PROBABILITY_BITS)
    mixed = backend.batched(weighted.values.flatten(0, 1), value.values.flatten(0, 1), PROBABILITY_BITS)
    numerator = mixed.to(torch.float32).view(batch, shared, -1, width) * weighted.scale
    output = numerator / (total * (1 / DENOMINATOR_ONE))
    return output.view(batch, heads, length, width).transpose(1, 2).contiguous(), None
