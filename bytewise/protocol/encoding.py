"""Encodes every record as canonical bytes, and decodes them strictly: RFC 8785 JSON (design section 4).

`encode(decode(cls, b)) == b` for every accepted `b`. A record is a frozen dataclass. Its JSON object has one member per field,
with the field's name. The docstring of `bytewise.protocol.units` says how each field type is written.
"""

import dataclasses
import enum
import json
import re
import types
import typing
from typing import Any, NoReturn, TypeVar, cast

import rfc8785

from bytewise.protocol import units
from bytewise.protocol.errors.records import MalformedValue, NotCanonical, TooLarge, WrongFields
from bytewise.protocol.units import MAX_SAFE_INTEGER, WIDTHS, Address, Blob, Decimal, Digest

T = TypeVar("T")

_FIELDS: dict[type, dict[str, Any]] = {}
_LATER: dict[type, frozenset[str]] = {}
_TEXTS = {*WIDTHS, Digest, Blob, Address, Decimal, str}

LATER = {"later": True}
"""Metadata of a field that was added later, so older documents do not have it. If its value is None it is not written, so old
bytes stay valid."""

MAX_DOCUMENT_BYTES = 64 * 2**20
"""Largest document that is parsed: larger than any list or artifact manifest, and too small to exhaust memory."""


MAX_MARKS = 2**22
"""Most brackets, commas and backslashes in a document, including those inside strings. Each of these marks costs some 50 bytes
and half a microsecond of parsing. The limit exceeds the bytes of the largest bucket, so no payload is refused for it."""

MAX_DEPTH = 32
"""Deepest nesting of lists and objects that is parsed. The deepest record has 6 levels."""

MARKS = (b"{", b"[", b",", b"\\")
"""The characters that `MAX_MARKS` counts."""
_BRACKET = re.compile(rb'(?:[^][{}"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))*+([][{}]|\Z)', re.DOTALL)
"""Pattern that matches up to the next bracket outside of strings, or up to the end. It always matches, so nothing is scanned
twice."""


def encode(record: object) -> bytes:
    """Returns the canonical JSON of a record (dataclass), or of plain JSON data."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return _canonical(to_json(record))
    return bytes(rfc8785.dumps(cast(Any, record)))


def decode(cls: type[T], data: bytes, max_marks: int = MAX_MARKS) -> T:
    """Returns the record of class `cls` whose canonical bytes are `data`.

    Raises `NotCanonical`, `WrongFields` or `MalformedValue` if there is none. Raises `TooLarge` before parsing if the document
    exceeds a limit.
    """
    return from_json(cls, parse(data, max_marks))


def parse(data: bytes, max_marks: int = MAX_MARKS) -> Any:
    """Parses canonical bytes to plain JSON data. Raises `NotCanonical` for bytes that would re-encode differently.

    `max_marks` limits the brackets, commas and backslashes. A reader of small untrusted records passes a smaller limit, because
    parsing a megabyte of `{},` costs eighty times as much as parsing a megabyte of hex.
    """
    verify_size(data, max_marks)
    verify_depth(data)
    try:
        value = json.loads(
            data, object_pairs_hook=distinct_members, parse_int=_integer, parse_float=_refuse, parse_constant=_refuse
        )
        if _canonical(value) != data:
            raise NotCanonical("re-encodes to other bytes")
    except (ValueError, RecursionError) as error:
        raise NotCanonical(_reason(error)) from None
    return value


def verify_size(data: bytes, max_marks: int = MAX_MARKS) -> bytes:
    """Returns the document if it is small enough for `parse`. Otherwise raises `TooLarge`."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise TooLarge(f"{len(data)} bytes, at most {MAX_DOCUMENT_BYTES}")
    marks = sum(data.count(mark) for mark in MARKS)
    if marks > max_marks:
        raise TooLarge(f"{marks} marks, at most {max_marks}")
    return data


