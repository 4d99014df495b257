"""What strangers may take up of a shard's HTTPS: connections, time, memory for bodies that nobody has looked at yet, and turns.

uvicorn waits for ever for the next byte of a request, and takes as many connections as there are file descriptors. A handshake
has asyncio's 60 seconds there, and nobody counts it: so here a connection has its place, and little time, before TLS begins.
"""

import asyncio
import socket
import ssl
from collections import Counter
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

HANDSHAKE_S = 10.0
"""For a TLS handshake, from the connection to its end."""

REQUEST_S = 30.0
"""For a whole request, from the handshake or the answer before it to the end of its own answer: a trickle extends nothing."""

CONNECTIONS, CONNECTIONS_FROM_ONE_ADDRESS = 128, 32
"""One more is closed before a byte is read."""

MAX_HEADER_BYTES = 16 * 1024
"""Request line and headers; asked after each read, so that what comes in one piece may be somewhat longer."""

MAX_HELD_BYTES = 4 * MAX_EXCHANGE_BYTES
"""Bodies that are being received or answered, all together."""

PAGE_WAIT_S = 5.0
"""How long a request for a page of the log waits for its turn: longer than as many pages take as one address has connections, so
that no address alone keeps others from theirs."""

KEEP_ALIVE_S = 5
"""Idle connections are closed after this."""

SHUTDOWN_S = 5
"""A stopping shard lets running answers end for this long."""


class TimedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with a limit of time, inside TLS."""

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
        """An answer is given; the time of the next request begins."""
        self._arm()
        super().on_response_complete()

    def _arm(self) -> None:
        self._disarm()
        self._overdue = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _disarm(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


class Threshold(asyncio.Protocol):
    """A connection from its first moment to the end of its TLS handshake: one of those that uvicorn counts and ends."""

    def __init__(self, tls: ssl.SSLContext, server_state: ServerState, **given: Any) -> None:
        """`given`: what uvicorn makes a protocol with."""
        self._tls, self._connections = tls, cast(set[asyncio.BaseProtocol], server_state.connections)
        self._inside = TimedProtocol(server_state=server_state, **given)
        self._early: list[bytes] = []
        self.transport: asyncio.Transport
        """The connection without TLS."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A connection: it gets a place, or is closed."""
        host = host_of(transport)
        of_one = sum(host_of(each.transport) == host for each in self._connections if isinstance(each, Threshold | TimedProtocol))
        if len(self._connections) >= CONNECTIONS or of_one >= CONNECTIONS_FROM_ONE_ADDRESS:
            cast(asyncio.Transport, transport).abort()
            return
        self.transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        self._handshake = asyncio.get_running_loop().create_task(self._enter())

    def data_received(self, data: bytes) -> None:
        """The beginning of a request that came in one piece with the end of the handshake."""
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


class Intake:
    """Bodies of requests: each is capped, and so are all of them together. For one event loop."""

    def __init__(self, most: int = MAX_HELD_BYTES) -> None:
        self._most = most
        self.held = 0
        """Bytes now."""

    @asynccontextmanager
    async def body(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """The body, held until the request is answered.

        `TooLarge` as soon as it is above `most`, `TryAgain` as soon as all together are too large, or if it does not come.
        """
        data = bytearray()
        try:
            async for chunk in request.stream():
                data += chunk
                self.held += len(chunk)
                if len(data) > most:
                    raise TooLarge(f"more than {most} bytes")
                if self.held > self._most:
                    raise TryAgain("shard", "busy with other requests")
            yield bytes(data)
        except ClientDisconnect:
            raise TryAgain("shard", "the request ended in the middle") from None
        finally:
            self.held -= len(data)


class Turns:
    """Work that strangers may ask for, one after the other in the order in which they came. For one event loop.

    A page of the log costs much of a processor, and releases want it too. Who waits holds no thread. Who asks and goes away
    keeps its place, so places are counted by address beside the connections.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(1)
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """A turn of somebody at an address; `TryAgain` if it does not come within `PAGE_WAIT_S`, at once if as many wait as there
        are connections, all together or from this address."""
        if self._waiting.total() >= CONNECTIONS or self._waiting[address] >= CONNECTIONS_FROM_ONE_ADDRESS:
            raise TryAgain("shard", "busy with pages of its log")
        self._waiting[address] += 1
        try:
            await asyncio.wait_for(self._free.acquire(), PAGE_WAIT_S)
        except TimeoutError:
            raise TryAgain("shard", "busy with pages of its log") from None
        finally:
            self._waiting[address] -= 1
            self._waiting += Counter()  # forgets addresses of which nobody waits
        try:
            yield
        finally:
            self._free.release()


def listening(setting: str, host: str, port: int) -> socket.socket:
    """A listening socket at the place that a setting names; `ConfigurationError` with the setting if it cannot be had."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise ConfigurationError(setting, f"{host}:{port}: {why}; name an address of this machine, and a free port") from None


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
        http=cast(type[asyncio.Protocol], partial(Threshold, tls)), ws="none", h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=SHUTDOWN_S,
    )  # fmt: skip


def host_of(transport: asyncio.BaseTransport) -> str:
    """Address of the other end; the same of all that are gone."""
    return str((transport.get_extra_info("peername") or ("",))[0])
