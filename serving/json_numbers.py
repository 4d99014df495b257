"""Parses JSON without floats: a number reaches the Request as the decimal that the client wrote (design section 4).

A float would turn 0.7 into 0.6999…. Here `0.70`, `7e-1` and `0.7` all become the canonical decimal `0.7`.
"""

import json
import re
from typing import Any, NoReturn

from bytewise.protocol.encoding import verify_depth
from bytewise.protocol.errors.actors import BadRequest
from bytewise.protocol.errors.records import NotCanonical
from bytewise.protocol.units import Decimal, decimal
from serving.refusals import Code

_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_LONGEST_NUMBER = 64
_MOST_DIGITS = 30
"""Most digits on each side of the point, as in `protocol.units.decimal`."""


class NumberText(str):
    """A JSON number with fraction or exponent, as the client wrote it."""

    __slots__ = ()


def parse_json(body: bytes) -> Any:
    """Parses a request body. Raises `BadRequest` if it is no JSON text, repeats a member, or contains NaN or an infinity.

    Numbers without fraction or exponent become `int`, all others `NumberText` (RFC 8259 section 6).
    """
    try:
        text = verify_depth(body).decode("utf-8")
        value = json.loads(text, object_pairs_hook=_object, parse_float=NumberText, parse_constant=_no_number)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate has no UTF-8 form
    except BadRequest:
        raise
    except (ValueError, NotCanonical) as error:
        raise BadRequest("body", f"not valid JSON: {str(error)[:120]}") from None
    return value


def canonical_decimal(param: str, value: object) -> Decimal:
    """Returns the number as a canonical decimal string. Raises `BadRequest` with the parameter's name if the value is no number
    or needs over 30 digits before or after the point."""
    if isinstance(value, bool) or not isinstance(value, int | NumberText):
        raise BadRequest(param, "must be a number", Code.INVALID_TYPE)
    text = str(value)
    parts = _NUMBER.fullmatch(text)
    if parts is None or len(text) > _LONGEST_NUMBER:
        raise BadRequest(param, "is too long a number")
    sign, whole, part, power = parts.group(1), parts.group(2), parts.group(3) or "", int(parts.group(4) or 0)
    if abs(power) > _LONGEST_NUMBER:
        raise BadRequest(param, "has too large an exponent")
    return _written(param, sign, whole, part, power)


def _written(param: str, sign: str, whole: str, part: str, power: int) -> Decimal:
    digits, point = whole + part, len(whole) + power
    if point <= 0:
        digits, point = "0" * (1 - point) + digits, 1
    digits = digits.ljust(point, "0")
    before, after = digits[:point].lstrip("0") or "0", digits[point:].rstrip("0")
    if len(before) > _MOST_DIGITS or len(after) > _MOST_DIGITS:
        raise BadRequest(param, f"needs more than {_MOST_DIGITS} digits")
    text = before + ("." + after if after else "")
    return decimal("0" if text == "0" else sign + text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise BadRequest(next(name for name in names if names.count(name) > 1)[:60], "is given twice")
    return members


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")