def verify_depth(data: bytes) -> bytes:
    """Returns the JSON document if it is nested at most `MAX_DEPTH` deep. Otherwise raises `TooLarge`.

    Call this before `json.loads` of untrusted bytes. A library of the chain client raises Python's recursion limit so far that a
    hundred thousand brackets end the process with a segmentation fault. `json.loads` also reads UTF-16 and UTF-32, so the depth
    is counted in the encoding that it detects.
    """
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return data
    depth = 0
    for match in _BRACKET.finditer(_as_utf8(data)):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(match[1], 0)
        if depth > MAX_DEPTH:
            raise TooLarge(f"nested deeper than {MAX_DEPTH}")
    return data


def _as_utf8(data: bytes) -> bytes:
    """Returns a JSON document in UTF-8. In UTF-16 and UTF-32 one byte of a letter can be that of a quotation mark. Returns
    nothing for broken text, because `json.loads` refuses it before it parses."""
    encoding = json.detect_encoding(data)
    if encoding.startswith("utf-8"):
        return data
    try:
        return data.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return b""


def parse_typed(data: bytes) -> Any:
    """Parses JSON that a person typed, with keys in any order and any spacing.

    Raises `NotCanonical` if it is not JSON or repeats a key, and `TooLarge` if it is nested too deep.
    """
    try:
        return json.loads(verify_depth(data), object_pairs_hook=distinct_members)
    except ValueError as error:
        raise NotCanonical(_reason(error)) from None


def to_json(record: Any) -> dict[str, Any]:
    """Returns the record as a JSON object.

    Raises `MalformedValue` for a value outside the type of its field.
    """
    values = {name: getattr(record, name) for name in field_types(type(record))}
    absent = {name for name in _later(type(record)) if values[name] is None}
    return {name: _write(kind, values[name], name) for name, kind in field_types(type(record)).items() if name not in absent}


def from_json(cls: type[T], value: Any) -> T:
    """Returns the record of class `cls` for a JSON object with exactly its fields. Fields marked `LATER` may be missing.

    Raises `WrongFields` for missing or unknown fields, and `MalformedValue` for a wrong value.
    """
    hints, later = field_types(cls), _later(cls)
    if not isinstance(value, dict):
        raise MalformedValue(cls.__name__, "not an object")
    missing, unknown = hints.keys() - later - value.keys(), value.keys() - hints.keys()
    if missing or unknown:
        raise WrongFields(cls.__name__, sorted(missing), sorted(unknown)[:5])
    for name in later & value.keys():
        if value[name] is None:
            raise MalformedValue(f"{cls.__name__}.{name}", "null, where it is left out instead")
    return cls(**{name: _read(kind, value[name], f"{cls.__name__}.{name}") for name, kind in hints.items() if name in value})


def field_types(cls: type) -> dict[str, Any]:
    """Returns the field names of a record class with their types, in order."""
    if cls not in _FIELDS:
        hints = typing.get_type_hints(cls)
        _FIELDS[cls] = {field.name: hints[field.name] for field in dataclasses.fields(cast(Any, cls))}
    return _FIELDS[cls]


def _later(cls: type) -> frozenset[str]:
    if cls not in _LATER:
        _LATER[cls] = frozenset(field.name for field in dataclasses.fields(cast(Any, cls)) if field.metadata.get("later"))
    return _LATER[cls]


def _canonical(value: Any) -> bytes:
    """Encodes JSON data whose keys are strings and whose numbers are integers below 2^53, as RFC 8785 requires.

    For ASCII data the faster C encoder gives the same bytes: it escapes the same characters, and code points sort like UTF-16.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.encode() if text.isascii() else bytes(rfc8785.dumps(value))


def _integer(text: str) -> int:
    value = int(text)
    if abs(value) > MAX_SAFE_INTEGER:
        raise rfc8785.IntegerDomainError(value)
    return value


def distinct_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object made of these pairs of name and value. Raises `ValueError` if a name is repeated."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("repeated key")
    return members


def _refuse(_text: str) -> NoReturn:
    raise ValueError("a number is not an integer")


def _reason(error: Exception) -> str:
    """Describes the flaw and its place, without quoting the document: a user may have named a secret file by mistake."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not {error.encoding}"
    if isinstance(error, rfc8785.IntegerDomainError):
        return "an integer is not below 2^53"
    return str(error)[:100]


