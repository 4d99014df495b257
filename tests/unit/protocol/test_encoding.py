"""Canonical bytes, both ways: what is written is read back, and what is read would be written the same (design section 4)."""

import dataclasses
import json
import subprocess
import sys
import tracemalloc
from typing import Any

import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bytewise.protocol.encoding import (
    MAX_DEPTH,
    MAX_DOCUMENT_BYTES,
    MAX_MARKS,
    decode,
    encode,
    from_json,
    parse,
    to_json,
    verify_depth,
)
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue, NotCanonical, WrongFields
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.records.receipt import EmptyLeaf, SignedReceipt
from bytewise.protocol.records.request import DecodePolicy, Request
from bytewise.protocol.records.statements import AuditResult, Ticket
from tests.fixtures.builders import World
from tests.fixtures.record_strategies import document_classes, record, texts
from tests.source import ROOT

WORLD = World()
TICKET = {
    "expires_at": "1800000000", "instance": "0x" + "11" * 32, "key_epoch": "1", "kind": "2", "receipt_id": "0x" + "22" * 32,
    "round": "0", "subject": "0x" + "22" * 32, "transport_key_hash": "0x" + "33" * 32, "voter": "0x" + "44" * 20,
}  # fmt: skip


@pytest.mark.parametrize("cls", document_classes(), ids=lambda cls: str(cls.__name__))
@given(data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_record_has_the_bytes_of_rfc_8785_and_changed_ones_are_refused(cls: type, data: st.DataObject) -> None:
    """Changed bytes may also be another record's own."""
    value = data.draw(record(cls))
    raw = encode(value)
    assert raw == rfc8785.dumps(to_json(value)) and decode(cls, raw) == value
    changed = bytearray(raw)
    at = data.draw(st.integers(0, len(raw) - 1))
    piece = data.draw(st.binary(max_size=2))
    changed[at : at + data.draw(st.integers(0, 2))] = piece
    try:
        other: Any = decode(cls, bytes(changed))
    except (Fault, ConfigurationError):  # the latter: an appraisal policy that contradicts itself
        return
    assert encode(other) == bytes(changed)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_never_escape_as_another_error(raw: bytes) -> None:
    try:
        assert rfc8785.dumps(parse(raw)) == raw
    except NotCanonical:
        pass


def ticket(**changes: Any) -> bytes:
    return bytes(rfc8785.dumps(TICKET | changes))


@pytest.mark.parametrize(
    ("what", "raw"),
    [
        ("a trailing byte", ticket() + b"\n"), ("a leading blank", b" " + ticket()),
        ("a byte order mark", b"\xef\xbb\xbf" + ticket()), ("another text encoding", ticket().decode().encode("utf-16-le")),
        ("a repeated key", ticket()[:-1] + b',"voter":"0x' + b"44" * 20 + b'"}'),
        ("keys in another order", json.dumps(dict(reversed(TICKET.items())), separators=(",", ":")).encode()),
        ("an escaped letter", ticket().replace(b'"kind"', b'"k\\u0069nd"')), ("a float", b"1.0"), ("an exponent", b"1e3"),
        ("minus zero", b"-0"), ("not a number", b"NaN"), ("infinity", b"-Infinity"), ("an integer of 2^53", b"9007199254740992"),
        ("an integer of a million digits", b"1" * 10**6), ("a lone surrogate", b'"\\ud800"'),
        ("a hundred thousand brackets", b"[" * 10**5), ("nothing", b""), ("half a record", ticket()[:-1]),
    ],
)  # fmt: skip
def test_bytes_that_would_be_written_otherwise_are_not_canonical(what: str, raw: bytes) -> None:
    with pytest.raises(NotCanonical):
        decode(Ticket, raw)


def test_deep_nesting_is_refused_despite_a_raised_recursion_limit() -> None:
    """In a process of its own: what this guards against is a segmentation fault, not an exception."""
    program = """
import sys
sys.setrecursionlimit(100_000)  # as py_ecc does when web3 is imported
from bytewise.protocol.encoding import parse
from bytewise.protocol.errors.records import NotCanonical
for opening in (b"[", b'{"a":', b'[{"[":'):
    try:
        parse(opening * 100_000)
    except NotCanonical:
        continue
    sys.exit(3)
"""
    child = subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60, check=False)
    assert child.returncode == 0


