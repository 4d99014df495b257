"""Errors as RFC 9457 problem details, and as a page for people."""

import uuid
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from dashboard.views.records import Problem


class Refused(Exception):
    """Error that the visitor gets as a problem (RFC 9457)."""

    def __init__(self, status: HTTPStatus, code: str, detail: str, retryable: bool = False) -> None:
        """`code` is a fixed word for programs, `detail` says what is wrong and what to do."""
        self.status, self.code, self.detail, self.retryable = status, code, detail, retryable
        super().__init__(f"{code}: {detail}")


def not_found(what: str) -> Refused:
    """Returns the error for an object that the index does not have. `what` names the object."""
    return Refused(
        HTTPStatus.NOT_FOUND,
        "not_found",
        f"{what} is not in the index. It may not exist, not yet be indexed, or have been in a block that was replaced.",
    )


def bad_request(detail: str, code: str = "bad_request") -> Refused:
    """Returns the error for a request that cannot be answered as it is."""
    return Refused(HTTPStatus.BAD_REQUEST, code, detail)


def refused(error: BaseException) -> Refused:
    """Converts any exception to the error that the visitor sees. An unforeseen exception shows nothing but the request id."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, Unavailable):
        return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "The index does not answer now. Try again.", True)
    if isinstance(error, BytewiseError):
        return Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "The index cannot be read. Its owner has to look at it.")
    return Refused(
        HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "This is a defect of the dashboard. Its owner finds it in the log."
    )


def wrong_parameters(errors: Sequence[Mapping[str, object]]) -> Refused:
    """Returns the error for parameters outside their types. `errors` comes from FastAPI's validation, and the wrong values are
    not repeated."""
    told = []
    for each in errors[:5]:
        place = each.get("loc", ())
        name = place[-1] if isinstance(place, list | tuple) and place else "parameter"
        told.append(f"{str(name)[:40]}: {str(each.get('msg', 'is wrong'))[:160]}")
    return bad_request("; ".join(told) or "a parameter is wrong", "bad_parameter")


def problem_of(error: Refused, request_id: str) -> Problem:
    """Returns the problem record of an error."""
    return Problem(
        type=f"/about#problem-{error.code}", title=error.status.phrase, status=int(error.status), detail=error.detail,
        code=error.code, retryable=error.retryable, request_id=request_id,
    )  # fmt: skip


def new_request_id() -> str:
    """Returns a random name for one request, which the answer and the log share."""
    return uuid.uuid4().hex


CODES = {
    "bad_request": "The request cannot be answered as it is; the detail says why.",
    "bad_parameter": "A parameter has a wrong form or is outside its bounds.",
    "bad_cursor": "The cursor is not one that this API gave, or is one of another list, filter or order.",
    "not_found": (
        "Nothing with this name is in the index. It may not exist, not yet be indexed, or have been in a block that was replaced."
    ),
    "no_block": "The index has no state of this block.",
    "too_many": "Too many requests or streams of one address. `Retry-After` says when to come again.",
    "unavailable": "The index does not answer now. Try again.",
    "internal": "A defect of this program, or of its database.",
}
"""Every code of a problem and its meaning; the page `/about` shows them."""