def _write(kind: Any, value: Any, where: str) -> Any:
    if kind in WIDTHS:
        return str(units.bounded(value, WIDTHS[kind]))
    if kind is Digest:
        return units.hex0x(units.digest(value))
    if kind is Blob:
        return units.hex0x(value)
    if kind is int:
        return _safe_integer(value, where)
    if typing.get_origin(kind) is tuple:
        return [_write(inner, item, where) for inner, item in _items(kind, value, where)]
    if _optional(kind) is not None:
        return None if value is None else _write(_optional(kind), value, where)
    if _records(kind):
        return to_json(_typed(_records(kind), value, where))
    if dataclasses.is_dataclass(kind):
        return to_json(value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return value.value
    return _read(kind, value, where)


def _read(kind: Any, value: Any, where: str) -> Any:
    if kind in _TEXTS:
        return _read_text(kind, _typed(str, value, where), where)
    if _optional(kind) is not None:
        return None if value is None else _read(_optional(kind), value, where)
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise MalformedValue(where, "not a list")
        return tuple(_read(inner, item, where) for inner, item in _items(kind, value, where))
    if _records(kind):
        return from_json(_named_by_fields(_records(kind), value), value)
    if dataclasses.is_dataclass(kind):
        return from_json(cast(type, kind), value)
    if kind is int:
        return _safe_integer(value, where)
    if kind is bool:
        return _typed(bool, value, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _member(kind, value, where)
    raise TypeError(f"{where}: no encoding for {kind}")  # a mistake in our own record class


def _read_text(kind: Any, text: str, where: str) -> Any:
    if kind in WIDTHS:
        if not text.isascii() or not text.isdigit() or (text[0] == "0" and text != "0") or len(text) > 78:
            raise MalformedValue(where, "not a decimal integer")
        if int(text) >> WIDTHS[kind]:
            raise MalformedValue(where, f"not below 2^{WIDTHS[kind]}")
        return int(text)
    if kind is Digest:
        return units.digest(units.unhex(text))
    if kind is Blob:
        return units.unhex(text)
    if kind is Address:
        if text != text.lower():
            raise MalformedValue(where, "address not in lower case")
        return units.address(text)
    return units.decimal(text) if kind is Decimal else text


def _items(kind: Any, value: Any, where: str) -> list[tuple[Any, Any]]:
    arguments = typing.get_args(kind)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return [(arguments[0], item) for item in value]
    if len(arguments) != len(value):
        raise MalformedValue(where, f"{len(value)} items instead of {len(arguments)}")
    return list(zip(arguments, value, strict=True))


def _optional(kind: Any) -> Any:
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        inner = [each for each in typing.get_args(kind) if each is not type(None)]
        return inner[0] if len(inner) == 1 else None
    return None


def _records(kind: Any) -> tuple[type, ...]:
    """Returns the classes of a union of records, or an empty tuple for any other type. The classes differ in their fields."""
    if typing.get_origin(kind) not in (types.UnionType, typing.Union):
        return ()
    inner = typing.get_args(kind)
    return inner if all(dataclasses.is_dataclass(each) for each in inner) else ()


def _named_by_fields(kinds: tuple[type, ...], value: Any) -> type:
    """Returns the class that has exactly the fields of this object.

    If there is none, returns the first class. Decoding under it then raises an error that names what is wrong.
    """
    names = value.keys() if isinstance(value, dict) else ()
    return next((kind for kind in kinds if field_types(kind).keys() == names), kinds[0])


def _safe_integer(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_SAFE_INTEGER:
        raise MalformedValue(where, "not an integer below 2^53")
    return value


def _typed(kind: type | tuple[type, ...], value: Any, where: str) -> Any:
    if not isinstance(value, kind):
        names = " or ".join(each.__name__ for each in (kind if isinstance(kind, tuple) else (kind,)))
        raise MalformedValue(where, f"not a {names}")
    return value


def _member(kind: type[enum.Enum], value: Any, where: str) -> enum.Enum:
    if isinstance(value, bool):
        raise MalformedValue(where, "not a number")
    try:
        return kind(value)
    except ValueError:
        raise MalformedValue(where, f"not a {kind.__name__}") from None
