"""Builds the whole HTTP application from API, pages, style sheet, script, errors and limits."""

from collections.abc import Awaitable
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from bytewise.service import telemetry
from dashboard.settings import ApiSettings
from dashboard.web.answers import DashboardSite, Refused, problem_of, refused, tag_of, wrong_parameters
from dashboard.web.api import PREFIX, api_routes
from dashboard.web.limits import RequestBudget, VisitorLimits
from dashboard.web.pages import page_routes
from dashboard.web.render import FOLDER, SCRIPT, Renderer

_DESCRIPTION = (
    "Public facts of one Bytewise network, read from an index of its contracts' events. Every answer names the block that it "
    "rests on, and says how final each object is. Ids are 0x-hex, amounts are wei in text. Lists go on with `next_cursor`, which "
    "carries filter and order. `?block=` shows an earlier state. Errors are RFC 9457 problem details."
)


class FilledFields:
    """ASGI middleware that removes empty fields from the query of a page. A browser sends every field of a form, and an empty
    field makes no choice."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handles one request."""
        if str(scope.get("path", "")).startswith(PREFIX):
            return self._app(scope, receive, send)
        given = scope.get("query_string", b"")
        filled = b"&".join(field for field in given.split(b"&") if field and field.find(b"=") != len(field) - 1)
        return self._app({**scope, "query_string": filled} if filled != given else scope, receive, send)


def build_app(site: DashboardSite, settings: ApiSettings) -> FastAPI:
    """Returns the web application. The application has no key. It reads only the index, the capsules and the copies of release
    logs."""
    app = FastAPI(
        title="Bytewise read API", version="1", description=_DESCRIPTION, openapi_url=f"{PREFIX}/openapi.json", docs_url=None,
        redoc_url=None, redirect_slashes=False,
    )  # fmt: skip
    renderer = Renderer(dict(site.names))
    app.include_router(api_routes(site))
    app.include_router(page_routes(site, renderer))
    _add_files(app)
    _add_errors(app, renderer)
    budget = RequestBudget(settings.requests_per_minute)
    app.add_middleware(FilledFields)
    app.add_middleware(VisitorLimits, budget=budget, streams=settings.streams, proxies=frozenset(settings.trusted_proxies))
    return app


def _add_files(app: FastAPI) -> None:
    for name, media_type in (("style.css", "text/css"), (SCRIPT.name, "text/javascript")):
        _add_file(app, FOLDER / "static" / name, media_type)


def _add_file(app: FastAPI, file: Path, media_type: str) -> None:
    data = file.read_bytes()
    tag = tag_of(data)

    @app.get(f"/static/{file.name}", include_in_schema=False)
    def static_file(request: Request) -> Response:
        """Returns the style sheet or the script."""
        headers = {"ETag": tag, "Cache-Control": "public, max-age=300"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(data, media_type=media_type, headers=headers)


def _add_errors(app: FastAPI, renderer: Renderer) -> None:
    def tell(request: Request, error: Refused) -> Response:
        request_id = request.scope.get("state", {}).get("request_id", "")
        path = request.url.path
        if path.startswith("/api/") or path.endswith((".json", ".csv")):
            body = problem_of(error, request_id).model_dump()
            return JSONResponse(body, int(error.status), media_type="application/problem+json")
        return HTMLResponse(renderer.error(request, error, request_id), int(error.status))

    @app.exception_handler(RequestValidationError)
    def wrong(request: Request, error: RequestValidationError) -> Response:
        return tell(request, wrong_parameters(error.errors()))

    @app.exception_handler(HTTPException)
    def unknown(request: Request, error: HTTPException) -> Response:
        code = "not_found" if error.status_code == HTTPStatus.NOT_FOUND else "bad_request"
        detail = "There is no such page." if code == "not_found" else str(error.detail)[:200]
        return tell(request, Refused(HTTPStatus(error.status_code), code, detail))

    @app.exception_handler(Exception)
    def failed(request: Request, error: Exception) -> Response:
        found = refused(error)
        if found.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            request_id = request.scope.get("state", {}).get("request_id", "")
            telemetry.log_error("page.failed", error, path=request.url.path[:80], request=request_id)
        return tell(request, found)

    @app.exception_handler(Refused)
    def expected(request: Request, error: Refused) -> Response:
        return tell(request, error)
