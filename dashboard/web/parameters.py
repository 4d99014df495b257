"""Parameters of requests. Each type accepts one form, so that no text of a visitor reaches a query as anything else."""

import enum
from typing import Annotated

from fastapi import Path, Query

from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import unhex
from dashboard.web.answers import LATEST_BLOCK, MAX_LIMIT

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


class ListOrder(enum.StrEnum):
    """Newest or oldest first."""

    NEWEST = "newest"
    OLDEST = "oldest"


class DisputeState(enum.StrEnum):
    """Disputes that can still change, or not."""

    OPEN = "open"
    FINAL = "final"


class VerdictName(enum.StrEnum):
    """Verdicts."""

    NONE = "none"
    UPHELD = "upheld"
    OVERTURNED = "overturned"
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"
    DRAW = "draw"
    REFUNDED = "refunded"


class DemandStateName(enum.StrEnum):
    """States of a demand."""

    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"


class AuditResultName(enum.StrEnum):
    """Results of a light audit."""

    MATCH = "match"
    MISMATCH = "mismatch"
    NONE = "none"


def verdict_code(name: VerdictName) -> int:
    """The contract's number of a verdict."""
    return int(Verdict[name.name])


def digest_of(text: str) -> bytes:
    """The 32 bytes of an id."""
    return unhex(text.lower())
