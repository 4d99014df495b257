"""Call arguments as people write them, parsed by the types of the contract's ABI.

People write whole numbers, 0x-hex, true or false, text, and JSON for lists and structs. `@FILE` reads a long argument from a
file: raw bytes for `bytes`, JSON for lists and structs.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eth_utils.address import is_checksum_address

from bytewise.protocol.encoding import parse_typed
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue, NotCanonical
from bytewise.protocol.units import Address, address, unhex
from chain.client.artifacts import kind_of

_NUMBER = re.compile(r"(u?)int(\d+)")
_FIXED = re.compile(r"bytes(\d+)")


def signature(function: Mapping[str, Any]) -> str:
    """Returns an ABI function as text for people: its name, and types and names of its arguments."""
    inputs = [f"{kind_of(each)} {each['name']}".strip() for each in function["inputs"]]
    return f"{function['name']}({', '.join(inputs)})"


def read_arguments(function: Mapping[str, Any], texts: Sequence[str]) -> tuple[Any, ...]:
    """Parses the arguments of an ABI function.

    Raises `ConfigurationError` for a wrong number of arguments, for a file that cannot be read, or for an argument of a wrong
    type. The last error names the argument and the right type.
    """
    inputs = function["inputs"]
    if len(texts) != len(inputs):
        raise ConfigurationError("ARGUMENTS", f"{signature(function)} takes {len(inputs)}, not {len(texts)}")
    return tuple(_typed(each, text) for each, text in zip(inputs, texts, strict=True))


def read_address(text: str) -> Address:
    """Parses an account that a person typed, in hex digits of one case or with a valid checksum. Raises `MalformedValue` for
    anything else."""
    digits = text[2:]
    # Letters of both cases are a checksum (ERC-55), which catches typing errors.
    if digits not in (digits.lower(), digits.upper()) and not is_checksum_address(f"0x{digits}"):
        raise MalformedValue("address", f"{text[:60]} has a wrong checksum")
    return address(text)


def _typed(parameter: Mapping[str, Any], text: str) -> Any:
    kind, name = parameter["type"], parameter["name"] or parameter["type"]
    structured = kind.endswith("]") or kind == "tuple"
    content = _content(name, text[1:]) if text.startswith("@") and kind != "string" else None
    if content is not None and kind == "bytes":
        return content
    given = text if content is None else content.decode("utf-8", "replace").strip()
    if not structured:
        return _value(parameter, given, name)
    try:
        value = parse_typed(given.encode("utf-8", "surrogateescape"))
    except NotCanonical as error:
        raise _refused(name, kind_of(parameter), f"is no JSON: {error}") from None
    return _value(parameter, value, name)


def _content(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(name, f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(name, f"{path!r} is no path: {error}") from None


def _value(parameter: Mapping[str, Any], given: Any, where: str) -> Any:
    kind = parameter["type"]
    if kind.endswith("]"):
        return _list(parameter, given, where)
    if kind == "tuple":
        return _struct(parameter["components"], given, where)
    if kind == "bool":
        if str(given).lower() not in ("true", "false"):
            raise _refused(where, kind, f"must be true or false, not {_shown(given)}")
        return str(given).lower() == "true"
    if number := _NUMBER.fullmatch(kind):
        return _whole(given, where, kind, not number[1], int(number[2]))
    if not isinstance(given, str):
        raise _refused(where, kind, f"must be text, not {_shown(given)}")
    if kind == "string":
        return _text(given, where)
    try:
        return read_address(given) if kind == "address" else _bytes(kind, given)
    except MalformedValue as error:
        raise _refused(where, kind, str(error)) from None


def _list(parameter: Mapping[str, Any], given: Any, where: str) -> list[Any]:
    kind: str = parameter["type"]
    inner, size = kind[: kind.rindex("[")], kind[kind.rindex("[") + 1 : -1]
    if not isinstance(given, list) or (size and len(given) != int(size)):
        raise _refused(where, kind_of(parameter), f"must be a list{' of ' + size if size else ''}, not {_shown(given)}")
    return [_value({**parameter, "type": inner}, each, f"{where}[{place}]") for place, each in enumerate(given)]


def _struct(components: Sequence[Mapping[str, Any]], given: Any, where: str) -> tuple[Any, ...]:
    names = [each["name"] for each in components]
    if not isinstance(given, dict) or set(given) != set(names):
        raise _refused(where, "struct", f"must be an object with {', '.join(names)}, not {_shown(given)}")
    return tuple(_value(each, given[each["name"]], f"{where}.{each['name']}") for each in components)


def _whole(given: Any, where: str, kind: str, signed: bool, bits: int) -> int:
    # Python takes JSON's true for an int; it is no number here.
    if isinstance(given, bool) or not re.fullmatch(r"-?\d{1,78}", str(given), re.ASCII):
        raise _refused(where, kind, f"must be a whole number, not {_shown(given)}")
    number = int(given)
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
    if not least <= number < most:
        raise _refused(where, kind, f"{number} is outside it")
    return number


def _text(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _refused(where, "string", "is no UTF-8") from None
    return text


def _bytes(kind: str, text: str) -> bytes:
    raw = unhex(text.lower())
    size = _FIXED.fullmatch(kind)
    if size and len(raw) != int(size[1]):
        raise MalformedValue(kind, f"{len(raw)} bytes")
    return raw


def _refused(where: str, kind: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{where} ({kind})", why)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 60 else text[:60] + "…"
