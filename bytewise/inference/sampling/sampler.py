"""The sampler: a pure integer function of logits, decode policy, key and position (design section 6).

weights = round(exp((x - max x) / float32(temperature)) · 2^40). They are defined for every row, because the largest logit
always weighs 2^40. Top-k and top-p keep the tokens with the largest weights. Of tokens with equal weight, they keep the lowest
ids. Min-p keeps all tokens whose weight reaches a threshold. The sampler draws from the remaining tokens in ascending id, with
256 bits of SHA-256 per position.
"""

import decimal
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from bytewise.inference.exact.elementwise import exp
from bytewise.inference.exact.quantise import nearest_float32
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.records.request import DecodePolicy, TokenLogprobs
from bytewise.protocol.units import Decimal, Digest, fraction

# Penalties and biases on logits, in single float32 operations in a fixed order (docs/reference/exact-arithmetic.md, section 8).


class LogitProcessor:
    """Penalties and biases of one answer. They change its logits, depending on the tokens of the prompt and of the answer so
    far."""

    def __init__(self, policy: DecodePolicy, prompt: Sequence[int], vocabulary: int) -> None:
        self._repetition = fraction(policy.repetition_penalty)
        self._presence = nearest_float32(fraction(policy.presence_penalty))
        self._frequency = fraction(policy.frequency_penalty)
        self._count: Counter[int] = Counter()
        # For the whole vocabulary, 0 where nothing is subtracted: x - 0 and x + 0 are x.
        self._seen, self._often, self._once, self._bias = (np.zeros(vocabulary, dtype) for dtype in ("?", "f4", "f4", "f4"))
        self._seen[[token for token in prompt if token < vocabulary]] = True
        for token, bias in policy.logit_bias:
            if token < vocabulary:
                self._bias[token] = nearest_float32(fraction(bias))
        self._biased = bool(self._bias.any())

    def add(self, token: int) -> None:
        """Counts one more token of the answer."""
        self._count[token] += 1
        self._seen[token] = True
        self._once[token] = self._presence
        self._often[token] = nearest_float32(self._count[token] * self._frequency)

    def apply(self, logits: Tensor) -> Tensor | None:
        """Returns the adjusted float32 logits [V]. Returns None if one of them is no longer finite. The answer ends at such a
        row."""
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


WEIGHT_ONE = float(2**40)
"""Weight of the largest logit. Weights are fixed-point numbers with 40 bits. Sums over any vocabulary below 2^22 stay below
2^62."""

NUCLEUS = 256
"""Number of largest weights among which the sampler first looks for the nucleus, which is the tokens of top-p. The nucleus is
usually smaller. If it is not, the sampler tries 16 times as many weights, and so on."""


def greedy(logits: Tensor) -> list[int]:
    """Returns for each row of logits [M, V] the token of the largest logit. Among equal logits the lowest id wins."""
    ids = torch.arange(logits.shape[-1])
    best = logits.amax(-1, keepdim=True)
    return [int(token) for token in torch.where(logits == best, ids, logits.shape[-1]).amin(-1).tolist()]


def choose(logits: Tensor, policy: DecodePolicy, seed: int, execution: Digest, position: int) -> int:
    """Returns the token at one position. At temperature 0 it is the greedy token, otherwise the sampler draws it. It is never a
    token with a logit of minus infinity."""
    if policy.temperature_fraction == 0:
        return greedy(logits[None])[0]
    weights = weigh(logits, policy.temperature_fraction)
    kept = keep(weights, policy.top_k, policy.top_p_fraction, policy.min_p_fraction)
    key = digests.labelled(Label.SAMPLER, seed, execution, position)
    return draw(kept, key)


def weigh(logits: Tensor, temperature: Fraction) -> Tensor:
    """Returns int64 weights for float32 logits [V] whose maximum is finite. The largest weight is 2^40."""
    divisor = torch.full((1,), nearest_float32(temperature), dtype=torch.float32)
    return (exp((logits - logits.amax()) / divisor) * WEIGHT_ONE).round_().to(torch.int64)


def keep(weights: Tensor, top_k: int, top_p: Fraction, min_p: Fraction = Fraction(0)) -> Tensor:
    """Returns the weights with zeros for dropped tokens. The function first drops tokens outside top-k, then outside top-p,
    then below min-p."""
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
    """Returns the drawn token. The weights, in ascending id, divide the range from 0 to their sum into intervals. The drawn
    token's interval contains floor(key · total / 2^256)."""
    cumulated = weights.cumsum(0)
    point = int.from_bytes(key) * int(cumulated[-1]) >> 256
    return int((cumulated <= point).sum())


def _nucleus(weights: Tensor, need: int) -> tuple[int, int]:
    # Returns the weight at which the running sum over falling weights reaches `need`, and the sum of all larger weights.
    count = NUCLEUS
    while True:
        # Only values are used, so the order of equal weights does not matter.
        falling = weights.topk(count).values if count < weights.shape[0] else weights.sort(descending=True).values
        cumulated = falling.cumsum(0)
        reached = int((cumulated < need).sum())
        if reached < falling.shape[0]:
            threshold = int(falling[reached])
            before = int((falling > threshold).sum())
            return threshold, int(cumulated[before - 1]) if before else 0
        count *= 16


def _cut(weights: Tensor, threshold: int, ties: int) -> Tensor:
    # All tokens above the threshold are kept, and of the tokens at the threshold the first `ties` by id.
    at = weights == threshold
    return torch.where((weights > threshold) | (at & (at.cumsum(0) <= ties)), weights, 0)


def _ceiling(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


# Logprobs as exact decimals, which an output can state and a verifier can compare (section 8 of the profile).

FLOOR = Decimal("-9999")
"""Log probability that stands for a token whose weight rounds to 0."""

PLACES = decimal.Decimal("0.000001")

# The library's logarithm is correctly rounded. With 40 digits, the difference of two is far from any tie at six decimals.
_CONTEXT = decimal.Context(prec=40, rounding=decimal.ROUND_HALF_EVEN)


def token_logprobs(logits: Tensor, token: int, top: int) -> TokenLogprobs:
    """Returns the log probabilities of a token and of the `top` most probable tokens, from unadjusted finite logits [V] at
    temperature 1."""
    weights = weigh(logits, Fraction(1))
    total = int(weights.sum())
    best = [(each, logprob(int(weights[each]), total)) for each in largest(logits, top)]
    return TokenLogprobs(logprob(int(weights[token]), total), tuple(best))


def logprob(weight: int, total: int) -> Decimal:
    """Returns ln(weight / total) with six decimals, rounded half to even, as canonical text. Returns -9999 for weight 0."""
    if weight == 0:
        return FLOOR
    exact = _CONTEXT.subtract(_CONTEXT.ln(weight), _CONTEXT.ln(total))
    digits = f"{exact.quantize(PLACES, context=_CONTEXT):f}".rstrip("0").rstrip(".")
    return Decimal("0" if digits in ("-0", "") else digits)


def largest(logits: Tensor, count: int) -> list[int]:
    """Returns the ids of the `count` largest logits. Larger logits come first. Among equal logits the lower id comes first.
    Returns all ids if there are fewer."""
    count = min(count, logits.shape[0])
    if count == 0:
        return []
    # Only values are used, because the order of equal values is undefined there.
    threshold = logits.topk(count).values[-1]
    above = [int(i) for i in (logits > threshold).nonzero().squeeze(-1).tolist()]
    above.sort(key=lambda i: (-float(logits[i]), i))
    level = (logits == threshold).nonzero().squeeze(-1)[: count - len(above)]
    return above + [int(i) for i in level.tolist()]
