"""The HTTP API: `/v1/chat/completions`, `/v1/models`, `/v1/receipts`, `/health`, `/version`. Errors have OpenAI's envelope.

This module parses the body itself, without FastAPI's models, for two reasons. Numbers must stay the decimals that the client
wrote. Every refusal must name its parameter in the error envelope that the official client understands.
"""

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from anyio import to_thread
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

from bytewise.protocol.errors.actors import BadRequest, TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.records.answer import COMPLETION_PREFIX, receipt_members
from bytewise.protocol.records.receipt import SignedReceipt
from bytewise.protocol.units import Digest
from bytewise.service import metrics, telemetry
from serving.openai import ChatRequest, models_body, parse_json, read_chat_request
from serving.refusals import ApiRefusal, Late, error_body, failure, refusal
from serving.request_queue import RequestQueue, RequestTicket, request_ticket

NO_RETRY = {"x-should-retry": "false"}
"""Response header that tells the official client not to repeat a request for which a receipt exists."""
RECEIPT_HEADER = "x-bytewise-receipt"
"""Response header with the receipt ids of the choices. It serves clients that cannot read the receipts in the body, because
their types have no place for a receipt."""
BODY_TIMEOUT_S = 60.0
"""Seconds in which a client must send the whole body of a request. After that the API answers 408 and closes the connection,
because a slow client would otherwise occupy it for as long as it likes."""
HEAD_TIMEOUT_S = 20.0
"""Seconds after which the server looks whether a client has sent the head of a request. It closes a connection on which no
request began in that time, because a silent client would otherwise occupy it for as long as it likes."""
NamedReceipt = tuple[Digest, SignedReceipt]
"""A receipt and its id."""

_NAME = re.compile(f"0x([0-9a-f]{{64}})|{COMPLETION_PREFIX}([0-9a-f]{{32}})")


class HeadTimedProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn that also closes connections without a request, after `HEAD_TIMEOUT_S` to twice that time. uvicorn
    itself waits for the first request, and for the rest of a head, without limit."""

    head_timeout_s = HEAD_TIMEOUT_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the first wait of a new connection."""
        super().connection_made(transport)
        self.loop.call_later(self.head_timeout_s, self._look, None)

    def _look(self, last: object) -> None:
        # A request whose answer is complete counts as none, and so does one whose head is incomplete: it has no cycle yet.
        is_waiting = self.cycle is None or self.cycle.response_complete
        if is_waiting and self.cycle is last:
            self.transport.close()
        if not self.transport.is_closing():
            self.loop.call_later(self.head_timeout_s, self._look, self.cycle if is_waiting else self)


class Counter(Protocol):
    """The part of an operator that the API uses: the served model, and answers to requests. This object exists only after the
    model is loaded."""

    @property
    def model_name(self) -> str:
        """Name of the one served model."""
        ...

    @property
    def owner(self) -> str:
        """Address of the operator's account."""
        ...

    @property
    def created(self) -> int:
        """Unix second at which this process had loaded the model."""
        ...

    @property
    def context(self) -> int:
        """Most tokens that a prompt and its answer may have together."""
        ...

    @property
    def queue(self) -> RequestQueue:
        """The queue of requests."""
        ...

    def prepare(self, asked: RequestTicket, ask: ChatRequest) -> Callable[[], bytes]:
        """Checks the request, and raises the errors of the check. Returns the function that computes the answer."""
        ...

    def receipt(self, start: bytes) -> NamedReceipt | None:
        """Returns the operator's receipt whose id begins with these bytes, or None if there is none."""
        ...

    def check_open(self) -> EpochRecord:
        """Returns the key epoch to which answers are sealed. Raises `TryAgain` with the reason if the operator may not accept a
        request now."""
        ...


class Gate:
    """Gives the API its service after the model is loaded. Until then the API answers every valid request but `/version` with
    status 503."""

    def __init__(self) -> None:
        self.service: Counter | None = None

    def loaded(self) -> Counter:
        """Returns the service. Raises `TryAgain` before the model is loaded."""
        if self.service is None:
            raise TryAgain("operator", "the model is being loaded")
        return self.service

    def ready(self) -> EpochRecord:
        """Returns the key epoch to which the service seals answers. Raises `TryAgain` if the model is not loaded yet, or if the
        operator may not accept a request now."""
        return self.loaded().check_open()


