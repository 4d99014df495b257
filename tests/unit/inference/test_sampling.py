"""The sampler against a second implementation that sorts and uses unbounded integers."""

from fractions import Fraction

import torch
from hypothesis import given
from hypothesis import strategies as st

from bytewise.inference.rounding import nearest_float32
from bytewise.inference.sampling import choose, draw, greedy, keep, weigh
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.units import ZERO_DIGEST, Digest
from tests.unit.inference.models import policy

weights_lists = st.lists(st.integers(0, 2**40), min_size=1, max_size=40).filter(any)
small_weights = st.lists(st.integers(0, 3), min_size=1, max_size=12).filter(any)
fractions = st.fractions(Fraction(1, 1000), 1, max_denominator=1000)


def kept_by_sorting(weights: list[int], top_k: int, top_p: Fraction) -> list[int]:
    """Top-k, then the shortest prefix that holds top-p of the mass, in order of (weight falling, id rising)."""
    order = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    if top_k:
        order = order[:top_k]
    total, mass, kept = sum(weights[i] for i in order), 0, set()
    for i in order:
        if top_p < 1 and mass >= top_p * total:
            break
        kept.add(i)
        mass += weights[i]
    return [weight if i in kept else 0 for i, weight in enumerate(weights)]


@given(weights_lists | small_weights, st.integers(0, 45), fractions | st.just(Fraction(1)))
def test_threshold_keeps_what_sorting_keeps(weights: list[int], top_k: int, top_p: Fraction) -> None:
    assert keep(torch.tensor(weights), top_k, top_p).tolist() == kept_by_sorting(weights, top_k, top_p)


@given(weights_lists, st.binary(min_size=32, max_size=32))
def test_draw_finds_the_interval_that_holds_the_point(weights: list[int], key: bytes) -> None:
    point = int.from_bytes(key) * sum(weights) >> 256
    token = draw(torch.tensor(weights), Digest(key))
    assert sum(weights[:token]) <= point < sum(weights[: token + 1])


@given(st.fractions(Fraction(1, 10**30), 100))
def test_temperature_is_the_nearest_float(temperature: Fraction) -> None:
    found = Fraction(nearest_float32(temperature))
    exponent = found.numerator.bit_length() - found.denominator.bit_length()
    assert abs(found - temperature) <= Fraction(2) ** (exponent - 24)


@given(st.lists(st.floats(-(2.0**127), 2.0**127, width=32), min_size=1, max_size=30), st.fractions(Fraction(1, 10**30), 100))
def test_weighing_is_total_and_the_best_token_weighs_one(logits: list[float], temperature: Fraction) -> None:
    weights = weigh(torch.tensor(logits), temperature).tolist()
    assert max(weights) == 2**40 == weights[logits.index(max(logits))]
    assert min(weights) >= 0


def test_greedy_takes_the_lowest_id_of_equals() -> None:
    assert greedy(torch.tensor([[1.0, 3.0, 3.0], [0.0, -0.0, -1.0], [-5.0, -4.0, -4.0]])) == [1, 0, 1]
    assert choose(torch.tensor([1.0, 3.0, 3.0]), policy(4), 9, ZERO_DIGEST, 0) == 1


def test_draws_follow_the_weights() -> None:
    weights = torch.tensor([1, 0, 2, 5]) * 2**37
    counts = [0] * 4
    for i in range(4000):
        counts[draw(weights, digests.labelled(Label.SAMPLER, i))] += 1
    assert counts[1] == 0
    assert all(abs(count - share * 500) < 150 for count, share in zip(counts, (1, 0, 2, 5), strict=True))


def test_choice_depends_on_seed_execution_and_position_alone() -> None:
    logits, warm = torch.zeros(200), policy(4, "1")
    chosen = choose(logits, warm, 1, ZERO_DIGEST, 0)
    assert chosen == choose(logits.clone(), warm, 1, ZERO_DIGEST, 0)
    others = [(2, ZERO_DIGEST, 0), (1, Digest(bytes([1]) * 32), 0), (1, ZERO_DIGEST, 1)]
    assert any(chosen != choose(logits, warm, *other) for other in others)


def test_tiny_temperature_is_greedy() -> None:
    logits = torch.tensor([0.5, 1.0, 1.0 + 2.0**-20, -3.0])
    assert all(choose(logits, policy(4, "0." + "0" * 29 + "1"), seed, ZERO_DIGEST, 0) == 2 for seed in range(20))
