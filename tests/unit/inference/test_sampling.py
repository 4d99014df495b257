"""The sampler against a second implementation that sorts and uses unbounded integers."""

from fractions import Fraction

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bytewise.inference.exact.quantise import nearest_float32
from bytewise.inference.sampling import sampler
from bytewise.inference.sampling.sampler import choose, draw, greedy, keep, weigh
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.units import ZERO_DIGEST, Digest
from tests.fixtures.inference.models import policy
from tests.reference.engine import decoding

weights_lists = st.lists(st.integers(0, 2**40), min_size=1, max_size=40).filter(any)
small_weights = st.lists(st.integers(0, 3), min_size=1, max_size=12).filter(any)
fractions = st.fractions(Fraction(1, 1000), 1, max_denominator=1000)
shares = st.just(Fraction(0)) | fractions


@given(weights_lists | small_weights, st.integers(0, 45), fractions | st.just(Fraction(1)), shares)
@example([7], 0, Fraction(1, 1000), Fraction(1))
@example([3, 3, 3, 3], 3, Fraction(1, 2), Fraction(1))
@example([1, 2**40, 2**40 - 1], 0, Fraction(1), Fraction(2**40 - 1, 2**40))
def test_threshold_keeps_the_same_tokens_as_sorting(weights: list[int], top_k: int, top_p: Fraction, min_p: Fraction) -> None:
    found = keep(torch.tensor(weights), top_k, top_p, min_p).tolist()
    assert found == decoding.kept(weights, top_k, top_p, min_p)


@given(st.lists(st.integers(0, 5), min_size=20, max_size=60).filter(any), fractions)
def test_nucleus_larger_than_the_first_chunk_is_found(weights: list[int], top_p: Fraction) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "NUCLEUS", 2)
        assert keep(torch.tensor(weights), 0, top_p).tolist() == decoding.kept(weights, 0, top_p, Fraction(0))


@given(weights_lists, st.binary(min_size=32, max_size=32))
def test_draw_finds_the_interval_that_holds_the_point(weights: list[int], key: bytes) -> None:
    assert draw(torch.tensor(weights), Digest(key)) == decoding.drawn(weights, key)


@given(st.fractions(Fraction(1, 10**30), 100))
def test_temperature_is_the_nearest_float(temperature: Fraction) -> None:
    found = Fraction(nearest_float32(temperature))
    exponent = found.numerator.bit_length() - found.denominator.bit_length()
    assert abs(found - temperature) <= Fraction(2) ** (exponent - 24)


@given(st.lists(st.floats(-(2.0**127), 2.0**127, width=32), min_size=1, max_size=30), st.fractions(Fraction(1, 10**30), 100))
def test_weight_is_total_and_the_best_token_weighs_one(logits: list[float], temperature: Fraction) -> None:
    weights = weigh(torch.tensor(logits), temperature).tolist()
    assert max(weights) == 2**40 == weights[logits.index(max(logits))]
    assert min(weights) >= 0


@settings(max_examples=30)
@given(st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=12), st.fractions(Fraction(1, 100), 100, max_denominator=100))
def test_weights_equal_those_computed_with_fractions(logits: list[float], temperature: Fraction) -> None:
    scores = [Fraction(x) for x in logits]
    assert weigh(torch.tensor(logits), temperature).tolist() == decoding.weights(scores, temperature)


def test_greedy_takes_the_lowest_id_of_equals() -> None:
    assert greedy(torch.tensor([[1.0, 3.0, 3.0], [0.0, -0.0, -1.0], [-5.0, -4.0, -4.0]])) == [1, 0, 1]
    assert choose(torch.tensor([1.0, 3.0, 3.0]), policy(4), 9, ZERO_DIGEST, 0) == 1


@pytest.mark.parametrize("warm", ["0", "1", "0." + "0" * 29 + "1", "100"])
def test_excluded_token_is_never_chosen(warm: str) -> None:
    out = float("-inf")
    logits = torch.tensor([out, 1.0, out, -3.0e38, out])
    assert {choose(logits, policy(4, warm), seed, ZERO_DIGEST, 0) for seed in range(40)} <= {1, 3}
    assert choose(torch.tensor([out, -3.0e38]), policy(4, warm, "0.5", 1), 3, ZERO_DIGEST, 0) == 1


def test_draw_frequencies_follow_the_weights() -> None:
    # Chi-square with two degrees of freedom: 27.6 has a chance of one in a million; the keys are fixed, so it never changes.
    weights, parts = torch.tensor([1, 0, 2, 5]) * 2**37, (1, 0, 2, 5)
    counts = [0] * 4
    for i in range(4000):
        counts[draw(weights, digests.labelled(Label.SAMPLER, i))] += 1
    assert counts[1] == 0
    assert sum((count - 500 * part) ** 2 / (500 * part) for count, part in zip(counts, parts, strict=True) if part) < 27.6


def test_choice_depends_on_seed_execution_and_position_alone() -> None:
    logits, warm = torch.zeros(200), policy(4, "1")
    chosen = choose(logits, warm, 1, ZERO_DIGEST, 0)
    assert chosen == choose(logits.clone(), warm, 1, ZERO_DIGEST, 0)
    others = [(2, ZERO_DIGEST, 0), (1, Digest(bytes([1]) * 32), 0), (1, ZERO_DIGEST, 1)]
    assert any(chosen != choose(logits, warm, *other) for other in others)


def test_tiny_temperature_is_greedy() -> None:
    logits = torch.tensor([0.5, 1.0, 1.0 + 2.0**-20, -3.0])
    assert all(choose(logits, policy(4, "0." + "0" * 29 + "1"), seed, ZERO_DIGEST, 0) == 2 for seed in range(20))
