"""Limits for unknown clients of a shard's HTTPS interface: connections, time, memory for request bodies, and log pages.

uvicorn sets no deadline for the next byte of a request, and accepts connections until file descriptors run out. It lets a TLS
handshake take asyncio's 60 seconds and does not count the connection meanwhile. This module counts every connection, and limits
its time, from before TLS begins.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import uvicorn
from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.records import TooLarge
from bytewise.protocol.keys.ceremony_log import MAX_EXCHANGE_BYTES
from bytewise.service import liveness
from bytewise.service.peers import AddressSlots

HANDSHAKE_S = 10.0
"""Seconds for a TLS handshake, from the connection to its end."""

REQUEST_S = 30.0
"""Seconds for a whole request, from the handshake or the answer before it to the end of its own answer. Further bytes do not
extend it."""

MAX_TLS_CONNECTIONS, MAX_TLS_CONNECTIONS_PER_ADDRESS = 128, 32
"""Most connections, in all and from one address. A further one is closed before a byte is read."""

MAX_HEADER_BYTES = 16 * 1024
"""Longest request line and headers. It is checked after each read, so that one read may exceed it somewhat."""

MAX_BODIES_BYTES = 4 * MAX_EXCHANGE_BYTES
"""Most bytes of all bodies that are being received or answered."""

TURN_WAIT_S = 5.0
"""Seconds that a request for a page of the log waits for its turn. It is longer than the pages for all connections of one address
take, so that one address alone cannot exclude others."""

KEEP_ALIVE_S = 5
"""Seconds after which an idle connection is closed."""

SHUTDOWN_S = 5
"""Seconds that a stopping shard gives running answers."""


class TimedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with a time limit, inside TLS."""

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection whose TLS handshake is done."""
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._disarm()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """The answer is sent; the time of the next request begins."""
        self._arm()
        super().on_response_complete()

    def _arm(self) -> None:
        self._disarm()
        self._overdue = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _disarm(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


class HandshakeProtocol(asyncio.Protocol):
    """A connection from its start to the end of its TLS handshake. uvicorn counts it and closes it at shutdown."""

    def __init__(self, tls: ssl.SSLContext, server_state: ServerState, **arguments: Any) -> None:
        """`arguments`: the arguments with which uvicorn makes a protocol."""
        self._tls, self._connections = tls, cast(set[asyncio.BaseProtocol], server_state.connections)
        self._inside = TimedProtocol(server_state=server_state, **arguments)
        self._early: list[bytes] = []
        self.transport: asyncio.Transport
        """The connection without TLS."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A new connection: it is counted, or closed."""
        host = host_of(transport)
        of_one = sum(
            host_of(each.transport) == host for each in self._connections if isinstance(each, HandshakeProtocol | TimedProtocol)
        )
        if len(self._connections) >= MAX_TLS_CONNECTIONS or of_one >= MAX_TLS_CONNECTIONS_PER_ADDRESS:
            cast(asyncio.Transport, transport).abort()
            return
        self.transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        self._handshake = asyncio.get_running_loop().create_task(self._enter())

    def data_received(self, data: bytes) -> None:
        """The beginning of a request that arrived together with the end of the handshake."""
        self._early.append(data)

    def shutdown(self) -> None:
        """The shard stops."""
        self.transport.abort()

    async def _enter(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            secure = await loop.start_tls(self.transport, self, self._tls, server_side=True, ssl_handshake_timeout=HANDSHAKE_S)
        except OSError:  # no TLS, too slow, or gone
            return
        finally:
            self._connections.discard(self)
        if secure is None or secure.is_closing():
            return
        self._inside.connection_made(secure)
        secure.set_protocol(self._inside)
        if self._early:
            self._inside.data_received(b"".join(self._early))


class BodyBudget:
    """Memory for request bodies: a limit for each, and for all together. For one event loop."""

    def __init__(self, most: int = MAX_BODIES_BYTES) -> None:
        self._most = most
        self.used = 0
        """Bytes of all bodies now."""

    @asynccontextmanager
    async def body(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """Yields the body of a request, and counts its bytes until the request is answered.

        `TooLarge` as soon as the body exceeds `most` bytes; `TryAgain` as soon as all bodies together are too large, or if the
        body does not arrive.
        """
        data = bytearray()
        try:
            async for chunk in request.stream():
                data += chunk
                self.used += len(chunk)
                if len(data) > most:
                    raise TooLarge(f"more than {most} bytes")
                if self.used > self._most:
                    raise TryAgain("shard", "is busy with other requests: ask again")
            yield bytes(data)
        except ClientDisconnect:
            raise TryAgain("shard", "the request ended early") from None
        finally:
            self.used -= len(data)


class TurnQueue:
    """Runs work of unknown clients one at a time, in order of arrival. For one event loop.

    A page of the log costs much processor time, which releases also need. A waiting request holds no thread. A client that
    disconnects keeps its place in the queue, so places are counted by address, apart from connections.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(1)
        self._waiting = AddressSlots(MAX_TLS_CONNECTIONS, MAX_TLS_CONNECTIONS_PER_ADDRESS)

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Waits for the turn of a client at an address, and holds it while the context is open. `TryAgain` if the turn does not
        come within `TURN_WAIT_S`, or at once if too many requests wait, in all or from this address (the limits are those of
        connections)."""
        if not self._waiting.take(address):
            raise TryAgain("shard", "is busy with pages of its log: ask again")
        try:
            await asyncio.wait_for(self._free.acquire(), TURN_WAIT_S)
        except TimeoutError:
            raise TryAgain("shard", "is busy with pages of its log: ask again") from None
        finally:
            self._waiting.leave(address)
        try:
            yield
        finally:
            self._free.release()


def server_config(app: FastAPI, host: str, port: int, certificate: Path, key: Path) -> uvicorn.Config:
    """How a shard's application is served; `ConfigurationError` for a certificate or key that cannot be right."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        tls.load_cert_chain(certificate, key)
    except OSError as error:
        why = "one of them is missing, altered or of another shard; restore them from a backup (`bytewise shard restore`)"
        raise ConfigurationError(f"{certificate.name}, {key.name}", f"{error.strerror}: {why}") from None
    return uvicorn.Config(
        app, host=host, port=port, log_config=None, access_log=False, lifespan="off",
        http=cast(type[asyncio.Protocol], partial(HandshakeProtocol, tls)), ws="none",
        h11_max_incomplete_event_size=MAX_HEADER_BYTES, timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=SHUTDOWN_S,
        callback_notify=liveness.beat_http, timeout_notify=liveness.HTTP_BEAT_S,
    )  # fmt: skip


def host_of(transport: asyncio.BaseTransport) -> str:
    """Address of the other end; one and the same value for all closed connections."""
    return str((transport.get_extra_info("peername") or ("",))[0])
