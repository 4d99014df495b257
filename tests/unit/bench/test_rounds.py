"""Turns are taken in order, and ratios are made of the same round."""

import pytest

from bench import rounds
from bench.rounds import interleaved, less, medians, times_faster


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "PAUSE_SECONDS", 0)


def test_engines_take_turns_so_that_noise_hits_all_alike() -> None:
    order: list[str] = []

    def work(name: str, seconds: float) -> float:
        order.append(name)
        return seconds

    samples = interleaved({"a": lambda: work("a", 1), "b": lambda: work("b", 2)}, 3, lambda _: None)
    assert order == ["a", "b"] * 3
    assert samples == {"a": [1, 1, 1], "b": [2, 2, 2]}


def test_a_ratio_is_the_median_of_the_ratios_of_each_round() -> None:
    # The machine was three times slower in the second round: the ratio of the rounds does not see it.
    samples = {"ours": [1.0, 3.0, 1.0], "theirs": [2.0, 6.0, 8.0]}
    assert times_faster(samples, "ours", "theirs") == 2.0
    assert times_faster(samples, "theirs", "ours") == 0.5


def test_decoding_is_the_answer_without_its_first_token() -> None:
    assert less({"ours": [5.0, 7.0]}, {"ours": [1.0, 2.0]}) == {"ours": [4.0, 5.0]}
    assert medians({"ours": [5.0, 1.0, 2.0]}) == {"ours": 2.0}


def test_lost_round_ends_the_measurement() -> None:
    with pytest.raises(ValueError):
        times_faster({"ours": [1.0], "theirs": [1.0, 2.0]}, "ours", "theirs")