@given(
    st.recursive(st.integers(0, 9) | texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
)
def test_shallow_nesting_is_read_whatever_its_strings_contain(value: Any) -> None:
    assert parse(rfc8785.dumps(value)) == value


@given(st.integers(1, 60), st.sampled_from([("[", "]"), ('{"k":', "}")]), texts.map(json.dumps))
def test_the_deepest_accepted_nesting_is_32(depth: int, pair: tuple[str, str], core: str) -> None:
    raw = (pair[0] * depth + core + pair[1] * depth).encode()
    brackets = json.dumps('[[[{{{\\"[[' * 9).encode()
    wide = b"[" + brackets + b"," + raw + b"]"
    for document, levels in ((raw, depth), (wide, depth + 1)):
        if levels <= MAX_DEPTH:
            assert verify_depth(document) == document
        else:
            with pytest.raises(NotCanonical):
                verify_depth(document)


def test_bracket_count_takes_linear_time_in_unterminated_strings() -> None:
    """Twenty million characters: a quadratic scan would not end within the life of this test run."""
    for tail in (b"", b"\\"):
        assert verify_depth(b"[{}]" * 20 + b'"' + b'\\"' * 10**7 + tail)


def test_document_above_the_size_limit_is_not_parsed() -> None:
    with pytest.raises(NotCanonical):
        parse(b'"' + b"a" * MAX_DOCUMENT_BYTES + b'"')


@pytest.mark.parametrize("piece", [b"{},", b"[],", b"1,", b'"\\n",'], ids=["objects", "lists", "numbers", "escapes"])
def test_document_with_too_many_elements_is_refused_before_building_any(piece: bytes) -> None:
    raw = b"[" + piece * MAX_MARKS + b"1]"
    assert len(raw) < MAX_DOCUMENT_BYTES
    tracemalloc.start()
    try:
        with pytest.raises(NotCanonical, match="marks"):
            parse(raw)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**16


def test_reader_of_small_records_may_bound_elements_more_tightly() -> None:
    marks = sum(ticket().count(mark) for mark in (b"{", b"[", b",", b"\\"))
    assert encode(decode(Ticket, ticket(), marks)) == ticket()
    with pytest.raises(NotCanonical):
        decode(Ticket, ticket(), marks - 1)


def test_large_honest_document_is_far_below_the_element_bound() -> None:
    numbers = list(range(200_000))
    assert parse(encode(numbers)) == numbers


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", 2), ("kind", "02"), ("kind", "+2"), ("kind", "-1"), ("kind", ""), ("kind", "256"), ("kind", "٢"), ("kind", "2 "),
        ("kind", True), ("kind", None), ("expires_at", str(2**64)), ("expires_at", "1" * 79), ("receipt_id", "0x" + "22" * 31),
        ("receipt_id", "0x" + "22" * 33), ("receipt_id", "22" * 32), ("receipt_id", "0x" + "AA" * 32),
        ("receipt_id", "0X" + "22" * 32), ("receipt_id", "0x" + "22" * 31 + "2"), ("receipt_id", ["0x" + "22" * 32]),
        ("voter", "0x" + "AB" * 20), ("voter", "0x" + "ab" * 19), ("voter", "0x" + "zz" * 20), ("voter", {}),
    ],
)  # fmt: skip
def test_a_value_outside_its_type_is_malformed(field: str, value: Any) -> None:
    with pytest.raises(MalformedValue):
        decode(Ticket, ticket(**{field: value}))


@pytest.mark.parametrize("raw", [b"[]", b"null", b'"ticket"', b"7", b"true"])
def test_value_that_is_no_object_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedValue):
        decode(Ticket, raw)


