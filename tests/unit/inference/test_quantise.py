"""The quantiser against a second implementation in fractions."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from bytewise.inference.exact.quantise import MIN_EXPONENT, NOT_FINITE, quantise
from bytewise.inference.known_answers.operations import quantise_in_integers

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


def found(row: list[float], bits: int) -> tuple[int, ...]:
    """E and integers of one row."""
    rows = quantise(torch.tensor([row], dtype=torch.float32), bits)
    return int(rows.exponent), *(int(q) for q in rows.values[0].tolist())


@given(st.lists(floats, min_size=1, max_size=9), st.sampled_from([14, 22]))
def test_quantised_rows_equal_integers_computed_with_fractions(row: list[float], bits: int) -> None:
    assert found(row, bits) == quantise_in_integers(row, bits)


@given(st.integers(-(2**24), 2**24), st.integers(-60, 60))
def test_ties_round_to_even_and_the_largest_is_clamped(mantissa: int, shift: int) -> None:
    row = [mantissa * 2.0**shift, 0.5 * mantissa * 2.0**shift]
    integers = found(row, 14)
    assert integers == quantise_in_integers(row, 14)
    assert all(abs(q) <= 2**14 - 1 for q in integers[1:])


def test_value_just_below_a_power_of_two_is_clamped_not_carried() -> None:
    assert found([2.0 - 2.0**-23], 14) == (127 + 1 - 1, 2**14 - 1)


def test_rows_are_quantised_independently() -> None:
    x = torch.tensor([[1.0, -3.0], [1e30, 2e30], [1e-38, 0.0]])
    together = quantise(x, 14)
    for i in range(3):
        alone = quantise(x[i : i + 1], 14)
        assert torch.equal(alone.values[0], together.values[i]) and torch.equal(alone.exponent[0], together.exponent[i])


def test_rows_that_are_not_finite_are_zeros_with_their_own_exponent() -> None:
    rows = quantise(torch.tensor([[1.0, torch.nan], [torch.inf, 2.0], [-torch.inf, torch.nan], [1.0, 0.5]]), 14)
    assert rows.exponent.flatten().tolist() == [NOT_FINITE] * 3 + [127]
    assert rows.values[:3].abs().sum() == 0
    assert rows.values[3].tolist() == [2.0**13, 2.0**12]


def test_flush_to_zero_changes_nothing() -> None:
    row = torch.tensor([[1e-41, -3e-41, 2e-40], [1.0, 1e-40, 0.0]])
    before = quantise(row, 14)
    torch.set_flush_denormal(True)
    try:
        after = quantise(row, 14)
    finally:
        torch.set_flush_denormal(False)
    assert torch.equal(before.values, after.values) and torch.equal(before.exponent, after.exponent)
    assert before.exponent[0] == MIN_EXPONENT
