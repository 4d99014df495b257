"""Answers of API and pages: one snapshot, an entity tag of the index's state, keyset cursors, JSON and CSV."""

import base64
import binascii
import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from fastapi import Request, Response
from pydantic import BaseModel

from bytewise.ports import Clock
from bytewise.storage.index.reader import IndexReader, Page, Row, sort_types
from bytewise.storage.index.tables import Fact
from dashboard.capsules import CapsuleShelf
from dashboard.release_logs import LogsSeen, ReleaseLogShelf
from dashboard.views.records import Amount, IndexMeta, Party, Record, Time
from dashboard.views.scene import Scene
from dashboard.web.problems import bad_request

T = TypeVar("T")

MAX_LIMIT = 200
LATEST_BLOCK = 2**63 - 1
_PROBLEM_CODE = "bad_cursor"


class Listing(Record, Generic[T]):
    """A page of a list."""

    meta: IndexMeta
    items: tuple[T, ...]
    next_cursor: str | None
    """Value of `cursor` for the next page; None on the last one."""


class FoundObject(Record, Generic[T]):
    """One object."""

    meta: IndexMeta
    data: T


@dataclass(frozen=True, slots=True)
class DashboardSite:
    """What every answer needs."""

    reader: IndexReader
    addresses: Mapping[str, str]
    """Contracts of the network by name."""
    names: Mapping[str, str]
    """Names of accounts."""
    clock: Clock
    stale_s: int
    version: str
    capsules: CapsuleShelf = field(default_factory=CapsuleShelf)
    """Capsules that a node keeps here."""
    releases: ReleaseLogShelf | None = None
    """Copies of the shards' release logs."""

    @property
    def logs(self) -> LogsSeen | None:
        """What the shards' logs say; None if no logs are configured, or they are not read yet."""
        return None if self.releases is None else self.releases.seen

    @contextmanager
    def scene(self, block: int | None = None) -> Iterator[Scene]:
        """One snapshot of the index, at the newest block or an earlier one. `Refused` for a block that the index has not."""
        with self.reader.snapshot(block) as index:
            scene = Scene(index, self.names, self.clock.now(), self.stale_s, self.version)
            if block is not None and (block > self._newest() or scene.state.number < 0):
                raise bad_request(f"the index has no state of block {block}", "no_block")
            yield scene

    def _newest(self) -> int:
        with self.reader.snapshot() as index:
            return index.state().number


def answer(
    site: DashboardSite, request: Request, block: int | None, build: Callable[[Scene], BaseModel], csv_items: str | None = None
) -> Response:
    """A record as JSON; 304 if the visitor has it. With `csv_items`, the list of this field as CSV."""
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
    """Names an answer without making it: all that it depends on is in the index's state, the URL, and the kept capsules."""
    meta = scene.meta()
    parts = (
        request.url.path, request.url.query, meta.block.hash, meta.block.number, meta.head, meta.safe, meta.finalized,
        meta.is_stale, meta.checked_block, meta.differences, meta.version,
        site.capsules.state() if _shows_capsule(request) else "",
        site.logs.version if site.logs is not None and _shows_logs(request) else "",
    )  # fmt: skip
    return f'W/"{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}"'


def tag_of(data: bytes) -> str:
    """Entity tag of bytes."""
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


def has_tag(request: Request, tag: str) -> bool:
    """Whether the visitor has the answer with this tag."""
    return tag in {each.strip() for each in request.headers.get("if-none-match", "").split(",")}


def _shows_capsule(request: Request) -> bool:
    return "/disputes/" in request.url.path or "/receipts/" in request.url.path


def _shows_logs(request: Request) -> bool:
    return "/statistics" in request.url.path


def caching_of(scene: Scene, request: Request, block: int | None, tag: str) -> dict[str, str]:
    """Headers about caches."""
    # What was true at a final block stays so. A capsule may come, and the index may turn out to be wrong.
    is_final = block is not None and block <= scene.state.finalized
    is_final = is_final and not _shows_capsule(request) and not _shows_logs(request) and not scene.state.differences
    return {"ETag": tag, "Cache-Control": "public, max-age=86400, immutable" if is_final else "no-cache"}


# --- cursors ---


class ListQuery(NamedTuple):
    """Which page of which list."""

    name: str
    """Name of the list."""
    where: Mapping[str, Any]
    """Columns and their values."""
    sort: str
    """Column."""
    descending: bool
    limit: int
    cursor: str | None


def page_of(scene: Scene, table: type[Fact], query: ListQuery) -> Page:
    """A page of facts. `Refused` for a cursor of another list, filter or order, or one that this program never made."""
    after = _read_cursor(query) if query.cursor else None
    if after is not None and [type(each) for each in after] != sort_types(table, query.sort):
        raise bad_request("the cursor is not one of this API: begin again without it", _PROBLEM_CODE)
    return scene.index.page(table, query.sort, query.descending, query.limit, after, **query.where)


def listing(
    scene: Scene, table: type[Fact], query: ListQuery, show: Callable[[Scene, Sequence[Row]], Sequence[Any]]
) -> Listing[Any]:
    """A page as a record."""
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
    """A value of a cursor: bytes of 32, text or a 63-bit integer. Nothing else was ever put into one."""
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
    """Records as CSV (RFC 4180). An apostrophe is put before a cell that a spreadsheet would compute."""
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