def test_a_missing_and_an_unknown_field_are_named() -> None:
    with pytest.raises(WrongFields) as missing:
        from_json(Ticket, {name: value for name, value in TICKET.items() if name != "round"})
    assert missing.value.values == ("Ticket", ["round"], [])
    with pytest.raises(WrongFields) as unknown:
        decode(Ticket, ticket(extra="1"))
    assert unknown.value.values == ("Ticket", [], ["extra"])


def test_a_missing_optional_field_is_missing_and_not_null() -> None:
    fields = to_json(WORLD.request())
    del fields["reply_key"]
    with pytest.raises(WrongFields):
        from_json(Request, fields)


@pytest.mark.parametrize("text", ["-0", "-0.0", "0.0", "0.50", ".5", "5.", "00", "01", "+1", "1e0", "1,5", " 1", "1\n", "", "٣"])
def test_a_decimal_that_is_not_canonical_is_refused(text: str) -> None:
    fields = to_json(DecodePolicy(1, WORLD.request().decode.temperature, WORLD.request().decode.top_p, 0, ()))
    with pytest.raises(MalformedValue):
        from_json(DecodePolicy, fields | {"temperature": text})


@pytest.mark.parametrize("value", [2**53, -(2**53), 1.5, True, "1", None, [1]])
def test_a_plain_integer_is_a_json_number_below_2_to_the_53(value: Any) -> None:
    with pytest.raises(MalformedValue):
        from_json(DecodePolicy, to_json(WORLD.request().decode) | {"max_new_tokens": value})


def test_a_record_that_was_built_with_a_wrong_value_cannot_be_written() -> None:
    leaf = EmptyLeaf(WORLD.operator.address, 2**64, 1)  # type: ignore[arg-type]
    with pytest.raises(MalformedValue):
        encode(leaf)
    audit = AuditResult(b"short", WORLD.operator.address, 1, b"", 0)  # type: ignore[arg-type]
    with pytest.raises(MalformedValue):
        encode(audit)


def test_nested_list_in_place_of_an_object_is_malformed() -> None:
    fields = to_json(WORLD.answered(1))
    assert from_json(SignedReceipt, fields) == WORLD.answered(1)
    with pytest.raises(MalformedValue):
        from_json(SignedReceipt, fields | {"receipt": []})


def test_a_pair_has_two_items() -> None:
    cls = dataclasses.make_dataclass("Pair", [("both", tuple[int, str])], frozen=True)
    assert encode(cls((1, "a"))) == b'{"both":[1,"a"]}'
    assert decode(cls, b'{"both":[1,"a"]}') == cls((1, "a"))
    for wrong in (b'{"both":[1]}', b'{"both":[1,"a","b"]}', b'{"both":["a",1]}'):
        with pytest.raises(MalformedValue):
            decode(cls, wrong)


def test_field_type_unknown_to_the_encoding_is_a_bug() -> None:
    odd = dataclasses.make_dataclass("Odd", [("when", complex)], frozen=True)
    with pytest.raises(TypeError):
        encode(odd(1j))


def test_later_field_is_omitted_when_it_is_none() -> None:
    """An epoch document that was written before hybrid epochs is read, and has the bytes it had."""
    shard = b'{"address":"0x' + b"11" * 20 + b'","certificate":"","channel":"","index":1,"url":"","verification_key":"0x"}'
    old = b'{"assurance":"simulated","epoch":"7","public_key":"0x04","shards":[' + shard + b'],"threshold":1}'
    found = decode(EpochRecord, old)
    assert found.hybrid is None and encode(found) == old
    with pytest.raises(MalformedValue, match=r"EpochRecord\.hybrid.*left out"):
        decode(EpochRecord, old.replace(b'"public', b'"hybrid":null,"public'))
    with pytest.raises(WrongFields, match="threshold"):
        decode(EpochRecord, old.replace(b',"threshold":1', b""))
