"""Knobs of decoding as the OpenAI API names them, read into the terms of the decode policy; `BadRequest` names the wrong one.

`top_k`, `min_p` and `repetition_penalty` are the usual extensions. What a knob means exactly is `docs/exact-arithmetic.md`,
section 8; its bounds are those of `protocol.request`.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from bytewise.protocol.errors import BadRequest
from bytewise.protocol.records.request import (
    MAX_BIASES,
    MAX_GRAMMAR_BYTES,
    MAX_STOP_BYTES,
    MAX_STOP_STRINGS,
    MAX_TOP_LOGPROBS,
    TOKEN_LIMIT,
)
from bytewise.protocol.units import Decimal, decimal, fraction
from serving.json_numbers import NumberText, canonical_decimal
from serving.refusals import Code

ANY_OBJECT = '{"type":"object"}'
"""Schema of the response format `json_object`."""

_TOKEN = re.compile(r"0|[1-9][0-9]{0,9}")

Body = Mapping[str, Any]


def integer(body: Body, name: str, least: int, most: int) -> int | None:
    """An integer within bounds, or None where it is not given."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRequest(name, "must be an integer", Code.INVALID_TYPE)
    if not least <= value <= most:
        raise BadRequest(name, f"must be from {least} to {most}")
    return value


def number(body: Body, name: str, default: str, least: str, most: str) -> Decimal:
    """A number within bounds, as the decimal that the client wrote."""
    value = canonical_decimal(name, body[name]) if name in body else decimal(default)
    return _within(name, value, least, most)


def share(body: Body, name: str) -> Decimal:
    """A number above 0 and up to 1; 1 where it is not given."""
    value = number(body, name, "1", "0", "1")
    if fraction(value) == 0:
        raise BadRequest(name, "must be above 0 to 1")
    return value


def stop_strings(body: Body) -> tuple[str, ...]:
    """`stop`: a text or a list of texts."""
    value = body.get("stop", [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadRequest("stop", "must be a text or a list of texts", Code.INVALID_TYPE)
    if not all(texts):
        raise BadRequest("stop", "has an empty text")
    if len(texts) > MAX_STOP_STRINGS:
        raise BadRequest("stop", f"has {len(texts)} texts, at most {MAX_STOP_STRINGS} are supported")
    if any(len(text.encode()) > MAX_STOP_BYTES for text in texts):
        raise BadRequest("stop", f"has a text of more than {MAX_STOP_BYTES} bytes")
    return tuple(sorted(set(texts)))


def logit_bias(body: Body) -> tuple[tuple[int, Decimal], ...]:
    """`logit_bias`: an object from token ids to numbers from -100 to 100."""
    value = body.get("logit_bias", {})
    if not isinstance(value, dict):
        raise BadRequest("logit_bias", "must be an object from token ids to numbers", Code.INVALID_TYPE)
    if len(value) > MAX_BIASES:
        raise BadRequest("logit_bias", f"has {len(value)} tokens, at most {MAX_BIASES} are supported")
    found = []
    for token, bias in value.items():
        where = f"logit_bias.{token[:20]}"
        if not _TOKEN.fullmatch(token) or int(token) >= TOKEN_LIMIT:
            raise BadRequest(where, "is not a token id")
        found.append((int(token), _within(where, canonical_decimal(where, bias), "-100", "100")))
    return tuple(sorted(found))


def logprobs(body: Body) -> int | None:
    """How many alternatives to list for each token, or None for no logprobs: `logprobs` and `top_logprobs`."""
    wanted, most = body.get("logprobs", False), integer(body, "top_logprobs", 0, MAX_TOP_LOGPROBS)
    if not isinstance(wanted, bool):
        raise BadRequest("logprobs", "must be true or false", Code.INVALID_TYPE)
    if most is not None and not wanted:
        raise BadRequest("top_logprobs", "needs logprobs to be true")
    return (most or 0) if wanted else None


def grammar(body: Body) -> str | None:
    """JSON schema of `response_format`, as JSON text with its members in the client's order, or None for plain text."""
    value = body.get("response_format", {"type": "text"})
    kind = value.get("type") if isinstance(value, dict) else None
    if kind in ("text", "json_object") and value.keys() == {"type"}:
        return None if kind == "text" else ANY_OBJECT
    if kind != "json_schema":
        raise BadRequest("response_format", "must have one of the types text, json_object and json_schema")
    wrapper = value.get("json_schema")
    known = {"name", "description", "schema", "strict"}
    if value.keys() != {"type", "json_schema"} or not isinstance(wrapper, dict) or wrapper.keys() - known:
        raise BadRequest("response_format.json_schema", "must be an object with name and schema")
    # Whether `strict` is asked for or not: every answer obeys.
    if not isinstance(wrapper.get("strict", True), bool | None) or not isinstance(wrapper.get("name"), str):
        raise BadRequest("response_format.json_schema", "needs a text as name and, if any, true or false as strict")
    if not isinstance(wrapper.get("schema"), dict):
        raise BadRequest("response_format.json_schema.schema", "must be an object", Code.INVALID_TYPE)
    text = _json(wrapper["schema"])
    if len(text.encode()) > MAX_GRAMMAR_BYTES:
        raise BadRequest("response_format.json_schema.schema", f"is longer than {MAX_GRAMMAR_BYTES} bytes")
    return text


def _json(value: Any) -> str:
    # As json.dumps, but numbers stay as the client wrote them.
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(name)}:{_json(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _within(name: str, value: Decimal, least: str, most: str) -> Decimal:
    if not fraction(decimal(least)) <= fraction(value) <= fraction(decimal(most)):
        raise BadRequest(name, f"must be from {least} to {most}")
    return value
