"""Limits for untrusted peers: slots in all and for one address, and the time that is left of an exchange."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from bytewise.service.clock import monotonic_s
from bytewise.service.connections import AddressSlots, Deadline, seconds_left

LONG_S = 60.0


def test_slots_are_limited_in_all_and_per_address() -> None:
    slots = AddressSlots(3, 2)
    assert [slots.take("a") for _ in range(3)] == [True, True, False]
    assert [slots.take("b") for _ in range(2)] == [True, False]
    assert slots.in_use == 3


def test_freed_slot_can_be_taken_again() -> None:
    slots = AddressSlots(3, 2)
    assert slots.take("a") and slots.take("a") and slots.take("b") and not slots.take("c")
    slots.leave("a")
    assert slots.take("c") and not slots.take("a")
    for address in ("a", "b", "c"):
        slots.leave(address)
    assert slots.in_use == 0


def test_reached_deadline_leaves_no_time() -> None:
    assert 0 < seconds_left(monotonic_s() + LONG_S) <= LONG_S
    with pytest.raises(TimeoutError, match="out of time"):
        seconds_left(monotonic_s())


def test_each_thread_has_its_own_deadline() -> None:
    deadline = Deadline()
    deadline.start(LONG_S)
    with ThreadPoolExecutor(1) as other, pytest.raises(TimeoutError, match="out of time"):
        other.submit(deadline.left).result()
    assert 0 < deadline.left() <= LONG_S
    deadline.start(0)
    with pytest.raises(TimeoutError, match="out of time"):
        deadline.left()
