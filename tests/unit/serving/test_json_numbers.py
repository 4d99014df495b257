"""What a client writes as a number is the decimal that is signed."""

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.errors.actors import BadRequest
from bytewise.protocol.units import decimal
from serving.openai import NumberText, canonical_decimal, parse_json

DIGITS = st.text("0123456789", min_size=1, max_size=8)


@st.composite
def number_texts(draw: st.DrawFn) -> str:
    """JSON number texts of every shape of RFC 8259 section 6."""
    whole = draw(st.one_of(st.just("0"), DIGITS.map(lambda d: d.lstrip("0") or "0")))
    part = draw(st.one_of(st.just(""), DIGITS.map(lambda d: "." + d)))
    power = draw(st.one_of(st.just(""), st.integers(-9, 9).map(lambda e: f"e{e}"), st.integers(0, 9).map(lambda e: f"E+{e}")))
    return draw(st.sampled_from(["", "-"])) + whole + part + power


@given(number_texts())
def test_a_number_becomes_the_canonical_decimal_of_exactly_its_value(text: str) -> None:
    value = canonical_decimal("temperature", parse_json(text.encode()))
    assert Fraction(value) == Fraction(text)
    assert decimal(value) == value


@given(number_texts(), number_texts())
def test_two_texts_of_one_value_become_one_decimal(one: str, other: str) -> None:
    decimals = [canonical_decimal("x", parse_json(text.encode())) for text in (one, other)]
    assert (decimals[0] == decimals[1]) == (Fraction(one) == Fraction(other))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0.70", "0.7"), ("7e-1", "0.7"), ("1", "1"), ("1.0", "1"), ("-0.0", "0"), ("0.1e1", "1"), ("2E0", "2"), ("0.8", "0.8"),
        ("1e-30", "0." + "0" * 29 + "1"),
    ],
)  # fmt: skip
def test_common_spellings_become_canonical_decimals(text: str, want: str) -> None:
    assert canonical_decimal("x", parse_json(text.encode())) == want


@pytest.mark.parametrize("text", ["1e-31", "1e65", "1e31", "0." + "1" * 31, "1" * 80 + ".5"])
def test_number_without_a_canonical_decimal_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        canonical_decimal("top_p", parse_json(text.encode()))
    assert caught.value.values[0] == "top_p"


@pytest.mark.parametrize("value", ["0.7", True, None, [], {}])
def test_values_other_than_numbers_are_refused(value: object) -> None:
    with pytest.raises(BadRequest):
        canonical_decimal("temperature", value)


def test_no_float_is_created() -> None:
    value = parse_json(b'{"a": 0.30000000000000004, "b": [1e3], "c": 5}')
    assert isinstance(value["a"], NumberText) and isinstance(value["b"][0], NumberText) and type(value["c"]) is int


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"nul", b'{"a":1,"a":2}', b"NaN", b"[Infinity]", b"\xff\xfe", b'"\\ud800"', b"1" * 5000, b"[" * 100_000,
        b"{} {}",
    ],
)  # fmt: skip
def test_text_that_is_not_one_json_value_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_json(body)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_json_without_fractions_is_read_as_usual(value: object) -> None:
    assert parse_json(json.dumps(value).encode()) == value
