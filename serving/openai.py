"""The OpenAI wire format of chat completions. The server refuses every parameter that it does not support, and names the
parameter.

The decode policy lacks some of OpenAI's sampling parameters. The server refuses such a parameter, unless it has its neutral
value. If the server ignored the parameter, it would sign an answer to another question. `BadRequest` names the parameter.
Source: OpenAI API, "Create chat completion".
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from bytewise.protocol.encoding import verify_depth
from bytewise.protocol.errors.actors import BadRequest
from bytewise.protocol.errors.records import NotCanonical
from bytewise.protocol.records.request import (
    MAX_BIASES,
    MAX_GRAMMAR_BYTES,
    MAX_STOP_BYTES,
    MAX_STOP_STRINGS,
    MAX_TOP_LOGPROBS,
    TOKEN_LIMIT,
)
from bytewise.protocol.units import Decimal, decimal, fraction
from serving.refusals import Code

# JSON without floats: a number reaches the Request as the decimal that the client wrote (design section 4). A float would
# turn 0.7 into 0.6999…. Here `0.70`, `7e-1` and `0.7` all become the canonical decimal `0.7`.

_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_LONGEST_NUMBER = 64
_MOST_DIGITS = 30
"""Most digits on each side of the point, as in `protocol.units.decimal`."""


class NumberText(str):
    """A JSON number with fraction or exponent, as the client wrote it."""

    __slots__ = ()


def parse_json(body: bytes) -> Any:
    """Parses a request body. Raises `BadRequest` if the body is no JSON text, repeats a member, or contains NaN or an infinity.

    Numbers without fraction and exponent become `int`. All other numbers become `NumberText` (RFC 8259 section 6).
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
    """Returns the number as a canonical decimal string. Raises `BadRequest` with the parameter's name if the value is no
    number, or if it needs over 30 digits before or after the point."""
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


# Parameters of chat completions.

ANY_OBJECT = '{"type":"object"}'
"""JSON schema for the response format `json_object`."""

_TOKEN = re.compile(r"0|[1-9][0-9]{0,9}")

Body = Mapping[str, Any]


def integer(body: Body, name: str, least: int, most: int) -> int | None:
    """Reads an integer parameter within bounds. Returns None if the parameter is missing."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRequest(name, "must be an integer", Code.INVALID_TYPE)
    if not least <= value <= most:
        raise BadRequest(name, f"must be from {least} to {most}")
    return value


def number(body: Body, name: str, default: str, least: str, most: str) -> Decimal:
    """Reads a number parameter within bounds, as the decimal that the client wrote. Returns `default` if the parameter is
    missing."""
    value = canonical_decimal(name, body[name]) if name in body else decimal(default)
    return _within(name, value, least, most)


def share(body: Body, name: str) -> Decimal:
    """Reads a number parameter above 0 and up to 1. Returns 1 if the parameter is missing."""
    value = number(body, name, "1", "0", "1")
    if fraction(value) == 0:
        raise BadRequest(name, "must be above 0 to 1")
    return value


def stop_strings(body: Body) -> tuple[str, ...]:
    """Reads the parameter `stop`: a text or a list of texts. Returns the texts sorted and without repetition."""
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
    """Reads the parameter `logit_bias`: an object from token ids to numbers from -100 to 100. Returns pairs in order of the
    ids."""
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
    """Reads `logprobs` and `top_logprobs`. Returns the number of alternatives to list for each token, or None if the client wants
    no logprobs."""
    wanted, most = body.get("logprobs", False), integer(body, "top_logprobs", 0, MAX_TOP_LOGPROBS)
    if not isinstance(wanted, bool):
        raise BadRequest("logprobs", "must be true or false", Code.INVALID_TYPE)
    if most is not None and not wanted:
        raise BadRequest("top_logprobs", "needs logprobs to be true")
    return (most or 0) if wanted else None


def grammar(body: Body) -> str | None:
    """Reads `response_format`. Returns its JSON schema as text with its members in the client's order, or None for plain text."""
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
    # Every answer obeys the schema, so `strict` makes no difference.
    if not isinstance(wrapper.get("strict", True), bool | None) or not isinstance(wrapper.get("name"), str):
        raise BadRequest("response_format.json_schema", "needs a text as name and, if any, true or false as strict")
    if not isinstance(wrapper.get("schema"), dict):
        raise BadRequest("response_format.json_schema.schema", "must be an object", Code.INVALID_TYPE)
    text = _json(wrapper["schema"])
    if len(text.encode()) > MAX_GRAMMAR_BYTES:
        raise BadRequest("response_format.json_schema.schema", f"is longer than {MAX_GRAMMAR_BYTES} bytes")
    return text


