"""Files of calls that one proposal makes together: what nobody asked for must not be proposed, so nothing is passed over."""

import json
from pathlib import Path
from typing import Any

from bytewise.protocol.encoding import parse_typed
from bytewise.protocol.errors import ConfigurationError, NotCanonical
from chain.deployment.calls import Act
from cli.chain_call import act_of

_NEEDED = {"contract": str, "function": str, "arguments": list}
_TYPES: dict[str, type] = {**_NEEDED, "value": int}


def acts_of(file: Path) -> list[Act]:
    """The calls of a JSON list of objects with contract, function, arguments and, if wei go with it, value.

    `ConfigurationError` names the first that is anything else, or no call of the contracts.
    """
    try:
        listed = parse_typed(file.read_bytes())
    except OSError as error:
        raise ConfigurationError(file.name, str(error.strerror)) from None
    except NotCanonical as error:
        raise ConfigurationError(file.name, f"is no JSON: {error}") from None
    if not isinstance(listed, list):
        raise ConfigurationError(file.name, "is no JSON list of calls")
    return [_act(f"{file.name}[{place}]", asked) for place, asked in enumerate(listed)]


def _act(where: str, asked: Any) -> Act:
    if not isinstance(asked, dict) or not _NEEDED.keys() <= asked.keys() <= _TYPES.keys():
        raise ConfigurationError(where, 'is no {"contract", "function", "arguments": […]}, nor that with "value"')
    for name, given in asked.items():
        # JSON's true is an int to Python and none to us.
        if type(given) is not _TYPES[name]:
            raise ConfigurationError(f"{where}.{name}", f"is no {_NAMES[_TYPES[name]]}")
    value = asked.get("value", 0)
    if not 0 <= value < 2**256:
        raise ConfigurationError(f"{where}.value", "is no number of wei")
    return act_of(asked["contract"], asked["function"], [_text(each) for each in asked["arguments"]], value)


_NAMES = {str: "text", list: "list", int: "whole number"}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