def build_api(
    gate: Gate, version: dict[str, Any], max_body_bytes: int, answer_timeout_s: float, body_timeout_s: float = BODY_TIMEOUT_S
) -> FastAPI:
    """Builds the web application. Valid requests that need the model get status 503 until the caller sets `gate.service`."""
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
        service = gate.loaded()
        return JSONResponse(models_body(service.model_name, service.created, service.owner, service.context))

    @app.get("/v1/receipts/{name}")
    async def receipt(name: str) -> Response:
        # The receipt is public, because it is also in the operator's list on DA. Only the answer has its opening.
        return _receipt_response(name, await to_thread.run_sync(gate.loaded().receipt, _name_start(name)))

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        future = await to_thread.run_sync(_accept, gate, request, await _read_body(request, max_body_bytes, body_timeout_s))
        try:
            # The shield keeps the work alive after the timeout, because a retry may wait for the same work.
            answer = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), answer_timeout_s)
        except TimeoutError:
            raise Late("answer", f"not within {answer_timeout_s:.0f} s; ask again to wait for it") from None
        names = ", ".join(_receipt_ids(answer))
        return Response(answer, media_type="application/json", headers=NO_RETRY | {RECEIPT_HEADER: names})

    return app


def _receipt_response(name: str, found: NamedReceipt | None) -> Response:
    if found is None:
        body = error_body(f"this operator signed no receipt {name}", "invalid_request_error", "id", "receipt_not_found")
        return JSONResponse(body, 404)
    identifier, signed = found
    return JSONResponse({"object": "receipt", **receipt_members(identifier, signed), "eigendalink": signed.locator})


def _name_start(name: str) -> bytes:
    """Returns the first bytes of a receipt's id. `name` is the id of the receipt, or the id of the completion that the receipt
    belongs to. Raises `BadRequest` for any other name."""
    found = _NAME.fullmatch(name)
    if found is None:
        wanted = f"must be a receipt id (0x and 64 hex digits) or a completion id ({COMPLETION_PREFIX} and 32), in lower case"
        raise BadRequest("id", wanted)
    return bytes.fromhex(found[1] or found[2])


def _receipt_ids(answer: bytes) -> list[str]:
    """Returns the ids of the receipts of the answer's choices in order, each as 0x and hex digits."""
    whole = json.loads(answer)
    return [str(each["receipt"]["receipt_id"]) for each in whole.get("answers", [whole])]


def _accept(gate: Gate, request: Request, body: bytes) -> Any:
    ask = read_chat_request(parse_json(body))
    service = gate.loaded()
    if ask.model != service.model_name:
        raise HTTPException(404, f"the model `{ask.model[:80]}` does not exist; this operator serves `{service.model_name}`")
    names = ("authorization", "idempotency-key", "x-stainless-retry-count")
    authorization, key, retries = (request.headers.get(name, "") for name in names)
    asked = request_ticket(body, authorization, request.client.host if request.client else "", key, retries)

    def prepare() -> Callable[[], bytes]:
        # Only new work needs a ready operator. A remembered answer is returned in every state of the chain.
        service.check_open()
        return service.prepare(asked, ask)

    return service.queue.submit(asked, prepare)


async def _read_body(request: Request, most: int, timeout_s: float) -> bytes:
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "content-type must be application/json")
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise HTTPException(413, f"the body is larger than {most} bytes")
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {timeout_s:g} s", {"connection": "close"}) from None
    return bytes(body)


async def _name_request(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers["x-request-id"] = "req_" + os.urandom(12).hex()
    return response


async def _http_error(request: Request, error: HTTPException) -> Response:
    unknown_model = error.status_code == 404 and request.url.path == "/v1/chat/completions"
    unknown_url = error.status_code == 404 and not unknown_model
    param, code = ("model", "model_not_found") if unknown_model else (None, "unknown_url" if unknown_url else None)
    body = error_body(str(error.detail), "invalid_request_error", param, code)
    return JSONResponse(body, error.status_code, headers=error.headers)


async def _our_error(_request: Request, error: BytewiseError) -> Response:
    metrics.REQUESTS_FAILED.labels(error=type(error).__name__).inc()
    known = refusal(error)
    if known is None:
        telemetry.log_error("request.failed", error)
    return _refused(known or failure())


async def _other_error(_request: Request, error: Exception) -> Response:
    metrics.REQUESTS_FAILED.labels(error=type(error).__name__).inc()
    # The text of such an error may quote the messages of the request.
    telemetry.log_foreign_error("request.failed", error)
    return _refused(failure())


def _refused(said: ApiRefusal) -> Response:
    return JSONResponse(said.body, said.status, said.headers)
