"""Strict reader of vendors' JSON, so that two readers cannot understand a text differently. It also reads dates as Unix
seconds."""

import datetime
import json
from typing import Any, NoReturn

from bytewise.protocol.encoding import verify_depth
from bytewise.protocol.errors.evidence import EvidenceMalformed, EvidenceTooLarge
from bytewise.protocol.errors.records import TooLarge


def read_object(data: bytes, what: str) -> dict[str, Any]:
    """Returns the JSON object of these bytes. Raises `EvidenceMalformed` for anything else, for example repeated keys, floats,
    deep nesting or broken text."""
    try:
        verify_depth(data)
        value = json.loads(data, object_pairs_hook=_once, parse_float=_refuse, parse_constant=_refuse)
        # An escape can encode half of a surrogate pair, which has no encoding as bytes.
        json.dumps(value, ensure_ascii=False).encode()
    except TooLarge as error:
        raise EvidenceTooLarge(f"{what}: {error}") from None
    except (ValueError, RecursionError):
        raise EvidenceMalformed(f"{what}: no strict JSON") from None
    if not isinstance(value, dict):
        raise EvidenceMalformed(f"{what}: no object")
    return value


def unix_second(text: str) -> int:
    """Returns the Unix second of an RFC 3339 time in UTC. Raises `EvidenceMalformed` if the text is not such a time."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise EvidenceMalformed(f"{text[:40]} is no time") from None
    if moment.utcoffset() != datetime.timedelta(0):
        raise EvidenceMalformed(f"{text[:40]} is no time in UTC")
    return int(moment.timestamp())


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("repeated key")
    return members


def _refuse(text: str) -> NoReturn:
    raise ValueError(text[:20])
