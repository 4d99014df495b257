"""Types of request parameters. Each accepts exactly one form, so that no other text of a visitor reaches a query."""

import enum
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Path, Query

from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import unhex
from dashboard.web.answers import LATEST_BLOCK, MAX_LIMIT
from dashboard.web.problems import bad_request

_ID = r"^0x[0-9a-fA-F]{64}$"
_ACCOUNT = r"^0x[0-9a-fA-F]{40}$"

IdPath = Annotated[str, Path(pattern=_ID, description="0x and 64 hex digits.")]
AccountPath = Annotated[str, Path(pattern=_ACCOUNT, description="0x and 40 hex digits.")]
NumberPath = Annotated[int, Path(ge=0, le=LATEST_BLOCK)]
AccountQuery = Annotated[str | None, Query(pattern=_ACCOUNT, description="0x and 40 hex digits.")]
IdQuery = Annotated[str | None, Query(pattern=_ID, description="0x and 64 hex digits.")]
BlockQuery = Annotated[
    int | None, Query(ge=0, le=LATEST_BLOCK, description="State at the end of this block; by default the newest.")
]
LimitQuery = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Most items.")]
CursorQuery = Annotated[
    str | None, Query(max_length=1000, pattern=r"^[A-Za-z0-9_-]+$", description="`next_cursor` of the page before.")
]

_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?$"
SinceQuery = Annotated[
    str | None, Query(pattern=_MOMENT, description="First moment: `2026-11-01` or `2026-11-01T12:00:00Z`. By default everything.")
]
UntilQuery = Annotated[
    str | None, Query(pattern=_MOMENT, description="Last day, whole, or a moment that is the first one outside.")
]
DAY_S = 86_400


class ListOrder(enum.StrEnum):
    """Order of a list: newest or oldest first."""

    NEWEST = "newest"
    OLDEST = "oldest"


class DisputeState(enum.StrEnum):
    """Filter of disputes: open disputes can still change, final disputes cannot."""

    OPEN = "open"
    FINAL = "final"


class VerdictName(enum.StrEnum):
    """Names of verdicts."""

    NONE = "none"
    UPHELD = "upheld"
    OVERTURNED = "overturned"
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"
    DRAW = "draw"
    REFUNDED = "refunded"


class DemandStateName(enum.StrEnum):
    """States of an availability demand."""

    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"


class AuditResultName(enum.StrEnum):
    """Results of a light audit."""

    MATCH = "match"
    MISMATCH = "mismatch"
    NONE = "none"


def verdict_code(name: VerdictName) -> int:
    """Returns the contract's number of a verdict."""
    return int(Verdict[name.name])


def span_of(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """Returns the first moment of a period and the first moment after it, in Unix seconds. If `until` is a day without a time,
    that whole day belongs to the period. Raises `Refused` for a day that no calendar has, or if the period ends before it
    begins."""
    first, last = _moment("since", since), _moment("until", until)
    if until and last is not None and "T" not in until:
        last += DAY_S
    if first is not None and last is not None and first >= last:
        raise bad_request("until: the period ends before it begins", "bad_parameter")
    return first, last


def _moment(name: str, text: str | None) -> int | None:
    if not text:
        return None
    try:
        return int(datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC).timestamp())
    except (ValueError, OverflowError):
        raise bad_request(f"{name}: no calendar has this day: write it as 2026-11-01", "bad_parameter") from None


def digest_of(text: str) -> bytes:
    """Returns the 32 bytes of an id that is written as 0x-hex."""
    return unhex(text.lower())
