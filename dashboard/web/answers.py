"""Builds the answers of API and pages. Each answer comes from one snapshot and has an entity tag. It is JSON or CSV, and a list
has cursors. Errors are RFC 9457 problem details."""

import base64
import binascii
import csv
import hashlib
import io
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from fastapi import Request, Response
from pydantic import BaseModel

from bytewise.ports import Clock
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.storage.index.reader import IndexReader, Page, Row, sort_types
from bytewise.storage.index.tables import Fact
from dashboard.capsules import CapsuleShelf
from dashboard.release_logs import LogsSeen, ReleaseLogShelf
from dashboard.views.records import Amount, IndexMeta, Party, Problem, Record, Time
from dashboard.views.scene import Scene

# --- errors ---


class Refused(Exception):
    """Error that the visitor gets as a problem (RFC 9457)."""

    def __init__(self, status: HTTPStatus, code: str, detail: str, retryable: bool = False) -> None:
        """`code` is a fixed word for programs. `detail` says what is wrong and what to do."""
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
    """Converts any exception to the error that the visitor sees. For an unforeseen exception the visitor sees only the request
    id."""
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
    """Returns the error for parameters outside their types. `errors` comes from FastAPI's validation. The error does not repeat
    the wrong values."""
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


# --- answers ---

T = TypeVar("T")

MAX_LIMIT = 200
LATEST_BLOCK = 2**63 - 1
_PROBLEM_CODE = "bad_cursor"


class Listing(Record, Generic[T]):
    """A page of a list."""

    meta: IndexMeta
    items: tuple[T, ...]
    next_cursor: str | None
    """Value of `cursor` for the next page; None on the last page."""


class FoundObject(Record, Generic[T]):
    """One object, with the state of the index that it comes from."""

    meta: IndexMeta
    data: T


@dataclass(frozen=True, slots=True)
class DashboardSite:
    """Everything that the answers of one dashboard need, such as index, names, clock, capsules and release logs."""

    reader: IndexReader
    addresses: Mapping[str, str]
    """Addresses of the network's contracts, by contract name."""
    names: Mapping[str, str]
    """Chosen names, by account."""
    clock: Clock
    stale_s: int
    version: str
    capsules: CapsuleShelf = field(default_factory=CapsuleShelf)
    """Evidence capsules that a node keeps on this machine."""
    releases: ReleaseLogShelf | None = None
    """Copies of the shards' release logs; None if no folder is configured."""

    @property
    def logs(self) -> LogsSeen | None:
        """Decisions in the shards' release logs; None if no logs are configured, or if they are not read yet."""
        return None if self.releases is None else self.releases.seen

    @contextmanager
    def scene(self, block: int | None = None) -> Iterator[Scene]:
        """Context manager that provides a snapshot of the index, at the newest block or at `block`. Raises `Refused` if the
        index does not have that block."""
        with self.reader.snapshot(block) as index:
            scene = Scene(index, self.names, self.clock.now(), self.stale_s, self.version)
            if block is not None and (block > scene.state.newest or scene.state.number < 0):
                raise bad_request(f"the index has no state of block {block}", "no_block")
            yield scene


def answer(
    site: DashboardSite, request: Request, block: int | None, build: Callable[[Scene], BaseModel], csv_items: str | None = None
) -> Response:
    """Returns the record that `build` makes, as JSON. Returns status 304 if the visitor has the answer already. With `csv_items`,
    returns as CSV the list in that field of the record."""
    with site.scene(block) as scene:
        tag = entity_tag(site, scene, request)
        headers = caching_of(scene, request, block, tag)
        if has_tag(request, tag):
            return Response(status_code=304, headers=headers)
        found = build(scene)
    if csv_items is not None:
        cursor = getattr(found, "next_cursor", None)
        if cursor is not None:
            headers["Link"] = f'<{request.url.path}?{_with_cursor(request, cursor)}>; rel="next"'
        return Response(csv_of(getattr(found, csv_items)), media_type="text/csv; charset=utf-8", headers=headers)
    return Response(found.model_dump_json(), media_type="application/json", headers=headers)


def _with_cursor(request: Request, cursor: str) -> str:
    kept = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
    return urlencode([*kept, ("cursor", cursor)])


def entity_tag(site: DashboardSite, scene: Scene, request: Request) -> str:
    """Returns the entity tag of an answer before the answer is made. The tag covers the state of the index, the URL, the
    capsules and the release logs. It does not cover the age of the newest block, which changes every second."""
    meta = scene.meta()
    parts = (
        request.url.path, request.url.query, meta.block.hash, meta.block.number, meta.head, meta.safe, meta.finalized,
        meta.is_stale, meta.checked_block, meta.differences, meta.version,
        site.capsules.state() if _shows_capsule(request) else "",
        site.logs.version if site.logs is not None and _shows_logs(request) else "",
    )  # fmt: skip
    return f'W/"{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}"'


def tag_of(data: bytes) -> str:
    """Returns the entity tag of the bytes of a file."""
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


