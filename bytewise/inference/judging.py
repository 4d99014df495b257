"""How a claim is judged: which of its tokens can be fed, and how far the true answer follows them (design section 6)."""

import heapq
from collections.abc import Iterable
from fractions import Fraction
from math import isfinite

from torch import Tensor

from bytewise.inference.answer import Answer
from bytewise.inference.divergence import Evidence, first_divergence
from bytewise.inference.engine_paths import HeadRow
from bytewise.protocol.records.compare import Verification
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.records.trace import TraceStep
from bytewise.protocol.units import Decimal, Digest

Claim = tuple[Request, Output, Digest]
"""A request, the claimed answer, the claimed out_hash."""


class Judge:
    """Grows the true answer beside one claim, row by row, and keeps what tells them apart. Holds one row of logits at most."""

    def __init__(self, answer: Answer, claimed: Output, out_hash: Digest, vocabulary: int) -> None:
        self.answer = answer
        self._claimed, self._out_hash = claimed, out_hash
        self.believable = believable(answer.request, claimed, vocabulary)
        self._replayed: list[TraceStep] = []
        self._parted = False
        self._gap: Decimal | None = None

    @property
    def inputs(self) -> tuple[int, ...]:
        """Tokens to feed: the prompt and the claim. Its last one is an input only if the true answer goes on after it."""
        return (*self.answer.request.prompt, *self.believable[:-1])

    def take(self, rows: Iterable[HeadRow]) -> None:
        """More rows over the claimed tokens, from the prompt's last position on."""
        for row in rows:
            position = len(self._replayed)
            if position < len(self.believable):
                self._replayed.append(TraceStep(row.row, row.exponent, self.believable[position]))
            if not self._parted and self.answer.reason is None:
                self.grow(row)

    def grow(self, row: HeadRow) -> None:
        """One more row of the true answer."""
        answer, before = self.answer, len(self.answer.steps)
        answer.add(row)
        agrees = len(answer.steps) > before < len(self.believable) and answer.steps[before].token == self.believable[before]
        if not self._parted and not agrees:
            self._parted, self._gap = True, top_two_gap(answer.scores)
        # A row's logits are a view of those of its whole piece.
        answer.forget()

    def verdict(self) -> Verification:
        """Match or divergence, with the truth; only once the answer has ended."""
        truth = self.answer.finish()
        evidence = Evidence(self.answer.request.nonce, self._out_hash, tuple(self.answer.steps), tuple(self._replayed))
        return Verification(truth, first_divergence(truth, self._claimed, evidence, self._gap), 1)


def believable(request: Request, claimed: Output, vocabulary: int) -> tuple[int, ...]:
    """The claimed tokens that can be fed: no more than the limit, and none from the first outside the vocabulary on."""
    tokens = claimed.token_ids[: request.decode.max_new_tokens]
    return next((tokens[:i] for i, token in enumerate(tokens) if token >= vocabulary), tokens)


def top_two_gap(scores: Tensor | None) -> Decimal | None:
    """Largest minus second largest of the logits, exactly; None without a row or where fewer than two are finite."""
    two = [] if scores is None else heapq.nlargest(2, scores.tolist())
    if len(two) < 2 or not all(isfinite(score) for score in two):
        return None
    return exact_decimal(Fraction(two[0]) - Fraction(two[1]))


def exact_decimal(value: Fraction) -> Decimal:
    """Canonical decimal of a fraction k / 2^n that is not negative."""
    places = value.denominator.bit_length() - 1
    digits = str(value.numerator * 5**places).zfill(places + 1)
    whole, part = digits[: len(digits) - places], digits[len(digits) - places :].rstrip("0")
    return Decimal(f"{whole}.{part}" if part else whole)
