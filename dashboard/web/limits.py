"""Limits the requests per minute and the open streams of each visitor, and refuses requests with a body. The module is pure ASGI,
so that it does not buffer streams."""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from bytewise.service import metrics, telemetry
from bytewise.service.clock import monotonic_s
from dashboard.web.answers import Refused, new_request_id, problem_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

MAX_VISITORS = 10_000
"""Most addresses whose budget is in memory. The limiter first forgets the address that was silent for the longest time."""
REQUEST_S = 30.0
"""Longest time of a request that is not a stream, in seconds. After this time the request's query to the index is interrupted,
too."""
STREAMS_PER_VISITOR = 4
STREAM_PATH = "/api/v1/events"

SECURITY_HEADERS = (
    (b"content-security-policy",
     b"default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
     b"base-uri 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"interest-cohort=()"),
)  # fmt: skip


class RequestBudget:
    """Limit of requests, with one token bucket for each address."""

    def __init__(self, per_minute: int, now: Callable[[], float] = monotonic_s) -> None:
        self._per_minute = per_minute
        self._now = now
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, visitor: str) -> float:
        """Takes a token for one request of a visitor. Returns 0 if the visitor may send the request now. Otherwise returns the
        seconds until it may."""
        now = self._now()
        left, at = self._left.pop(visitor, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - at) * self._per_minute / 60)
        wait = 0.0 if left >= 1 else (1 - left) * 60 / self._per_minute
        self._left[visitor] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > MAX_VISITORS:
            self._left.popitem(last=False)
        return wait


class VisitorLimits:
    """ASGI middleware that applies the limits, adds the headers that every answer has, and gives each request an id."""

    def __init__(self, app: App, budget: RequestBudget, streams: int, proxies: frozenset[str]) -> None:
        self._app = app
        self._budget = budget
        self._streams = streams
        self._proxies = proxies
        self._open: dict[str, int] = {}
        metrics.STREAMS_OPEN.set(0)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handles one request, or refuses it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["state"] = {**scope.get("state", {}), "request_id": new_request_id()}
        headers = dict(scope["headers"])
        visitor = self._visitor(scope, headers)
        refusal = self._refusal(scope, headers, visitor)
        if refusal is not None:
            await _refuse(scope, send, *refusal)
            return
        # The server itself leaves out the body of an answer to HEAD.
        scope = {**scope, "method": "GET"}
        if scope["path"] == STREAM_PATH:
            await self._stream(scope, receive, send, visitor)
            return
        try:
            await asyncio.wait_for(self._app(scope, receive, _with_headers(scope, send)), REQUEST_S)
        except TimeoutError as error:
            telemetry.log_error("page.too_slow", error, path=scope["path"][:80])

    def _visitor(self, scope: Message, headers: dict[bytes, bytes]) -> str:
        peer = str((scope.get("client") or ("unknown",))[0])
        if peer not in self._proxies:
            return peer
        # The proxy appends the address that it saw. The visitor wrote everything before that, so it proves nothing.
        return headers.get(b"x-forwarded-for", peer.encode()).decode("latin-1").rpartition(",")[2].strip()[:64] or peer

    def _refusal(self, scope: Message, headers: dict[bytes, bytes], visitor: str) -> tuple[Refused, int] | None:
        if scope["method"] not in ("GET", "HEAD") or (scope["method"] == "HEAD" and scope["path"] == STREAM_PATH):
            return Refused(HTTPStatus.METHOD_NOT_ALLOWED, "bad_request", "only GET and HEAD are answered here"), 0
        if headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers:
            return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "bad_request", "no body is taken here"), 0
        wait = self._budget.take(visitor)
        if wait > 0:
            return Refused(HTTPStatus.TOO_MANY_REQUESTS, "too_many", "too many requests of this address", True), int(wait) + 1
        full = sum(self._open.values()) >= self._streams or self._open.get(visitor, 0) >= STREAMS_PER_VISITOR
        if scope["path"] == STREAM_PATH and full:
            return Refused(HTTPStatus.TOO_MANY_REQUESTS, "too_many", "too many open streams", True), 30
        return None

    async def _stream(self, scope: Message, receive: Receive, send: Send, visitor: str) -> None:
        self._open[visitor] = self._open.get(visitor, 0) + 1
        metrics.STREAMS_OPEN.set(sum(self._open.values()))
        try:
            await self._app(scope, receive, _with_headers(scope, send))
        finally:
            self._open[visitor] -= 1
            if not self._open[visitor]:
                del self._open[visitor]
            metrics.STREAMS_OPEN.set(sum(self._open.values()))


def _with_headers(scope: Message, send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            metrics.PAGES_SERVED.labels(status=f"{message['status'] // 100}xx").inc()
            own = [*SECURITY_HEADERS, (b"x-request-id", scope["state"]["request_id"].encode())]
            if scope["path"].startswith("/api/"):
                own.append((b"access-control-allow-origin", b"*"))
            message["headers"] = [*message.get("headers", []), *own]
        await send(message)

    return sending


async def _refuse(scope: Message, send: Send, error: Refused, wait_s: int) -> None:
    problem = problem_of(error, scope["state"]["request_id"])
    body = json.dumps(problem.model_dump()).encode()
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"retry-after", str(wait_s).encode())] if wait_s else []
    headers += [(b"allow", b"GET, HEAD")] if error.status is HTTPStatus.METHOD_NOT_ALLOWED else []
    sending = _with_headers(scope, send)
    await sending({"type": "http.response.start", "status": int(error.status), "headers": headers})
    await sending({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
