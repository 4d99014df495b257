"""Draws that anyone can repeat are fair: by stake, and by nothing else (design sections 9 and 10)."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.court.sortition import audit_is_drawn, draw_seats, round_seed
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, Digest
from tests.fixtures.builders import signer, word
from tests.fixtures.record_strategies import addresses, digests

PEOPLE = [signer(name).address for name in ("ada", "ben", "cleo", "dan", "eva")]
stakes = st.lists(st.tuples(addresses, st.integers(0, 10**24)), min_size=1, max_size=8).filter(lambda s: sum(w for _, w in s) > 0)


@given(digests, digests, st.integers(1, 2), st.integers(0, 31), stakes)
def test_every_seat_goes_to_a_staker(
    seed: Digest, dispute: Digest, number: int, seats: int, pool: list[tuple[Address, int]]
) -> None:
    holders = draw_seats(seed, dispute, number, seats, pool)
    assert len(holders) == seats
    assert set(holders) <= {who for who, stake in pool if stake > 0}
    assert holders == draw_seats(seed, dispute, number, seats, pool)


def test_seats_are_in_proportion_to_stake() -> None:
    """10,000 seats over stakes 1 : 2 : 3 : 4; five standard deviations of a binomial are at most 250."""
    pool = [(who, share * 10**18) for who, share in zip(PEOPLE, (1, 2, 3, 4, 0), strict=True)]
    seats = Counter(draw_seats(word("seed"), word("dispute"), 1, 10_000, pool))
    for who, share in zip(PEOPLE, (1, 2, 3, 4, 0), strict=True):
        assert abs(seats[who] - share * 1000) <= 250
    assert seats[PEOPLE[4]] == 0


def test_splitting_stake_over_accounts_gains_nothing() -> None:
    whole = [(PEOPLE[0], 40), (PEOPLE[1], 60)]
    split = [(PEOPLE[0], 15), (PEOPLE[2], 25), (PEOPLE[1], 60)]
    alone = draw_seats(word("s"), word("d"), 1, 500, whole).count(PEOPLE[0])
    together = draw_seats(word("s"), word("d"), 1, 500, split)
    assert together.count(PEOPLE[0]) + together.count(PEOPLE[2]) == alone


def test_rounds_disputes_and_seeds_draw_independently() -> None:
    pool = [(who, 1) for who in PEOPLE]
    draws = {draw_seats(s, d, r, 31, pool) for s in (word(1), word(2)) for d in (word(3), word(4)) for r in (1, 2)}
    assert len(draws) == 8
    assert round_seed(word(1), word(3), 1) != round_seed(word(1), word(3), 2)


@pytest.mark.parametrize("pool", [[], [(PEOPLE[0], 0)]])
def test_draw_without_stake_is_refused(pool: list[tuple[Address, int]]) -> None:
    with pytest.raises(MalformedValue):
        draw_seats(word(1), word(2), 1, 15, pool)


def test_an_audit_is_drawn_at_its_rate_per_seat() -> None:
    """4,000 receipts at 30 %; five standard deviations are 145."""
    drawn = sum(audit_is_drawn(word("beacon"), word(i), PEOPLE[0], 3000, 1) for i in range(4000))
    assert abs(drawn - 1200) <= 145
    twice = sum(audit_is_drawn(word("beacon"), word(i), PEOPLE[0], 3000, 2) for i in range(4000))
    assert abs(twice - 2400) <= 155


@given(digests, digests, addresses)
def test_rate_zero_draws_no_auditor_and_rate_one_draws_all(beacon: Digest, receipt: Digest, who: Address) -> None:
    assert not audit_is_drawn(beacon, receipt, who, 0, 9)
    assert not audit_is_drawn(beacon, receipt, who, 9000, 0)
    assert audit_is_drawn(beacon, receipt, who, 10_000, 1)


@given(digests, digests, addresses, st.integers(0, 10_000), st.integers(0, 9))
def test_more_seats_never_make_an_audit_less_likely(beacon: Digest, receipt: Digest, who: Address, rate: int, seats: int) -> None:
    assert audit_is_drawn(beacon, receipt, who, rate, seats) <= audit_is_drawn(beacon, receipt, who, rate, seats + 1)


def test_auditors_of_one_receipt_are_drawn_independently() -> None:
    patterns = {tuple(audit_is_drawn(word("beacon"), word(i), who, 5000, 1) for who in PEOPLE) for i in range(300)}
    assert len(patterns) == 32
