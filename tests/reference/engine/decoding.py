"""Section 8 of the text: from logits to tokens, their end and their logprobs, by sorting and in unbounded integers."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from bytewise.protocol.records.request import DecodePolicy, Request
from tests.reference.engine.arithmetic import ZERO, Vector, exponential, f32

Scores = Sequence[Fraction | None]
"""A logit for each token; None for what may not be chosen."""


class Grown(NamedTuple):
    """An answer that has ended."""

    tokens: list[int]
    reason: str
    logprobs: list[tuple[str, list[tuple[int, str]]]]


def answer(request: Request, execution: bytes, rows: Iterable[Vector], pieces: Sequence[bytes]) -> Grown:
    """The answer over rows of logits; `pieces` are the bytes of each token. No grammar."""
    policy, text = request.decode, b""
    tokens: list[int] = []
    logprobs: list[tuple[str, list[tuple[int, str]]]] = []
    for row in rows:
        try:
            scores = adjusted(row, policy, request.prompt, tokens)
        except OverflowError:
            return Grown(tokens, "error", logprobs)
        parts = (
            b"bytewise/v1/sampler", *(n.to_bytes(8, "big") for n in (request.seed,)), execution, len(tokens).to_bytes(8, "big"),
        )  # fmt: skip
        key = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
        token = chosen(scores, policy, key)
        tokens.append(token)
        if policy.logprobs is not None:
            given = weights(row, Fraction(1))
            best = [(each, logprob(given, each)) for each in ranking(row)[: policy.logprobs]]
            logprobs.append((logprob(given, token), best))
        text += pieces[token]
        if token in policy.stop_tokens or any(stop.encode() in text for stop in policy.stop_strings):
            return Grown(tokens, "stop", logprobs)
        if len(tokens) == policy.max_new_tokens:
            return Grown(tokens, "length", logprobs)
    raise AssertionError("the answer goes on after the last row")


def adjusted(logits: Vector, policy: DecodePolicy, prompt: Sequence[int], tokens: Sequence[int]) -> Vector:
    """Logits after repetition, frequency and presence penalty and bias, each a rounding to float32 of its own."""
    found, bias = [], dict(policy.logit_bias)
    repetition = f32(Fraction(policy.repetition_penalty))
    for token, x in enumerate(logits):
        count = tokens.count(token)
        if count or token in prompt:
            x = f32(x / repetition) if x > 0 else f32(x * repetition)
        x = f32(x - f32(count * Fraction(policy.frequency_penalty)))
        x = f32(x - f32(Fraction(policy.presence_penalty))) if count else x
        found.append(f32(x + f32(Fraction(bias.get(token, "0")))))
    return found


def chosen(scores: Scores, policy: DecodePolicy, key: bytes) -> int:
    """The token: greedy at temperature 0, else drawn."""
    if policy.temperature == "0":
        return ranking(scores)[0]
    given = weights(scores, Fraction(policy.temperature))
    return drawn(kept(given, policy.top_k, Fraction(policy.top_p), Fraction(policy.min_p)), key)


def ranking(scores: Scores) -> list[int]:
    """Tokens that may be chosen, the larger logit first, of equals the lower id."""
    return sorted((i for i, x in enumerate(scores) if x is not None), key=lambda i: (-(scores[i] or ZERO), i))


def weights(scores: Scores, temperature: Fraction) -> list[int]:
    """Integer weights; the largest is 2^40."""
    best = max(x for x in scores if x is not None)
    return [0 if x is None else round(share(x, best, f32(temperature)) * 2**40) for x in scores]


def share(x: Fraction, best: Fraction, temperature: Fraction) -> Fraction:
    """exp((x - best) / temperature), 0 where the difference or the quotient is beyond the largest float32."""
    try:
        return exponential(f32(f32(x - best) / temperature))
    except OverflowError:
        return ZERO


def kept(given: Sequence[int], top_k: int, top_p: Fraction, min_p: Fraction) -> list[int]:
    """Weights after top-k, then the shortest prefix that holds top-p of the mass, then min-p."""
    order = sorted(range(len(given)), key=lambda i: (-given[i], i))[: top_k or None]
    total, mass, found = sum(given[i] for i in order), 0, set()
    for i in order:
        if top_p < 1 and mass >= top_p * total:
            break
        found.add(i)
        mass += given[i]
    return [weight if i in found and weight >= min_p * max(given) else 0 for i, weight in enumerate(given)]


def drawn(given: Sequence[int], key: bytes) -> int:
    """The token whose interval holds the point."""
    point, end = int.from_bytes(key) * sum(given) >> 256, 0
    for token, weight in enumerate(given):
        end += weight
        if point < end:
            return token
    raise AssertionError("the point lies in no interval")


def logprob(given: Sequence[int], token: int) -> str:
    """Canonical text of ln(weight / sum), six decimals, ties to even."""
    if given[token] == 0:
        return "-9999"
    millionths = round(log_of(Fraction(given[token], sum(given))) * 10**6)
    return format(Decimal(millionths).scaleb(-6).normalize(), "f") if millionths else "0"


def log_of(ratio: Fraction) -> Fraction:
    """ln of a ratio up to 1 within 10^-20: powers of two taken out, then the series of the inverse hyperbolic tangent."""
    shift = 0
    while ratio < Fraction(2, 3):
        ratio, shift = ratio * 2, shift + 1
    return _series(ratio) - shift * _series(Fraction(2))


def _series(x: Fraction) -> Fraction:
    # In integers of 2^-100: the powers of z fall by at least 9 with every turn.
    one = 2**100
    z = math.floor((x - 1) / (x + 1) * one)
    power, found = z, 0
    for n in range(1, 70, 2):
        found += power // n
        power = power * z // one * z // one
    return Fraction(2 * found, one)
