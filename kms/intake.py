"""What strangers may take up of a shard's HTTPS: connections, time, and memory for bodies that nobody has looked at yet.

uvicorn waits for ever for the next byte of a request, and takes as many connections as there are file descriptors. TLS comes
first: asyncio gives a handshake 60 seconds.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from bytewise.protocol.ceremony_log import MAX_EXCHANGE_BYTES
from bytewise.protocol.errors import NotCanonical, TryAgain

REQUEST_S = 30.0
"""For a whole request, from the connection or the answer before it to the end of its own answer: a trickle extends nothing."""

CONNECTIONS, CONNECTIONS_FROM_ONE_ADDRESS = 128, 32
"""One more is closed before a byte is read."""

MAX_HEADER_BYTES = 16 * 1024
"""Request line and headers; asked after each read, so that what comes in one piece may be somewhat longer."""

MAX_HELD_BYTES = 4 * MAX_EXCHANGE_BYTES
"""Bodies that are being received or answered, all together."""

KEEP_ALIVE_S = 5
"""Idle connections are closed after this."""

SHUTDOWN_S = 5
"""A stopping shard lets running answers end for this long."""


class TimedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with a limit of connections and of time."""

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection whose TLS handshake is done."""
        super().connection_made(transport)
        of_one = sum(isinstance(each, TimedProtocol) and each.host == self.host for each in self.connections)
        if len(self.connections) > CONNECTIONS or of_one > CONNECTIONS_FROM_ONE_ADDRESS:
            transport.abort()
            return
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._disarm()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """An answer is given; the time of the next request begins."""
        self._arm()
        super().on_response_complete()

    @property
    def host(self) -> str:
        """Address of the other end."""
        return self.client[0] if self.client else ""

    def _arm(self) -> None:
        self._disarm()
        self._overdue = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _disarm(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


class Intake:
    """Bodies of requests: each is capped, and so are all of them together. For one event loop."""

    def __init__(self, most: int = MAX_HELD_BYTES) -> None:
        self._most = most
        self.held = 0
        """Bytes now."""

    @asynccontextmanager
    async def body(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """The body, held until the request is answered.

        `NotCanonical` as soon as it is above `most`, `TryAgain` as soon as all together are too large, or if it does not come.
        """
        data = bytearray()
        try:
            async for chunk in request.stream():
                data += chunk
                self.held += len(chunk)
                if len(data) > most:
                    raise NotCanonical(f"more than {most} bytes")
                if self.held > self._most:
                    raise TryAgain("shard", "busy with other requests")
            yield bytes(data)
        except ClientDisconnect:
            raise TryAgain("shard", "the request ended in the middle") from None
        finally:
            self.held -= len(data)


def server_config(app: FastAPI, host: str, port: int, certificate: Path, key: Path) -> uvicorn.Config:
    """How a shard's application is served."""
    return uvicorn.Config(
        app, host=host, port=port, ssl_certfile=str(certificate), ssl_keyfile=str(key), log_config=None, access_log=False,
        lifespan="off", http=TimedProtocol, ws="none", h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=SHUTDOWN_S,
    )  # fmt: skip
