"""Judges a claim: which of its tokens the model can read, and where it differs from the true answer (design section 6)."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

from torch import Tensor

from bytewise.inference.answer import AnswerBuilder
from bytewise.inference.engine_paths import HeadRow
from bytewise.protocol import digests
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.records.trace import (
    Divergence,
    DivergenceClass,
    Generated,
    TraceStep,
    Verification,
    trace_leaves,
    trace_root,
)
from bytewise.protocol.units import Decimal, Digest

# Comparison of claim and truth: where they differ, and what that shows about the claim. Pure functions.


@dataclass(frozen=True, slots=True)
class JudgingContext:
    """Data that a verifier compares, besides the claimed output. Of the operator's rows the verifier knows only one hash."""

    nonce: Digest
    """Nonce of the request, which blinds the leaves."""
    out_hash: Digest
    """The claimed out_hash."""
    truth: tuple[TraceStep, ...]
    """Rows and tokens of the true answer."""
    replayed: tuple[TraceStep, ...]
    """Rows that this model gives when it reads the claimed tokens. There are fewer rows than claimed tokens if the model cannot
    read some of the tokens."""


def first_divergence(truth: Generated, claimed: Output, evidence: JudgingContext, gap: Decimal | None) -> Divergence | None:
    """Returns the first divergence of a claim from the true answer, or None if they are equal.

    `gap` is the difference of the two largest logits at the position of that divergence. None if it is unknown.
    """
    expected, given = truth.output.token_ids, claimed.token_ids
    for position, (ours, theirs) in enumerate(zip(expected, given, strict=False)):
        if ours != theirs:
            return Divergence(position, _of_a_token(truth, claimed, evidence), ours, theirs, gap)
    shared = min(len(expected), len(given))
    if len(expected) > shared:
        return Divergence(shared, DivergenceClass.LENGTH, expected[shared], None, gap)
    if len(given) > shared:
        return Divergence(shared, DivergenceClass.LENGTH, None, given[shared])
    if truth.output != claimed:
        return Divergence(shared, DivergenceClass.STOP, None, None)
    if truth.out_hash != evidence.out_hash:
        return Divergence(shared, DivergenceClass.TRACE, None, None)
    return None


def _of_a_token(truth: Generated, claimed: Output, evidence: JudgingContext) -> DivergenceClass:
    def committed(rows: tuple[TraceStep, ...]) -> bool:
        # Whether the claimed hash is that of the claimed output over these rows.
        steps = [TraceStep(row.row, row.exponent, token) for row, token in zip(rows, claimed.token_ids, strict=False)]
        root = trace_root(trace_leaves(evidence.nonce, steps))
        return evidence.out_hash == digests.out_hash(claimed.tokens_hash, root)

    # The claimed tokens could be fed only partly: there are more than the request allows, or some are no tokens at all.
    if len(evidence.replayed) < len(claimed.token_ids):
        return DivergenceClass.TOKEN
    if committed(evidence.replayed):
        return DivergenceClass.SAMPLER
    # The true computation with another text, and with its original leaves or with leaves adapted to the text.
    kept = digests.out_hash(claimed.tokens_hash, truth.trace_root)
    if evidence.out_hash in (truth.out_hash, kept) or (
        len(evidence.truth) == len(claimed.token_ids) and committed(evidence.truth)
    ):
        return DivergenceClass.TOKEN
    return DivergenceClass.MODEL


Claim = tuple[Request, Output, Digest]
"""A request, the claimed output and the claimed out_hash."""


class Judge:
    """Comparison of one claim with the true answer. This class builds the true answer row by row. It drops the logits of each row
    before it takes the next one."""

    def __init__(self, answer: AnswerBuilder, claimed: Output, out_hash: Digest, vocabulary: int) -> None:
        self.answer = answer
        self._claimed, self._out_hash = claimed, out_hash
        self.believable = believable(answer.request, claimed, vocabulary)
        self._replayed: list[TraceStep] = []
        self._parted = False
        self._gap: Decimal | None = None

    @property
    def inputs(self) -> tuple[int, ...]:
        """Tokens for the model to read in the first pass: the prompt, and the claimed tokens that it can read, except the last
        one. The model reads the last one later, if the true answer goes on after it."""
        return (*self.answer.request.prompt, *self.believable[:-1])

    def take(self, rows: Iterable[HeadRow]) -> None:
        """Takes the next head rows that the model gives for `inputs`, from the prompt's last position on. The rows also extend
        the true answer until it differs from the claim or ends."""
        for row in rows:
            position = len(self._replayed)
            if position < len(self.believable):
                self._replayed.append(TraceStep(row.row, row.exponent, self.believable[position]))
            if not self._parted and self.answer.reason is None:
                self.grow(row)

    def grow(self, row: HeadRow) -> None:
        """Extends the true answer by one head row. If the row's token is the first that differs from the claim, stores the gap
        between the logits."""
        answer, before = self.answer, len(self.answer.steps)
        answer.add(row)
        agrees = len(answer.steps) > before < len(self.believable) and answer.steps[before].token == self.believable[before]
        if not self._parted and not agrees:
            self._parted, self._gap = True, top_two_gap(answer.scores)
        # A row's logits are a view of those of its whole piece.
        answer.forget()

    def verdict(self) -> Verification:
        """Returns the verification: the true answer, and the first divergence or None. Call it only when the true answer has
        ended."""
        truth = self.answer.finish()
        evidence = JudgingContext(self.answer.request.nonce, self._out_hash, tuple(self.answer.steps), tuple(self._replayed))
        return Verification(truth, first_divergence(truth, self._claimed, evidence, self._gap), 1)


def believable(request: Request, claimed: Output, vocabulary: int) -> tuple[int, ...]:
    """Returns the claimed tokens that the model can read. They are at most as many as the request allows. They end before the
    first token that is outside the vocabulary."""
    tokens = claimed.token_ids[: request.decode.max_new_tokens]
    return next((tokens[:i] for i, token in enumerate(tokens) if token >= vocabulary), tokens)


def top_two_gap(scores: Tensor | None) -> Decimal | None:
    """Returns the exact difference of the two largest logits. Returns None if there are no logits, or if fewer than two are
    finite."""
    two = [] if scores is None else heapq.nlargest(2, scores.tolist())
    if len(two) < 2 or not all(isfinite(score) for score in two):
        return None
    return exact_decimal(Fraction(two[0]) - Fraction(two[1]))


def exact_decimal(value: Fraction) -> Decimal:
    """Returns a non-negative fraction k / 2^n as a canonical decimal, without rounding."""
    places = value.denominator.bit_length() - 1
    digits = str(value.numerator * 5**places).zfill(places + 1)
    whole, part = digits[: len(digits) - places], digits[len(digits) - places :].rstrip("0")
    return Decimal(f"{whole}.{part}" if part else whole)
