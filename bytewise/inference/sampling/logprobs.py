"""Logprobs as exact decimals, so that an output can state them and a verifier can compare them (section 8 of the profile)."""

import decimal
from fractions import Fraction

from torch import Tensor

from bytewise.inference.sampling.sampler import weigh
from bytewise.protocol.records.request import TokenLogprobs
from bytewise.protocol.units import Decimal

FLOOR = Decimal("-9999")
"""Logprob of a token whose weight rounds to 0."""

PLACES = decimal.Decimal("0.000001")

# The library's logarithm is correctly rounded. With 40 digits the difference of two is far from any tie at six decimals.
_CONTEXT = decimal.Context(prec=40, rounding=decimal.ROUND_HALF_EVEN)


def token_logprobs(logits: Tensor, token: int, top: int) -> TokenLogprobs:
    """Logprobs of a token and of the `top` most probable ones, from unadjusted finite logits [V] at temperature 1."""
    weights = weigh(logits, Fraction(1))
    total = int(weights.sum())
    best = [(each, logprob(int(weights[each]), total)) for each in largest(logits, top)]
    return TokenLogprobs(logprob(int(weights[token]), total), tuple(best))


def logprob(weight: int, total: int) -> Decimal:
    """ln(weight / total) with six decimals, rounded half to even, as canonical text; -9999 for weight 0."""
    if weight == 0:
        return FLOOR
    exact = _CONTEXT.subtract(_CONTEXT.ln(weight), _CONTEXT.ln(total))
    digits = f"{exact.quantize(PLACES, context=_CONTEXT):f}".rstrip("0").rstrip(".")
    return Decimal("0" if digits in ("-0", "") else digits)


def largest(logits: Tensor, count: int) -> list[int]:
    """Ids of the `count` largest logits, larger first, of equals the lowest id first; all of them if there are fewer."""
    count = min(count, logits.shape[0])
    if count == 0:
        return []
    # Only the values are used: which of equal values comes first is not defined there.
    threshold = logits.topk(count).values[-1]
    above = [int(i) for i in (logits > threshold).nonzero().squeeze(-1).tolist()]
    above.sort(key=lambda i: (-float(logits[i]), i))
    level = (logits == threshold).nonzero().squeeze(-1)[: count - len(above)]
    return above + [int(i) for i in level.tolist()]
