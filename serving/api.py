"""The HTTP edge: `/v1/chat/completions`, `/v1/models`, `/health`, `/version`. Every error has the OpenAI envelope.

The body is read and parsed here, not by FastAPI's models: numbers must stay the decimals that the client wrote, and every
refusal must name its parameter in the envelope that the official client understands.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from anyio import to_thread
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from bytewise.protocol.errors import BadRequest, BytewiseError, OutsideLimits, TryAgain, Unavailable
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.units import Digest
from bytewise.service import telemetry
from serving.desk import Desk, request_key
from serving.numbers import parse_json
from serving.openai import Ask, error_body, models_body, read_ask

NO_RETRY = {"x-should-retry": "false"}
"""Read by the official client: a receipt exists, so do not ask again."""


class Counter(Protocol):
    """What stands behind the API once the operator is ready."""

    @property
    def model_name(self) -> str:
        """The one served model."""
        ...

    @property
    def owner(self) -> str:
        """Operator account."""
        ...

    @property
    def created(self) -> int:
        """Unix seconds since when it is served."""
        ...

    @property
    def desk(self) -> Desk:
        """Queue."""
        ...

    def prepare(self, key: Digest, ask: Ask) -> Callable[[], bytes]:
        """The work that answers; errors of the request now, not then."""
        ...

    def check_open(self) -> EpochRecord:
        """The key epoch that answers are sealed to; `TryAgain` with the reason while no request may be accepted."""
        ...


class Gate:
    """Holds the service once it is ready; until then every request is answered 503."""

    def __init__(self) -> None:
        self.service: Counter | None = None

    def ready(self) -> EpochRecord:
        """The key epoch of the service; `TryAgain` before it is ready or while it may not accept."""
        if self.service is None:
            raise TryAgain("operator", "the model is being loaded")
        return self.service.check_open()


def build_api(gate: Gate, version: dict[str, Any], max_body_bytes: int, answer_timeout_s: float) -> FastAPI:
    """The application; `gate` may be filled later."""

    app = FastAPI(title="Bytewise operator", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(HTTPException, _http_error)  # type: ignore[arg-type]
    app.add_exception_handler(BytewiseError, _our_error)  # type: ignore[arg-type]
    app.add_exception_handler(Exception, _other_error)
    app.middleware("http")(_name_request)

    @app.get("/health")
    async def health() -> Response:
        return JSONResponse({"status": "ready", "assurance": gate.ready().assurance})

    @app.get("/version")
    async def tell_version() -> Response:
        return JSONResponse(version)

    @app.get("/v1/models")
    async def models() -> Response:
        service = gate.service
        if service is None:
            raise TryAgain("operator", "the model is being loaded")
        return JSONResponse(models_body(service.model_name, service.created, service.owner))

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        body = await _read_body(request, max_body_bytes)
        future = await to_thread.run_sync(_accept, gate, request, body)
        try:
            # Shielded: a client that goes away must not cancel the work that another waiter has joined.
            answer = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), answer_timeout_s)
        except TimeoutError:
            raise TryAgain("answer", f"not within {answer_timeout_s:.0f} s; ask again for the same answer") from None
        return Response(answer, media_type="application/json", headers=NO_RETRY)

    return app


def _accept(gate: Gate, request: Request, body: bytes) -> Any:
    ask = read_ask(parse_json(body))
    if gate.service is None:
        raise TryAgain("operator", "the model is being loaded")
    service = gate.service
    if ask.model != service.model_name:
        raise HTTPException(404, f"the model `{ask.model[:80]}` does not exist; this operator serves `{service.model_name}`")
    headers = request.headers
    key = request_key(body, headers.get("authorization", ""), headers.get("idempotency-key", ""))

    def prepare() -> Callable[[], bytes]:
        # Only new work needs an open operator: a remembered answer is given whatever the chain says now.
        service.check_open()
        return service.prepare(key, ask)

    return service.desk.submit(key, prepare)


async def _read_body(request: Request, most: int) -> bytes:
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "content-type must be application/json")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(413, f"the body is larger than {most} bytes")
    return bytes(body)


async def _name_request(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers["x-request-id"] = "req_" + os.urandom(12).hex()
    return response


async def _http_error(request: Request, error: HTTPException) -> Response:
    unknown_model = error.status_code == 404 and request.url.path == "/v1/chat/completions"
    param, code = ("model", "model_not_found") if unknown_model else (None, None)
    body = error_body(str(error.detail), "invalid_request_error", param, code)
    return JSONResponse(body, error.status_code, headers=error.headers)


async def _our_error(_request: Request, error: BytewiseError) -> Response:
    telemetry.count("bytewise_requests_failed_total", error=type(error).__name__)
    if isinstance(error, BadRequest):
        param, why = str(error.values[0]), str(error.values[1])
        named = None if param == "body" else param
        return JSONResponse(error_body(f"{param}: {why}", "invalid_request_error", named, "invalid_value"), 400)
    if isinstance(error, OutsideLimits):
        return JSONResponse(error_body(str(error), "invalid_request_error", "messages", "context_length_exceeded"), 400)
    if isinstance(error, Unavailable):
        return JSONResponse(error_body(str(error), "server_error", None, "unavailable"), 503, {"retry-after": "1"})
    telemetry.log_error("request.failed", error)
    return _internal()


async def _other_error(_request: Request, error: Exception) -> Response:
    telemetry.count("bytewise_requests_failed_total", error=type(error).__name__)
    telemetry.log_error("request.failed", error)
    return _internal()


def _internal() -> Response:
    body = error_body("the operator failed; nothing was published for this request", "server_error", None, "internal_error")
    return JSONResponse(body, 500)