def _json(value: Any) -> str:
    # Like json.dumps, but numbers stay as the client wrote them.
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


MAX_SEED = 2**63 - 1
"""Largest seed. OpenAI's seed is an int64; this server accepts no negative seed."""

_ROLES = ("system", "developer", "user", "assistant")
_NEUTRAL: Mapping[str, tuple[object, ...]] = {"stream": (False,), "store": (False,)}
"""Parameters that this server does not support, each with its neutral values. A neutral value switches the parameter off, so
the server accepts it."""
_UNDERSTOOD = frozenset(
    "model messages max_tokens max_completion_tokens temperature top_p top_k min_p repetition_penalty presence_penalty "
    "frequency_penalty logit_bias stop logprobs top_logprobs response_format n seed user".split()
)
_UNSUPPORTED = frozenset(
    "audio function_call functions metadata modalities moderation parallel_tool_calls prediction prompt_cache_key "
    "prompt_cache_options prompt_cache_retention reasoning_effort safety_identifier service_tier stream_options tool_choice "
    "tools verbosity web_search_options".split()
)
"""Other parameters of OpenAI's chat completions. The server refuses them as unsupported. It refuses a name that is in none of
these three sets as unknown."""
MAX_CHOICES = 8
"""Most choices of one answer. The engine computes one choice after the other, and each choice has a receipt."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One valid chat request. It contains plaintext, so it is never logged."""

    model: str
    messages: tuple[tuple[str, str], ...]
    """Messages in order, each with its role and its text."""
    max_new_tokens: int | None
    """Most new tokens. None allows as many as fit into the context and the limits of the environment."""
    temperature: Decimal
    top_p: Decimal
    top_k: int
    seed: int | None
    """Seed of the sampler, or None if the gateway draws one."""
    choices: int
    """Number of choices (`n`)."""
    min_p: Decimal
    repetition_penalty: Decimal
    presence_penalty: Decimal
    frequency_penalty: Decimal
    logit_bias: tuple[tuple[int, Decimal], ...]
    stop_strings: tuple[str, ...]
    logprobs: int | None
    """Number of alternatives to list for each token, or None for no logprobs."""
    grammar: str | None
    """JSON schema of the answer as JSON text, or None for plain text."""

    def __repr__(self) -> str:
        return f"ChatRequest({len(self.messages)} messages)"


def read_chat_request(value: Any) -> ChatRequest:
    """Reads the request from a parsed body. Raises `BadRequest(param, why)` with one parameter that the server cannot serve."""
    if not isinstance(value, dict):
        raise BadRequest("body", "must be a JSON object")
    body = {name: item for name, item in value.items() if item is not None}
    for name in body.keys() - _UNDERSTOOD:
        _refuse_unless_neutral(name, body[name])
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("model", "must be the name of a model (see GET /v1/models)", _missing_or_type(model))
    if not isinstance(body.get("user", ""), str):
        raise BadRequest("user", "must be a string", Code.INVALID_TYPE)
    return ChatRequest(
        model=model,
        messages=_messages(body.get("messages")),
        max_new_tokens=_max_new_tokens(body),
        temperature=number(body, "temperature", "1", "0", "2"),
        top_p=share(body, "top_p"),
        top_k=integer(body, "top_k", 0, 2**20) or 0,
        seed=integer(body, "seed", 0, MAX_SEED),
        choices=integer(body, "n", 1, MAX_CHOICES) or 1,
        min_p=number(body, "min_p", "0", "0", "1"),
        repetition_penalty=number(body, "repetition_penalty", "1", "0.01", "100"),
        presence_penalty=number(body, "presence_penalty", "0", "-2", "2"),
        frequency_penalty=number(body, "frequency_penalty", "0", "-2", "2"),
        logit_bias=logit_bias(body),
        stop_strings=stop_strings(body),
        logprobs=logprobs(body),
        grammar=grammar(body),
    )


