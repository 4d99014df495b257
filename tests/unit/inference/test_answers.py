"""Answers of every decode policy, over made-up logits, against the second implementation; and each rounding by itself."""

import struct
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bytewise.inference.answer import AnswerBuilder, TokenTexts
from bytewise.inference.dispatch_guard import guarded
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.sampling.sampler import FLOOR, LogitProcessor, largest, logprob, token_logprobs
from bytewise.protocol.records.request import DecodePolicy, Request
from bytewise.protocol.units import U64, ZERO_DIGEST, Decimal
from tests.fixtures.builders import World
from tests.fixtures.record_strategies import between
from tests.reference.engine import decoding
from tests.reference.engine.arithmetic import f32

LARGEST = struct.unpack(">f", b"\x7f\x7f\xff\xff")[0]
PIECES = [b"a", b"b", b"ab", b"\xc3", b"\xa9", b""]
"""What the tokens of the made-up vocabulary write."""


class Letters(TokenTexts):
    """A vocabulary of six tokens."""

    def __init__(self) -> None:
        super().__init__(b"", len(PIECES))
        self.lexicon.pieces = PIECES


def asked(policy: DecodePolicy, prompt: tuple[int, ...] = (0, 3), seed: int = 1) -> Request:
    """A request under a policy."""
    return World().request(decode=policy, prompt=prompt, seed=U64(seed))


def grown(request: Request, rows: list[list[float]]) -> tuple[tuple[int, ...], str, Any]:
    """Tokens, reason and logprobs over rows of logits, under the dispatch guard."""
    answer = AnswerBuilder(request, ZERO_DIGEST, Letters())
    with torch.inference_mode(), guarded(True):
        for row in rows:
            if answer.reason is None:
                answer.add(HeadRow(b"", 100, torch.tensor(row)))
    output = answer.finish().output
    return output.token_ids, output.finish_reason, output.logprobs


ids = st.integers(0, len(PIECES) + 1)
policies = st.builds(
    DecodePolicy,
    max_new_tokens=st.integers(1, 4),
    temperature=st.sampled_from(["0", "0.3", "1", "7.7"]).map(Decimal),
    top_p=st.sampled_from(["1", "0.9", "0.001"]).map(Decimal),
    top_k=st.integers(0, 7),
    stop_tokens=st.sets(ids, max_size=1).map(tuple),
    min_p=st.sampled_from(["0", "0.1", "0.999999", "1"]).map(Decimal),
    repetition_penalty=st.sampled_from(["1", "1.3", "0.01", "100"]).map(Decimal),
    presence_penalty=between(-2, 2),
    frequency_penalty=between(-2, 2),
    logit_bias=st.dictionaries(ids, between(-100, 100), max_size=3).map(lambda given: tuple(sorted(given.items()))),
    stop_strings=st.sets(st.sampled_from(["a", "ba", "é", "aab", "bb"]), max_size=2).map(lambda texts: tuple(sorted(texts))),
    logprobs=st.none() | st.integers(0, 7),
)
logits = st.floats(-30, 30, width=32) | st.sampled_from([0.0, -0.0, 1.0, LARGEST, -LARGEST])
rows_of_logits = st.lists(st.lists(logits, min_size=len(PIECES), max_size=len(PIECES)), min_size=4, max_size=4)


@settings(max_examples=60)
@given(policies, rows_of_logits, st.lists(ids, min_size=1, max_size=3).map(tuple), st.integers(0, 2**64 - 1))
def test_answer_equals_the_one_computed_with_fractions(
    policy: DecodePolicy, rows: list[list[float]], prompt: tuple[int, ...], seed: int
) -> None:
    request = asked(policy, prompt, seed)
    exact = [[Fraction(x) for x in row] for row in rows]
    wanted = decoding.answer(request, ZERO_DIGEST, exact, PIECES)
    tokens, reason, logprobs = grown(request, rows)
    assert (list(tokens), reason) == (wanted.tokens, wanted.reason)
    if policy.logprobs is None:
        assert logprobs is None
    else:
        assert [(each.chosen, list(each.top)) for each in logprobs] == wanted.logprobs