def has_tag(request: Request, tag: str) -> bool:
    """Returns whether the visitor has the answer with this tag already."""
    return tag in {each.strip() for each in request.headers.get("if-none-match", "").split(",")}


def _shows_capsule(request: Request) -> bool:
    return "/disputes/" in request.url.path or "/receipts/" in request.url.path


def _shows_logs(request: Request) -> bool:
    return "/statistics" in request.url.path


def caching_of(scene: Scene, request: Request, block: int | None, tag: str) -> dict[str, str]:
    """Returns the headers `ETag` and `Cache-Control` of an answer."""
    # An answer about a final block stays true, unless a capsule or log comes later or the index turns out to be wrong.
    is_final = block is not None and block <= scene.state.finalized
    is_final = is_final and not _shows_capsule(request) and not _shows_logs(request) and not scene.state.differences
    return {"ETag": tag, "Cache-Control": "public, max-age=86400, immutable" if is_final else "no-cache"}


# --- cursors ---


class ListQuery(NamedTuple):
    """Description of one page of a list: filter, order, size and cursor."""

    name: str
    """Name of the list."""
    where: Mapping[str, Any]
    """Columns of the filter, and the values that they must have."""
    sort: str
    """Column by which the list is sorted."""
    descending: bool
    limit: int
    cursor: str | None


def page_of(scene: Scene, table: type[Fact], query: ListQuery) -> Page:
    """Returns a page of facts. Raises `Refused` if the cursor belongs to another list, filter or order, or if this program never
    made it."""
    after = _read_cursor(query) if query.cursor else None
    if after is not None and [type(each) for each in after] != sort_types(table, query.sort):
        raise bad_request("the cursor is not one of this API: begin again without it", _PROBLEM_CODE)
    return scene.index.page(table, query.sort, query.descending, query.limit, after, **query.where)


def listing(
    scene: Scene, table: type[Fact], query: ListQuery, show: Callable[[Scene, Sequence[Row]], Sequence[Any]]
) -> Listing[Any]:
    """Returns a page of a list as a record. `show` converts rows to the records of the list."""
    page = page_of(scene, table, query)
    cursor = None if page.next is None else _make_cursor(query, page.next)
    return Listing(meta=scene.meta(), items=tuple(show(scene, page.rows)), next_cursor=cursor)


def _fingerprint(query: ListQuery) -> str:
    where = sorted((name, _text(value)) for name, value in query.where.items())
    return hashlib.sha256(repr((query.name, where, query.sort, query.descending)).encode()).hexdigest()[:16]


def _make_cursor(query: ListQuery, values: Sequence[Any]) -> str:
    told = [_fingerprint(query), *(_text(value) for value in values)]
    return base64.urlsafe_b64encode(json.dumps(told, separators=(",", ":")).encode()).decode().rstrip("=")


def _read_cursor(query: ListQuery) -> list[Any]:
    raw = query.cursor or ""
    try:
        told = json.loads(base64.b64decode(raw + "=" * (-len(raw) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise bad_request("the cursor is not one of this API: begin again without it", _PROBLEM_CODE) from None
    if not isinstance(told, list) or not told or told[0] != _fingerprint(query):
        raise bad_request("the cursor is of another list, filter or order: begin again without it", _PROBLEM_CODE)
    return [_value(each) for each in told[1:]]


def _text(value: Any) -> Any:
    return "0x" + value.hex() if isinstance(value, bytes) else list(value) if isinstance(value, tuple) else value


def _value(told: Any) -> Any:
    """Returns one value of a cursor: 32 bytes, text or a 63-bit integer. Refuses everything else, because this program puts
    nothing else into a cursor."""
    if isinstance(told, int) and not isinstance(told, bool) and 0 <= told <= LATEST_BLOCK:
        return told
    if isinstance(told, str) and told.startswith("0x") and len(told) == 66:
        try:
            return bytes.fromhex(told[2:])
        except ValueError:
            pass
    if isinstance(told, str) and len(told) <= 80 and told.isprintable():
        return told
    raise bad_request("the cursor is not one of this API: begin again without it", _PROBLEM_CODE)


# --- CSV ---


def csv_of(items: Sequence[BaseModel]) -> str:
    """Returns records as CSV (RFC 4180). An apostrophe in front of a cell keeps a spreadsheet from computing the cell as a
    formula."""
    out = io.StringIO()
    writer = csv.writer(out)
    for place, each in enumerate(items):
        cells = dict(_cells(each))
        if place == 0:
            writer.writerow(cells)
        writer.writerow([_safe(value) for value in cells.values()])
    return out.getvalue()


def _cells(record: BaseModel) -> Iterator[tuple[str, Any]]:
    for name in type(record).model_fields:
        value = getattr(record, name)
        if isinstance(value, Amount):
            yield f"{name}_wei", value.wei
        elif isinstance(value, Time):
            yield name, value.utc
        elif isinstance(value, Party):
            yield name, value.account
        elif not isinstance(value, BaseModel | tuple | dict):
            yield name, "" if value is None else value


def _safe(value: Any) -> str:
    text = str(value)
    return f"'{text}" if text[:1] in "=+-@\t\r" and text else text
