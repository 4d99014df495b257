"""The shard's HTTPS interface: its public log, and ceremonies. Requests and answers are canonical JSON. Sizes are checked before
anything is parsed.

Releases use attested channels (`kms.shard.listener`).
"""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated

import uvicorn
from fastapi import Depends, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.branches import BytewiseError, Fault, Unavailable
from bytewise.protocol.errors.records import NotCanonical
from bytewise.protocol.keys.ceremony_log import MAX_EXCHANGE_BYTES
from bytewise.service import telemetry
from bytewise.service.listener import listening_socket
from kms.ceremony.participant import Participant
from kms.shard.http_limits import BodyBudget, TurnQueue, server_config
from kms.shard.release import Shard, refusal

_JSON = "application/json"

_RETRY_AFTER_S = 1
"""Seconds in the `Retry-After` header of a refusal that may succeed later."""


async def capped_body(request: Request) -> AsyncIterator[bytes]:
    """Yields the request body, within the limits of `kms.shard.http_limits`. It is a dependency of FastAPI, so the body counts
    for the limits until the request is answered."""
    intake: BodyBudget = request.app.state.intake
    async with intake.body(request, MAX_EXCHANGE_BYTES) as body:
        yield body


Body = Annotated[bytes, Depends(capped_body)]


def build_app(shard: Shard | None, desk: Participant | None = None) -> FastAPI:
    """Builds the web application of a shard that serves an epoch, takes part in ceremonies, or both. Endpoints run in worker
    threads."""
    app = FastAPI(title="bytewise key shard", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.intake = BodyBudget()
    if shard is not None:
        _add_records(app, shard)
    if desk is not None:
        _add_ceremonies(app, desk)
    app.add_exception_handler(BytewiseError, _refused)
    return app


def _add_ceremonies(app: FastAPI, desk: Participant) -> None:
    def ceremony(body: Body) -> Response:
        return _answer(lambda: desk.exchange(body))

    app.add_api_route("/v1/ceremony", ceremony, methods=["POST"])


def _add_records(app: FastAPI, shard: Shard) -> None:
    pages = TurnQueue()

    def info() -> Response:
        return _answer(shard.info)

    async def log(request: Request) -> Response:
        first, epoch = (_number(request, name) for name in ("from", "epoch"))
        async with pages.turn(request.client.host if request.client else ""):
            return await run_in_threadpool(_answer, lambda: shard.log(first or 0, epoch))

    app.add_api_route("/v1/info", info, methods=["GET"])
    app.add_api_route("/v1/log", log, methods=["GET"])


def serve(app: FastAPI, host: str, port: int, certificate: Path, key: Path) -> None:
    """Serves the application over TLS until SIGTERM or SIGINT.

    The caller installs handlers for these signals, so that the process exits with code 0. Raises `ConfigurationError` if an
    address, certificate or key cannot be used.
    """
    config = server_config(app, host, port, certificate, key)
    with listening_socket("port", host, port) as socket:
        telemetry.log("shard.started", host=host, port=port)
        uvicorn.Server(config).run([socket])


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise NotCanonical(f"{name} is not a number")
    return int(text)


def _answer(produce: Callable[[], object]) -> Response:
    return Response(encode(produce()), media_type=_JSON)


def _refused(_request: Request, error: Exception) -> Response:
    if not isinstance(error, BytewiseError):
        raise error
    status = 503 if isinstance(error, Unavailable) else 403 if isinstance(error, Fault) else 500
    headers = {"Retry-After": str(_RETRY_AFTER_S)} if isinstance(error, Unavailable) else None
    return Response(encode(refusal(error)), status_code=status, headers=headers, media_type=_JSON)
