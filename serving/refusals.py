"""Responses to requests that get no answer: OpenAI's error envelope, with OpenAI's statuses, types and codes.

Source: OpenAI API, "Error codes", and its responses to wrong parameters. OpenAI has no codes `unavailable`,
`idempotency_key_reused` and `receipt_not_found`. This project added them.
"""

import enum
from typing import Any, NamedTuple

from bytewise.protocol.errors.actors import BadRequest, SignerAway, TryAgain
from bytewise.protocol.errors.branches import BytewiseError, Unavailable


class Code(enum.StrEnum):
    """Error codes of a `BadRequest`, which has the code as its third value. Without a third value the code is `INVALID_VALUE`."""

    INVALID_VALUE = "invalid_value"
    """The parameter allows this type, but not this value."""
    INVALID_TYPE = "invalid_type"
    """The value has a type that the parameter does not allow."""
    UNKNOWN = "unknown_parameter"
    """No parameter of chat completions has this name."""
    UNSUPPORTED = "unsupported_parameter"
    """OpenAI's API has the parameter, but this server does not support it."""
    UNSUPPORTED_VALUE = "unsupported_value"
    """OpenAI's API allows the value, but this server does not support it."""
    MISSING = "missing_required_parameter"
    """A required parameter is missing."""
    CONTEXT = "context_length_exceeded"
    """Prompt and answer are longer than the model's context."""
    KEY_REUSED = "idempotency_key_reused"
    """The idempotency key was used for another request (status 422)."""


class Busy(TryAgain):
    """Too many requests wait. Neither this request nor the server is at fault."""


class Late(TryAgain):
    """The answer is not ready within the time that a client waits. The engine goes on to compute it."""


class ApiRefusal(NamedTuple):
    """The response to a request that gets no answer."""

    status: int
    """HTTP status."""
    body: dict[str, Any]
    """OpenAI's error envelope."""
    headers: dict[str, str]


def error_body(message: str, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Builds OpenAI's error envelope, with the four members that the official client reads."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def refusal(error: BytewiseError) -> ApiRefusal | None:
    """Returns the refusal that a client gets for an error, or None if the server itself failed."""
    if isinstance(error, BadRequest):
        return _wrong_request(error)
    if isinstance(error, Busy):
        return _later(429, error, "rate_limit_error", "rate_limit_exceeded")
    if isinstance(error, Late):
        return _later(503, error, "service_unavailable_error", "server_is_overloaded")
    if isinstance(error, SignerAway):
        # The error names a host of the operator's own network.
        return _later(503, "the operator cannot sign receipts now", "service_unavailable_error", "unavailable")
    if isinstance(error, Unavailable):
        return _later(503, error, "service_unavailable_error", "unavailable")
    return None


def failure() -> ApiRefusal:
    """Returns the refusal that a client gets if the server failed."""
    message = "the operator failed and has no answer to this request"
    return ApiRefusal(500, error_body(message, "server_error", None, "server_error"), {})


def _wrong_request(error: BadRequest) -> ApiRefusal:
    param, why, *rest = error.values
    code = str(rest[0]) if rest else Code.INVALID_VALUE
    named = None if param == "body" else str(param)
    status = 422 if code == Code.KEY_REUSED else 400
    return ApiRefusal(status, error_body(f"{param}: {why}", "invalid_request_error", named, None if named is None else code), {})


def _later(status: int, error: BytewiseError | str, kind: str, code: str) -> ApiRefusal:
    return ApiRefusal(status, error_body(str(error), kind, None, code), {"retry-after": "1"})
