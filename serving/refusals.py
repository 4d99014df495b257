"""Refusals that a client gets instead of an answer: OpenAI's error envelope, with its statuses, types and codes.

Source: OpenAI API, "Error codes", and its answers to wrong parameters. OpenAI has no `unavailable`, `idempotency_key_reused`
and `receipt_not_found`; these codes are ours.
"""

import enum
from typing import Any, NamedTuple

from bytewise.protocol.errors.actors import BadRequest, TryAgain
from bytewise.protocol.errors.branches import BytewiseError, Unavailable


class Code(enum.StrEnum):
    """The third value of a `BadRequest`, if any: `INVALID_VALUE` where it has none."""

    INVALID_VALUE = "invalid_value"
    """Of the right type, and impossible here."""
    INVALID_TYPE = "invalid_type"
    """Not of the parameter's type."""
    UNKNOWN = "unknown_parameter"
    """A name that no chat completion has."""
    UNSUPPORTED = "unsupported_parameter"
    """A parameter of OpenAI's API that this server has not."""
    UNSUPPORTED_VALUE = "unsupported_value"
    """A value of OpenAI's API that this server has not."""
    MISSING = "missing_required_parameter"
    """Not given."""
    CONTEXT = "context_length_exceeded"
    """Prompt and answer are longer than the model's context."""
    KEY_REUSED = "idempotency_key_reused"
    """An idempotency key that names another request (status 422)."""


class Busy(TryAgain):
    """Too many requests wait: nothing is wrong with this one or with us."""


class Late(TryAgain):
    """The answer is not ready within the time that a client waits; it is still being computed."""


class ApiRefusal(NamedTuple):
    """An answer that is none."""

    status: int
    """Of HTTP."""
    body: dict[str, Any]
    """OpenAI's envelope."""
    headers: dict[str, str]


def error_body(message: str, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """The OpenAI error envelope: the official client reads exactly these four members."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def refusal(error: BytewiseError) -> ApiRefusal | None:
    """What a client is told of an error; None for one that is our own failure."""
    if isinstance(error, BadRequest):
        return _wrong_request(error)
    if isinstance(error, Busy):
        return _later(429, error, "rate_limit_error", "rate_limit_exceeded")
    if isinstance(error, Late):
        return _later(503, error, "service_unavailable_error", "server_is_overloaded")
    if isinstance(error, Unavailable):
        return _later(503, error, "service_unavailable_error", "unavailable")
    return None


def failure() -> ApiRefusal:
    """What a client is told when we failed."""
    message = "the operator failed; nothing was published for this request"
    return ApiRefusal(500, error_body(message, "server_error", None, "server_error"), {})


def _wrong_request(error: BadRequest) -> ApiRefusal:
    param, why, *rest = error.values
    code = str(rest[0]) if rest else Code.INVALID_VALUE
    named = None if param == "body" else str(param)
    status = 422 if code == Code.KEY_REUSED else 400
    return ApiRefusal(status, error_body(f"{param}: {why}", "invalid_request_error", named, None if named is None else code), {})


def _later(status: int, error: BytewiseError, kind: str, code: str) -> ApiRefusal:
    return ApiRefusal(status, error_body(str(error), kind, None, code), {"retry-after": "1"})
