"""Converts records to structs of a contract and back. Both have the same fields in the same order; records use snake case,
structs camel case."""

import dataclasses
import enum
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from bytewise.protocol.encoding import field_types
from bytewise.protocol.signing import camel

T = TypeVar("T")


def to_struct(record: Any) -> tuple[Any, ...]:
    """Returns the record as an argument of a contract call."""
    return tuple(_plain(getattr(record, name)) for name in field_types(type(record)))


def from_struct(cls: type[T], raw: Mapping[str, Any]) -> T:
    """Builds a record from a decoded struct, which may have more fields. Call it inside `reading_answer`."""
    return cls(**{name: _read(kind, raw[camel(name)]) for name, kind in field_types(cls).items()})


def _plain(value: Any) -> Any:
    return to_struct(value) if dataclasses.is_dataclass(value) else value


def _read(kind: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return from_struct(kind, value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and dataclasses.is_dataclass(arguments[0]):
        return tuple(_read(arguments[0], each) for each in value)
    return value
