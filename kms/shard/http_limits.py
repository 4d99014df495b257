"""Limits for unknown clients of a shard's HTTPS interface: connections, time, memory for request bodies, and log pages.

uvicorn sets no deadline for the next byte of a request, and accepts connections until file descriptors run out. A TLS handshake
may take the 60 seconds of asyncio, and uvicorn does not count the connection meanwhile. This module counts every connection and
limits its time from before TLS begins.
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
from bytewise.service import schedule
from bytewise.service.connections import AddressSlots

HANDSHAKE_S = 10.0
"""Seconds for a TLS handshake, counted from the start of the connection."""

REQUEST_S = 30.0
"""Seconds for a whole request. The time begins when the TLS handshake or the answer before ends. It ends with the request's own
answer. Further bytes do not extend it."""

MAX_TLS_CONNECTIONS, MAX_TLS_CONNECTIONS_PER_ADDRESS = 128, 32
"""Most connections, in all and from one address. Any further connection is closed before a byte is read."""

MAX_HEADER_BYTES = 16 * 1024
"""Most bytes of request line and headers. The check follows each read, so one read may exceed the limit somewhat."""

MAX_BODIES_BYTES = 4 * MAX_EXCHANGE_BYTES
"""Most bytes of all bodies together that are being received or answered."""

TURN_WAIT_S = 5.0
"""Seconds that a request for a page of the log waits for its turn. The pages for all connections of one address take less time,
so one address alone cannot exclude others."""

KEEP_ALIVE_S = 5
"""Seconds after which an idle connection is closed."""

SHUTDOWN_S = 5
"""Seconds that a stopping shard waits for running answers."""


class TimedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with a time limit for each request, inside TLS."""

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins the first request of a connection whose TLS handshake has ended."""
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the time limit, because the connection has ended."""
        self._disarm()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Begins the time of the next request, because the answer was sent."""
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
        """`tls` has the shard's certificate. `arguments` are the arguments with which uvicorn makes a protocol."""
        self._tls, self._connections = tls, cast(set[asyncio.BaseProtocol], server_state.connections)
        self._inside = TimedProtocol(server_state=server_state, **arguments)
        self._early: list[bytes] = []
        self.transport: asyncio.Transport
        """Transport of the connection without TLS."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Counts a new connection and begins its TLS handshake, or closes it if there are too many."""
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
        """Keeps the beginning of a request that arrived together with the end of the handshake."""
        self._early.append(data)

    def shutdown(self) -> None:
        """Closes the connection, because the shard stops."""
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
    """The limit of memory for request bodies, for each body and for all together. All calls must come from one event loop."""

    def __init__(self, most: int = MAX_BODIES_BYTES) -> None:
        self._most = most
        self.used = 0
        """Present bytes of all bodies together."""

    @asynccontextmanager
    async def body(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """Context manager that yields the body of a request, and counts its bytes until the request is answered.

        Raises `TooLarge` as soon as the body exceeds `most` bytes. Raises `TryAgain` as soon as all bodies together are too
        large, or if the body does not arrive.
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
    """A queue that runs work of unknown clients one at a time, in order of arrival. All calls must come from one event loop.

    A page of the log takes much processor time, which releases also need. A waiting request uses no thread. A client that
    disconnects keeps its place in the queue, so places are counted by address and not by connection.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(1)
        self._waiting = AddressSlots(MAX_TLS_CONNECTIONS, MAX_TLS_CONNECTIONS_PER_ADDRESS)

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Context manager that waits for the turn of a client at an address. The turn lasts while the context is open.

        Raises `TryAgain` if the turn does not come within `TURN_WAIT_S`. Raises it at once if too many requests wait already, in
        all or from this address. These two limits are the numbers `MAX_TLS_CONNECTIONS` and `MAX_TLS_CONNECTIONS_PER_ADDRESS`.
        """
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
    """Returns the configuration with which uvicorn serves a shard's application. Raises `ConfigurationError` if certificate or
    key cannot be used."""
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
        callback_notify=schedule.beat_http, timeout_notify=schedule.HTTP_BEAT_S,
    )  # fmt: skip


def host_of(transport: asyncio.BaseTransport) -> str:
    """Returns the IP address of the other end of a connection, or an empty text if the connection has none any more."""
    return str((transport.get_extra_info("peername") or ("",))[0])
