"""What the gas program of the contracts reads from forge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.chain import differences, measured, over

FIGURES = st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True), st.integers(0, 10**8), max_size=8)


@given(FIGURES)
def test_figures_are_read_as_forge_prints_them(figures: dict[str, int]) -> None:
    printed = "Ran 2 tests for x.t.sol:Gas\nLogs:\n" + "".join(f"  {name}: {gas}\n" for name, gas in figures.items())
    assert measured(printed + "\nSuite result: ok. 2 passed\n") == figures


def test_the_dearest_of_several_counts() -> None:
    assert measured("  open: 5\n  open: 9\n  open: 7\n") == {"open": 9}


@given(FIGURES, FIGURES)
def test_only_equal_figures_do_not_differ(have: dict[str, int], want: dict[str, int]) -> None:
    assert (differences(have, want) == []) == (have == want)
    assert differences(have, have) == []


@pytest.mark.parametrize("gas, lines", [(1_200_000, 0), (1_200_001, 1)])
def test_a_limit_is_the_most_that_is_allowed(gas: int, lines: int) -> None:
    assert len(over({"dispute_certificate_31": gas, "open": 10**9})) == lines
