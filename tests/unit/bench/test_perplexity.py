"""Perplexity is what its definition says, and the comparison tells better from worse."""

import math

import pytest
import torch
from torch import Tensor

from bench import perplexity
from bench.perplexity import Score, compare, score

VOCABULARY = 50


def uniform(window: list[int]) -> Tensor:
    return torch.zeros(len(window), VOCABULARY)


def knowing(window: list[int]) -> Tensor:
    """Gives the next token all but 2^-20 of the weight."""
    found = torch.full((len(window), VOCABULARY), -math.log((VOCABULARY - 1) * 2.0**20))
    found[torch.arange(len(window) - 1), torch.tensor(window[1:])] = 0.0
    return found


WINDOWS = [[1, 2, 3, 4, 49], [7, 7, 7, 8, 0]]


def test_uniform_model_has_the_vocabulary_size_as_perplexity() -> None:
    assert math.exp(score(uniform, WINDOWS).loss) == pytest.approx(VOCABULARY)


def test_perfect_model_has_perplexity_one_and_predicts_the_text() -> None:
    found = score(knowing, WINDOWS)
    assert found.loss == pytest.approx(math.log1p(2.0**-20))
    assert found.greedy == (2, 3, 4, 49, 7, 7, 8, 0)


def test_growth_is_relative_and_agreement_counts_positions() -> None:
    worse = Score(math.log(10.1), (1, 2, 3, 9))
    found = compare({"float32": Score(math.log(10), (1, 2, 3, 4)), "w8": worse, "w16": worse}, 4)
    assert found["ppl_delta_w8"] == pytest.approx(0.01)
    assert found["modes"]["float32"]["ppl_delta"] == 0
    assert found["modes"]["w8"]["greedy_agreement"] == 0.75


def test_evaluation_windows_do_not_overlap_and_have_one_length() -> None:
    rows = list(perplexity.held_out())
    assert len(rows) > 100 and {len(row) for row in rows} == {perplexity.WINDOW}
    assert len({tuple(row) for row in rows}) == len(rows)
