"""The OpenAI wire format of chat completions: what is understood, and by name what is not.

A knob that the decode policy has not is refused unless it has its neutral value: silently ignoring one would sign an answer
to another question than was asked. Reference: OpenAI API, "Create chat completion"; `ecosystem.md` 5.3 for the errors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bytewise.protocol.errors import BadRequest
from bytewise.protocol.units import Decimal
from serving import knobs
from serving.json_numbers import NumberText, canonical_decimal
from serving.refusals import Code

MAX_SEED = 2**63 - 1
"""OpenAI's seed is an int64; ours is never negative."""

_ROLES = ("system", "developer", "user", "assistant")
_NEUTRAL: Mapping[str, tuple[object, ...]] = {"stream": (False,), "store": (False,)}
"""Knobs that we have not, with the values that mean their absence."""
_UNDERSTOOD = frozenset(
    "model messages max_tokens max_completion_tokens temperature top_p top_k min_p repetition_penalty presence_penalty "
    "frequency_penalty logit_bias stop logprobs top_logprobs response_format n seed user".split()
)
_UNSUPPORTED = frozenset(
    "audio function_call functions metadata modalities moderation parallel_tool_calls prediction prompt_cache_key "
    "prompt_cache_options prompt_cache_retention reasoning_effort safety_identifier service_tier stream_options tool_choice "
    "tools verbosity web_search_options".split()
)
"""What else OpenAI's chat completions have; a name that is in none of these is unknown."""
MAX_CHOICES = 8
"""Most choices of one answer: they are computed one after the other, and each has a receipt."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One understood chat request. The type holds plaintext: it is never logged."""

    model: str
    messages: tuple[tuple[str, str], ...]
    """(role, text) in order."""
    max_new_tokens: int | None
    """None: as many as fit."""
    temperature: Decimal
    top_p: Decimal
    top_k: int
    seed: int | None
    """None: the gateway draws one."""
    choices: int
    """How many answers."""
    min_p: Decimal
    repetition_penalty: Decimal
    presence_penalty: Decimal
    frequency_penalty: Decimal
    logit_bias: tuple[tuple[int, Decimal], ...]
    stop_strings: tuple[str, ...]
    logprobs: int | None
    """Alternatives listed for each token; None: no logprobs."""
    grammar: str | None
    """JSON schema of the answer, as JSON text."""

    def __repr__(self) -> str:
        return f"Ask({len(self.messages)} messages)"


def read_ask(value: Any) -> Ask:
    """The request of a parsed body; `BadRequest(param, why)` for the first thing that cannot be served."""
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
    return Ask(
        model=model,
        messages=_messages(body.get("messages")),
        max_new_tokens=_max_new_tokens(body),
        temperature=knobs.number(body, "temperature", "1", "0", "2"),
        top_p=knobs.share(body, "top_p"),
        top_k=knobs.integer(body, "top_k", 0, 2**20) or 0,
        seed=knobs.integer(body, "seed", 0, MAX_SEED),
        choices=knobs.integer(body, "n", 1, MAX_CHOICES) or 1,
        min_p=knobs.number(body, "min_p", "0", "0", "1"),
        repetition_penalty=knobs.number(body, "repetition_penalty", "1", "0.01", "100"),
        presence_penalty=knobs.number(body, "presence_penalty", "0", "-2", "2"),
        frequency_penalty=knobs.number(body, "frequency_penalty", "0", "-2", "2"),
        logit_bias=knobs.logit_bias(body),
        stop_strings=knobs.stop_strings(body),
        logprobs=knobs.logprobs(body),
        grammar=knobs.grammar(body),
    )


def models_body(name: str, created: int, owner: str, context: int) -> dict[str, Any]:
    """Answer of `GET /v1/models`; `context_length`, most tokens of prompt and answer, is an extension."""
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
    # Of what must be a text or a list that is not empty.
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
    # `developer` is OpenAI's newer name of the same role; chat templates know the older one.
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
    older, newer = (knobs.integer(body, name, 1, 2**20) for name in ("max_tokens", "max_completion_tokens"))
    if older is not None and newer is not None and older != newer:
        raise BadRequest("max_tokens", "differs from max_completion_tokens; give one of them")
    return newer if newer is not None else older
