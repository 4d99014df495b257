"""Penalties and biases on logits, in single float32 operations and in one order (`docs/exact-arithmetic.md`, section 8)."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from bytewise.inference.exact.rounding import nearest_float32
from bytewise.protocol.records.request import DecodePolicy
from bytewise.protocol.units import fraction


class Adjustment:
    """The adjustment of one answer's logits, which depends on the tokens of prompt and answer so far."""

    def __init__(self, policy: DecodePolicy, prompt: Sequence[int], vocabulary: int) -> None:
        self._repetition = fraction(policy.repetition_penalty)
        self._presence = nearest_float32(fraction(policy.presence_penalty))
        self._frequency = fraction(policy.frequency_penalty)
        self._count: Counter[int] = Counter()
        # Of the whole vocabulary, 0 where nothing is subtracted: x - 0 and x + 0 are x.
        self._seen, self._often, self._once, self._bias = (np.zeros(vocabulary, dtype) for dtype in ("?", "f4", "f4", "f4"))
        self._seen[[token for token in prompt if token < vocabulary]] = True
        for token, bias in policy.logit_bias:
            if token < vocabulary:
                self._bias[token] = nearest_float32(fraction(bias))
        self._biased = bool(self._bias.any())

    def add(self, token: int) -> None:
        """The answer has one more token."""
        self._count[token] += 1
        self._seen[token] = True
        self._once[token] = self._presence
        self._often[token] = nearest_float32(self._count[token] * self._frequency)

    def apply(self, logits: Tensor) -> Tensor | None:
        """Adjusted float32 logits [V]; None if one is not finite any more: the answer ends here."""
        if self._repetition != 1:
            logits = self._repeat(logits, self._repetition)
        if self._frequency:
            logits = logits - torch.from_numpy(self._often)
        if self._presence:
            logits = logits - torch.from_numpy(self._once)
        if self._biased:
            logits = logits + torch.from_numpy(self._bias)
        return logits if bool(torch.isfinite(logits).all()) else None

    def _repeat(self, logits: Tensor, penalty: Fraction) -> Tensor:
        factor = torch.full((1,), nearest_float32(penalty), dtype=torch.float32)
        moved = torch.where(logits > 0, logits / factor, logits * factor)
        return torch.where(torch.from_numpy(self._seen), moved, logits)
