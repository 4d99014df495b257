"""The C encoder writes, and the parser accepts, exactly what RFC 8785 in plain Python does (ADR-001)."""

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bytewise.protocol.encoding import MAX_DEPTH, decode, encode, parse, to_json, verify_depth
from bytewise.protocol.errors.records import NotCanonical
from bytewise.protocol.records.receipt import SignedReceipt
from bytewise.protocol.units import Blob
from tests.fixtures.builders import World
from tests.fixtures.record_strategies import texts

WORLD = World()


def defined(raw: bytes) -> list[Any] | None:
    """The definition: integers and no repeated key, and RFC 8785 in plain Python gives the bytes back; None for other bytes."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("repeated key")
        return dict(pairs)

    def refuse(text: str) -> None:
        raise ValueError(f"{text} is no integer")

    try:
        value = json.loads(raw, object_pairs_hook=once, parse_float=refuse, parse_constant=refuse)
        return [value] if rfc8785.dumps(value) == raw else None
    except ValueError:
        return None


hard_texts = st.text(st.sampled_from('a"\\/\b\n\x00\x1f\x7f\x80é\u2028\ud7ff\ue000\uffff\U00010000😀'), max_size=5)
hard_values = st.recursive(
    st.integers(-(2**53) - 1, 2**53 + 1) | st.sampled_from([2**53 - 1, 2**53, 1.5, -0.0, True, None]) | hard_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(hard_texts | texts, inner, max_size=4),
    max_leaves=12,
)


@given(hard_values, st.booleans(), st.booleans(), st.sampled_from([",", ", "]), st.data())
@settings(max_examples=500, deadline=None)
def test_accepted_bytes_are_those_of_the_definition(
    value: Any, escaped: bool, ordered: bool, separator: str, data: st.DataObject
) -> None:
    written = bytearray(json.dumps(value, ensure_ascii=escaped, sort_keys=ordered, separators=(separator, ":")).encode())
    for _ in range(2):
        raw = bytes(written)
        expected = defined(raw)
        if expected is None:
            with pytest.raises(NotCanonical):
                parse(raw)
        else:
            assert repr([parse(raw)]) == repr(expected)
        at = data.draw(st.integers(0, len(raw)))
        written[at : at + data.draw(st.integers(0, 2))] = data.draw(st.sampled_from([b"", b'"', b" ", b"0", b"\\", b"{", b"e"]))


@pytest.mark.parametrize("character", [*map(chr, range(128)), "\u0080", "\U00010000"], ids=lambda character: hex(ord(character)))
def test_every_character_is_escaped_as_rfc_8785_escapes_it(character: str) -> None:
    leaf = SignedReceipt(WORLD.answered(1).receipt, Blob(b""), character)
    assert encode(leaf) == rfc8785.dumps(to_json(leaf)) and decode(SignedReceipt, encode(leaf)) == leaf


@given(st.text(st.sampled_from('[]{}"\\a\u0122'), max_size=200), st.sampled_from(("utf-8", "utf-16", "utf-32")))
@example('["\u0122",' + "[" * MAX_DEPTH, "utf-16")
@settings(max_examples=500, deadline=None)
def test_depth_counts_brackets_outside_of_strings_only(text: str, encoding: str) -> None:
    """In UTF-16, which `json.loads` reads too, U+0122 contains the byte of a quotation mark."""
    depth = deepest = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            in_string, escaped = escaped or character != '"', not escaped and character == "\\"
        elif character == '"':
            in_string = True
        else:
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(character, 0)
            deepest = max(deepest, depth)
    raw = text.encode(encoding)
    if deepest > MAX_DEPTH:
        with pytest.raises(NotCanonical):
            verify_depth(raw)
    else:
        assert verify_depth(raw) == raw