@pytest.mark.parametrize(
    ("knobs", "tokens"),
    [
        # Logits fall with the id; the prompt holds tokens 0 and 3.
        ({}, (0, 0, 0, 0)),
        ({"repetition_penalty": "2"}, (1, 2, 0, 0)),
        ({"presence_penalty": "0.5"}, (0, 0, 0, 0)),
        ({"presence_penalty": "1.5"}, (0, 1, 0, 0)),
        ({"frequency_penalty": "0.75"}, (0, 0, 1, 0)),
        ({"frequency_penalty": "-2", "logit_bias": ((5, "4.5"),)}, (0, 0, 0, 0)),
        ({"logit_bias": ((5, "5.5"),)}, (5, 5, 5, 5)),
        ({"logit_bias": ((0, "-100"), (1, "-100"), (99, "100"))}, (2, 2, 2, 2)),
    ],
)
def test_each_penalty_does_what_its_name_says(knobs: dict[str, Any], tokens: tuple[int, ...]) -> None:
    policy = DecodePolicy(4, Decimal("0"), Decimal("1"), 0, (), **knobs)
    assert grown(asked(policy), [[5.0, 4.0, 3.0, 2.0, 1.0, 0.0]] * 4)[0] == tokens


def test_a_logit_that_overflows_ends_the_answer_without_a_token() -> None:
    policy = DecodePolicy(4, Decimal("0"), Decimal("1"), 0, (), repetition_penalty=Decimal("0.5"), logprobs=3)
    fine, large = [1.0] * 6, [LARGEST, *[1.0] * 5]
    tokens, reason, logprobs = grown(asked(policy), [fine, large])
    assert (tokens, reason, len(logprobs)) == ((0,), "error", 1)
    # What the prompt does not hold is not divided, until the answer holds it.
    assert grown(asked(policy, prompt=(1,)), [large, large])[:2] == ((0,), "error")


def test_penalties_are_rounded_once_each_and_in_order() -> None:
    policy = DecodePolicy(
        9, Decimal("0"), Decimal("1"), 0, (), repetition_penalty=Decimal("1.1"), presence_penalty=Decimal("0.1"),
        frequency_penalty=Decimal("0.3"), logit_bias=((0, Decimal("0.7")),),
    )  # fmt: skip
    adjustment = LogitProcessor(policy, (), 1)
    for _ in range(3):
        adjustment.add(0)
    found = adjustment.apply(torch.tensor([10.0]))
    assert found is not None
    exact = decoding.adjusted([Fraction(10)], policy, (), (0, 0, 0))[0]
    assert Fraction(float(found[0])) == exact
    # 3 · 0.3 is rounded once: not three subtractions, not three times the rounded 0.3.
    thrice = Fraction(float(torch.tensor(0.3) * 3))
    assert f32(Fraction(9, 10)) != thrice


@given(st.integers(0, 2**40), st.integers(2**40, 2**58))
@example(2**40, 2**40)
@example(1, 2**58)
@example(2**40 - 1, 2**40)
@example(2**58 - 1, 2**58)
def test_a_logprob_is_the_nearest_decimal(weight: int, total: int) -> None:
    found = logprob(weight, total)
    if weight == 0:
        assert found == FLOOR
    else:
        assert abs(Fraction(found) - decoding.log_of(Fraction(weight, total))) <= Fraction(1, 2 * 10**6)
        assert found == "0" or ("." in found and not found.endswith("0") and len(found.split(".")[1]) <= 6) or "." not in found


@given(
    st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, -50.0]) | st.floats(-9, 9, width=32), min_size=1, max_size=30),
    st.integers(0, 20),
)
def test_alternatives_are_the_largest_logits_by_rank(row: list[float], count: int) -> None:
    assert largest(torch.tensor(row), count) == decoding.ranking([Fraction(x) for x in row])[:count]


def test_logprobs_are_of_the_model_without_sampling_parameters() -> None:
    row = torch.tensor([1.0, 1.0, -100.0])
    found = token_logprobs(row, 2, 2)
    assert found.chosen == FLOOR and found.top == ((0, "-0.693147"), (1, "-0.693147"))
    assert token_logprobs(torch.tensor([3.0]), 0, 5).top == ((0, "0"),)
