"""What the gas and soak programs of the contracts read from forge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.chain import differences, measured, over
from bench.soak_contracts import MOVES, VERDICTS, summed

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


@given(st.lists(st.tuples(st.lists(st.integers(0, 99), min_size=len(MOVES), max_size=len(MOVES)), st.integers(0, 9)), max_size=5))
def test_runs_of_a_campaign_are_summed(runs: list[tuple[list[int], int]]) -> None:
    ends = ",".join("1" for _ in VERDICTS)
    lines = [f"{','.join(map(str, moves))};{ends};open={opened}" for moves, opened in runs]
    result = summed(lines)
    assert sum(result["moves"].values()) == sum(sum(moves) for moves, _ in runs)
    assert sum(result["ends"].values()) == len(runs) * len(VERDICTS)
    assert result["calls"].get("open", 0) == sum(opened for _, opened in runs)
