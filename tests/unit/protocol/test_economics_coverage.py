"""The plan of a watchtower: vectors by hand, limits, directions, and the real draw against its coverage."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.court.sortition import audit_is_drawn
from bytewise.protocol.digests import keccak256
from bytewise.protocol.economics.coverage import (
    MOST_OPEN,
    WatchTerms,
    auditors_at,
    coverage_at,
    locked_seconds,
    needed_rate,
    open_at_once,
    watch_plan,
)
from bytewise.protocol.economics.incentives import GAS, Prices
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address
from chain.deployment.params import DEVNET

PRICES = Prices(gas=10, work=0, interest=0.05)
TERMS = WatchTerms(receipts=1000, fraud=0.01, mistakes=0, mismatches=2, wanted=0.9, ready=0.99)


def test_coverage_of_three_auditors_by_hand() -> None:
    # Each of three is drawn with 1/2: at least two of three in 4 of 8 cases, at least one in 7 of 8.
    assert coverage_at(5000, [1, 1, 1], 2) == pytest.approx(0.5) and coverage_at(5000, [1, 1, 1], 1) == pytest.approx(7 / 8)
    # Two seats at a rate of 1/2 are always drawn; the third decides.
    assert coverage_at(5000, [2, 1], 2) == pytest.approx(0.5) and auditors_at(5000, [2, 1]) == pytest.approx(1.5)


def test_limits_of_coverage() -> None:
    assert coverage_at(0, [1] * 9, 2) == 0 and coverage_at(10_000, [1] * 2, 2) == 1 and coverage_at(10_000, [1], 2) == 0
    assert needed_rate([1], 2, 0.5) is None and needed_rate([], 1, 0.5) is None and needed_rate([0, 0, 0], 1, 0.1) is None


@given(st.lists(st.integers(0, 4), max_size=12), st.integers(1, 3), st.floats(0.01, 0.99))
def test_needed_rate_is_the_least_that_suffices(seats: list[int], mismatches: int, wanted: float) -> None:
    found = needed_rate(seats, mismatches, wanted)
    if found is None:
        assert coverage_at(10_000, seats, mismatches) < wanted
        return
    assert coverage_at(found, seats, mismatches) >= wanted
    assert found == 0 or coverage_at(found - 1, seats, mismatches) < wanted


@given(st.floats(0, 5000), st.sampled_from([0.5, 0.9, 0.99, 0.9999]))
def test_open_disputes_suffice_and_one_fewer_would_not(mean: float, ready: float) -> None:
    count = open_at_once(mean, ready)
    terms = [math.exp(n * math.log(mean) - mean - math.lgamma(n + 1)) if mean else float(n == 0) for n in range(count + 1)]
    assert math.fsum(terms) >= ready - 1e-9 and math.fsum(terms[:-1]) < ready + 1e-9


def test_open_disputes_by_hand() -> None:
    # Of a Poisson count with mean 1: 0.3679 are 0, 0.7358 at most 1, 0.9197 at most 2, 0.9810 at most 3, 0.9963 at most 4.
    assert [open_at_once(1, ready) for ready in (0.3, 0.7, 0.9, 0.98, 0.99)] == [0, 1, 2, 3, 4]
    assert open_at_once(0, 0.999) == 0
    with pytest.raises(MalformedValue, match="at most 1000000"):
        open_at_once(MOST_OPEN + 1, 0.9)


def test_plan_is_the_parameters_by_hand() -> None:
    p, t = DEVNET, DEVNET.times
    found = watch_plan(p, [1, 1, 1], PRICES, TERMS)
    rounds = p.committee.rounds * (t.seed_time + t.draw_time + t.commit_time + t.reveal_time + t.appeal_time)
    assert found.locked_s == locked_seconds(p) == rounds + t.rerun_time + t.airgap + t.withdraw_delay
    assert found.bond == p.required_bond and found.bonds == found.open_at_once * p.required_bond
    assert found.gas == found.open_at_once * GAS["open"] * 10 and found.balance == found.bonds + found.gas
    assert found.reward == p.money.slash_amount * p.shares.alpha_bps / 10_000
    assert found.disputes == pytest.approx(10 * found.coverage)
    assert found.audits == pytest.approx(1000 * 3 * p.shares.audit_rate_bps / 10_000)


@pytest.mark.parametrize(("field", "more"), [("receipts", 2000.0), ("fraud", 0.02), ("mistakes", 50.0), ("ready", 0.9999)])
def test_more_of_anything_needs_no_less_money(field: str, more: float) -> None:
    changes: dict[str, Any] = {field: more}
    few, many = (watch_plan(DEVNET, [1] * 20, PRICES, terms) for terms in (TERMS, replace(TERMS, **changes)))
    assert many.balance >= few.balance and many.disputes >= few.disputes


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("receipts", -1.0), ("receipts", math.inf), ("receipts", math.nan), ("receipts", 1e308), ("fraud", 1.1),
        ("fraud", math.nan), ("mistakes", -0.1), ("mismatches", 0), ("wanted", 0.0), ("wanted", 1.0), ("ready", 1.0),
    ],
)  # fmt: skip
def test_terms_outside_their_bounds_are_refused(field: str, bad: float) -> None:
    changes: dict[str, Any] = {field: bad}
    with pytest.raises(MalformedValue, match=f"malformed {field}: must"):
        replace(TERMS, **changes)


def test_real_draw_is_within_four_sigma_of_the_coverage() -> None:
    seats, rate, tries = [1, 2, 1, 3], 1500, 4000
    accounts = [Address("0x" + f"{number:040x}") for number in range(1, 5)]
    hits = 0
    for number in range(tries):
        beacon, receipt = keccak256(b"beacon" + bytes([number % 7])), keccak256(number.to_bytes(4, "big"))
        hits += sum(audit_is_drawn(beacon, receipt, who, rate, own) for who, own in zip(accounts, seats, strict=True)) >= 2
    chance = coverage_at(rate, seats, 2)
    assert abs(hits - tries * chance) <= 4 * math.sqrt(tries * chance * (1 - chance))
