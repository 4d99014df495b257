"""Writes a settings file with every setting of a class: first its meaning as a comment, then the given value, or its default as a
comment."""

import dataclasses
import enum
import json
import textwrap
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from bytewise.service.field_texts import field_texts, first_paragraph
from bytewise.service.settings import OtherProcess

WIDTH = 110


def settings_text(cls: type, values: Mapping[str, Any], omit: frozenset[str] = frozenset()) -> str:
    """TOML of the settings of `cls`. `values` has the given settings, and a mapping for each given section.

    A section without a given setting is written as comments if all its settings have defaults. `omit` names sections and
    top-level settings that are left out.
    """
    return "\n".join(_table(cls, values, "", omit)) + "\n"


def section_text(name: str, cls: type, values: Mapping[str, Any]) -> str:
    """TOML of one section that another process reads."""
    return "\n".join(["", *_comment(first_paragraph(cls)), f"[{name}]", *_table(cls, values, name, frozenset())]) + "\n"


def _table(cls: type, values: Mapping[str, Any], section: str, omit: frozenset[str]) -> Iterator[str]:
    kinds, texts = typing.get_type_hints(cls), field_texts(cls)
    inner: list[tuple[str, type, dataclasses.Field[Any]]] = []
    for field in dataclasses.fields(cast(Any, cls)):
        kind = _section_of(kinds[field.name])
        if field.name in omit or kinds[field.name] is OtherProcess or OtherProcess in typing.get_args(kinds[field.name]):
            continue
        if kind is not None:
            inner.append((field.name, kind, field))
            continue
        yield from _comment(texts.get(field.name, ""))
        given = field.name in values and values[field.name] is not None
        yield f"{field.name} = {_toml(values[field.name])}" if given else f"# {field.name} = {_toml(_default(field))}"
    for name, kind, field in inner:
        yield from _section(f"{section}.{name}" if section else name, kind, field, values.get(name), texts.get(name, ""))


def _section(name: str, cls: type, field: "dataclasses.Field[Any]", values: Mapping[str, Any] | None, text: str) -> Iterator[str]:
    yield ""
    yield from _comment(text or first_paragraph(cls))
    if values is None and field.default is None:
        yield f"# [{name}]"
        yield from (line if line.startswith("#") else f"# {line}" for line in _table(cls, {}, name, frozenset()))
        return
    yield f"[{name}]"
    yield from _table(cls, values or {}, name, frozenset())


def _section_of(kind: Any) -> type | None:
    return next((cast(type, each) for each in (kind, *typing.get_args(kind)) if dataclasses.is_dataclass(each)), None)


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, WIDTH, break_on_hyphens=False)]


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default is dataclasses.MISSING or field.default is None:
        return ""
    return field.default


def _toml(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, enum.Enum):
        return _toml(value.value)
    # JSON's strings, numbers and booleans are TOML's.
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
