"""Connections whose every exchange ends by one moment, however the other side spends it.

HTTP clients limit each read. Who sends a byte a second is silent at no read, and its answer never ends.
"""

import socket
from collections.abc import Iterable
from typing import Any

import httpcore2

from bytewise.service.clock import monotonic_s

_PIECE_BYTES = 2**14
"""Most that is written at once: one TLS record, which has one timeout."""

SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
"""As `socket.setsockopt` takes them."""


class Deadline:
    """When the exchange that is under way has to be over."""

    def __init__(self) -> None:
        self._until = 0.0

    def start(self, seconds: float) -> None:
        """The next exchange has so long."""
        self._until = monotonic_s() + seconds

    def left(self) -> float:
        """Seconds until then; `httpcore2.ReadTimeout` if there are none."""
        left = self._until - monotonic_s()
        if left <= 0:
            raise httpcore2.ReadTimeout("the exchange takes too long")
        return left


class TimedBackend(httpcore2.NetworkBackend):
    """Opens connections that keep to a deadline; what the HTTP client says of timeouts counts for nothing."""

    def __init__(self, deadline: Deadline) -> None:
        self._inner = httpcore2.SyncBackend()
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.NetworkStream:
        """The first address of the host that answers; each has its part of the time that is left."""
        addresses, options = _addresses(host, port), list(socket_options or ())
        failure: Exception = httpcore2.ConnectError(f"{host} has no address")
        for after, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                stream = self._inner.connect_tcp(address, port, self._deadline.left() / after, local_address, options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
            else:
                return _TimedStream(stream, self._deadline)
        raise failure


def _addresses(host: str, port: int) -> list[str]:
    # A name can have as many as its owner likes, and the library would give each the whole time.
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore2.ConnectError(f"{host}: {error}") from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class _TimedStream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for at in range(0, len(buffer), _PIECE_BYTES):
            self._inner.write(buffer[at : at + _PIECE_BYTES], self._deadline.left())

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return _TimedStream(self._inner.start_tls(ssl_context, server_hostname, self._deadline.left()), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