def models_body(name: str, created: int, owner: str, context: int) -> dict[str, Any]:
    """Returns the body of `GET /v1/models`. The member `context_length` is the most tokens of prompt and answer together.
    OpenAI's format does not have this member."""
    model = {"id": name, "object": "model", "created": created, "owned_by": owner, "context_length": context}
    return {"object": "list", "data": [model]}


def _refuse_unless_neutral(name: str, value: object) -> None:
    neutral = _NEUTRAL.get(name)
    if neutral is None:
        raise BadRequest(name[:60], "is not supported by this server", Code.UNSUPPORTED if name in _UNSUPPORTED else Code.UNKNOWN)
    plain = str(canonical_decimal(name, value)) if isinstance(value, NumberText) else value
    if not any(plain == each and isinstance(plain, bool) == isinstance(each, bool) for each in neutral):
        advice = f"only {neutral[0]!r} is supported".replace("False", "false")
        raise BadRequest(name, advice + (": this server does not stream" if name == "stream" else ""), Code.UNSUPPORTED_VALUE)


def _missing_or_type(value: object) -> Code:
    # Code for a value that must be a text or a list, and must not be empty.
    if value is None:
        return Code.MISSING
    return Code.INVALID_VALUE if value in ("", []) else Code.INVALID_TYPE


def _messages(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list) or not value:
        raise BadRequest("messages", "must be a list with at least one message", _missing_or_type(value))
    return tuple(_message(f"messages[{i}]", item) for i, item in enumerate(value))


def _message(where: str, value: object) -> tuple[str, str]:
    if not isinstance(value, dict):
        raise BadRequest(where, "must be an object with role and content", Code.INVALID_TYPE)
    unknown = sorted(name for name, item in value.items() if item is not None and name not in ("role", "content"))
    if unknown:
        raise BadRequest(f"{where}.{unknown[0][:60]}", "is not supported by this server", Code.UNSUPPORTED)
    role = value.get("role")
    if role not in _ROLES:
        code = _missing_or_type(role) if not isinstance(role, str) else Code.UNSUPPORTED_VALUE
        raise BadRequest(f"{where}.role", "must be one of " + ", ".join(_ROLES), code)
    # `developer` is OpenAI's newer name of the role `system`. Chat templates know only the older name.
    return ("system" if role == "developer" else role), _content(f"{where}.content", value.get("content"))


def _content(where: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise BadRequest(where, "must be a string or a list of text parts", _missing_or_type(value))
    texts = []
    for i, part in enumerate(value):
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise BadRequest(f"{where}[{i}]", "only parts of type text are supported", Code.UNSUPPORTED_VALUE)
        if part.keys() != {"type", "text"}:
            raise BadRequest(f"{where}[{i}]", "has members other than type and text")
        texts.append(part["text"])
    return "".join(texts)


def _max_new_tokens(body: Mapping[str, Any]) -> int | None:
    older, newer = (integer(body, name, 1, 2**20) for name in ("max_tokens", "max_completion_tokens"))
    if older is not None and newer is not None and older != newer:
        raise BadRequest("max_tokens", "differs from max_completion_tokens; give one of them")
    return newer if newer is not None else older
