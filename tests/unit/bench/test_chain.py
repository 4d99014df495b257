"""What the gas program of the contracts reads from forge."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.chain import CAP, RESULTS, TARGETS, differences, measured, over

STEPS = {"open", "draw_31_of_1000", "post_commit_root"}
ENDS = {"last_votes_and_settle_certificate", "finalize_and_settle_seats_31_certificate"}
SUMS = {"commits_31", "dispute_certificate_31", "dispute_direct_31", "dispute_relayed_31", "dispute_first_payments_31"}
FIGURES = st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True), st.integers(0, 10**8), max_size=8)


@given(FIGURES)
def test_figures_are_read_as_forge_prints_them(figures: dict[str, int]) -> None:
    printed = "Ran 2 tests for x.t.sol:Gas\nLogs:\n" + "".join(f"  {name}: {gas}\n" for name, gas in figures.items())
    assert measured(printed + "\nSuite result: ok. 2 passed\n") == figures


def test_largest_of_several_gas_figures_counts() -> None:
    assert measured("  open: 5\n  open: 9\n  open: 7\n") == {"open": 9}


@given(FIGURES, FIGURES)
def test_difference_is_reported_only_for_unequal_figures(have: dict[str, int], want: dict[str, int]) -> None:
    assert (differences(have, want) == []) == (have == want)
    assert differences(have, have) == []


def test_committed_figures_exist_and_transactions_fit() -> None:
    committed = json.loads(RESULTS.read_text())
    gas = committed["gas"]
    assert committed["targets"] == TARGETS
    assert {"anchor", "open", "certificate_31", "certificate_63", "draw_31_of_1000", "draw_31_of_10000"} < gas.keys()
    assert TARGETS.keys() <= gas.keys()
    assert all(0 < figure < CAP for name, figure in gas.items() if name not in SUMS)
    # A step that is measured in several tests stands there with its dearest figure.
    assert 0.99 < gas["dispute_certificate_31"] / sum(gas[name] for name in STEPS | ENDS) <= 1


@pytest.mark.parametrize("gas, lines", [(1_950_000, 0), (1_950_001, 1)])
def test_target_is_an_upper_bound(gas: int, lines: int) -> None:
    assert len(over({"dispute_certificate_31": gas, "settle_255": 10**9})) == lines
