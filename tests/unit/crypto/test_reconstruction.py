"""Arithmetic in buffers against the same with integers, at every corner, and what it leaves of them."""

from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.crypto import reconstruction
from bytewise.crypto.curve import GENERATOR, ORDER
from bytewise.crypto.reconstruction import erase, interpolate, is_canonical, multiply_point
from bytewise.crypto.shares import combine_values, evaluate

scalars = st.one_of(st.integers(0, ORDER - 1), st.sampled_from([0, 1, 2, ORDER // 2, ORDER - 2, ORDER - 1]))


def buffer(value: int) -> bytearray:
    return bytearray(value.to_bytes(32))


@given(scalars, scalars)
@settings(max_examples=25, deadline=None)
def test_ladder_equals_the_librarys_multiplication(base: int, scalar: int) -> None:
    point = GENERATOR * (base or 1)
    assert multiply_point(point, buffer(scalar)) == point * scalar


@given(st.lists(scalars, min_size=1, max_size=6), st.data())
@settings(max_examples=40, deadline=None)
def test_shares_of_any_subset_reconstruct_the_constant(coefficients: list[int], data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(1, 64), min_size=len(coefficients), max_size=len(coefficients), unique=True))
    values = {index: evaluate(coefficients, index) for index in indices}
    shares = {index: buffer(value) for index, value in values.items()}
    assert interpolate(shares) == buffer(coefficients[0]) == buffer(combine_values(values))
    assert shares == {index: buffer(value) for index, value in values.items()}, "they are read and not changed"


def test_only_one_encoding_of_a_scalar_is_accepted() -> None:
    values = {0: True, ORDER - 1: True, ORDER: False, ORDER + 1: False, 2**256 - 1: False}
    assert {value: is_canonical(buffer(value)) for value in values} == values
    assert not any(is_canonical(bytearray(size)) for size in (0, 31, 33)), "a scalar has 32 bytes"


def test_erasure_overwrites_the_shared_buffer() -> None:
    secret = bytearray(range(32))
    with memoryview(secret) as view:
        erase(secret, bytearray())
        assert bytes(view) == bytes(32)


class Seen(bytearray):
    """A buffer that somebody keeps an eye on."""

    made: ClassVar[list["Seen"]] = []

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        Seen.made.append(self)


@pytest.mark.parametrize("value", [1, ORDER - 1, ORDER, 2**256 - 1])
def test_intermediate_values_are_erased(value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences, products and sums of secrets are as good as these."""
    monkeypatch.setattr(reconstruction, "bytearray", Seen, raising=False)
    Seen.made = []
    assert is_canonical(buffer(value)) == (value < ORDER)
    assert Seen.made and not any(any(each) for each in Seen.made)
    total = interpolate({1: buffer(7), 2: buffer(ORDER - 3), 5: buffer(ORDER - 1)})
    assert any(total) and [each for each in Seen.made if any(each)] == [total]
