"""A record of stake at EigenLayer is made anew before it is too old and after the stake changed, and not more often."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.decisions.actions import SyncStake
from bytewise.protocol.decisions.stake import LOOKS_PER_LIFE, StakeRecord, decide_sync, next_look
from tests.fixtures.builders import signer

ME = signer("me").address
LIVES = st.integers(8, 50_000)
WEI = st.integers(0, 2**96)


@pytest.mark.parametrize(
    ("age", "recorded", "recordable", "due"),
    [
        (0, 0, 0, False), (999, 0, 0, False), (0, 0, 1, True),
        (499, 1000, 1000, False), (500, 1000, 1000, True), (2000, 1000, 1000, True),
        (1, 1000, 1099, False), (1, 1000, 1100, True), (1, 1000, 901, False), (1, 1000, 900, True),
        (1, 1000, 0, True), (2000, 1000, 0, True), (500, 1, 1, True),
    ],
)  # fmt: skip
def test_a_record_is_due_by_age_or_by_change(age: int, recorded: int, recordable: int, due: bool) -> None:
    record = StakeRecord(7000, recorded, recordable, 1000)
    assert decide_sync(7000 + age, ME, record) == (SyncStake(ME, 7000) if due else None)


@given(life=st.integers(8, 1000), wei=st.integers(1, 2**96), most=st.integers(1, 100), blocks=st.integers(0, 3), late=st.data())
def test_weight_never_lapses_if_records_arrive_within_a_quarter_life(
    life: int, wei: int, most: int, blocks: int, late: st.DataObject
) -> None:
    number, recorded, sent = 0, 0, 0
    while number < (blocks + 1) * life:
        due = decide_sync(number, ME, StakeRecord(recorded, wei, wei, life))
        number = next_look(number, life, most)
        assert number - recorded <= life
        if due is not None:
            assert due == SyncStake(ME, recorded), "each record is replaced once"
            number += late.draw(st.integers(0, life // 4 - 1))
            assert number - recorded <= life, "it still counts when the next one is made"
            recorded, sent = number, sent + 1
    assert sent <= 2 * (blocks + 2), "half of a life each"


@given(number=st.integers(0, 2**40), life=LIVES, recorded=WEI, recordable=WEI, age=st.integers(0, 10**6))
def test_recorded_or_empty_stake_is_left_alone(number: int, life: int, recorded: int, recordable: int, age: int) -> None:
    due = decide_sync(number + age, ME, StakeRecord(number, recorded, recordable, life))
    if recorded == recordable and (recorded == 0 or 2 * age < life):
        assert due is None
    if recordable > 0 and (recorded == 0 or 2 * age >= life):
        assert due == SyncStake(ME, number)


@given(number=st.integers(0, 2**40), life=st.integers(0, 50_000), most=st.integers(1, 100))
def test_stake_is_read_often_enough_and_never_twice_in_one_block(number: int, life: int, most: int) -> None:
    pause = next_look(number, life, most) - number
    assert 1 <= pause <= max(1, min(most, life // LOOKS_PER_LIFE))
