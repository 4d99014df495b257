"""HTTP connections whose exchanges end by a deadline, however slowly the peer or the resolver of host names answers.

The timeouts of `httpx2` and `httpcore2` are for each read and each write. A peer that sends one byte at a time would hold the
caller for ever.
"""

import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore2
import httpx2

from bytewise.service.connections import Deadline, resolve

_CHUNK_BYTES = 2**14
"""Most bytes that are written at once: one TLS record, which has one timeout."""

SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
"""Option of a socket, in the form of `socket.setsockopt`."""


class TimedBackend(httpcore2.NetworkBackend):
    """A network backend whose connections end at one deadline. The timeouts of the HTTP client itself can only be shorter."""

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
        """Connects to the first address of the host that answers. Each address gets an equal part of the time that is left."""
        addresses, options = _addresses(host, port, self._deadline), list(socket_options or ())
        attempt = Deadline()
        attempt.start(_left(self._deadline, timeout))
        failure: Exception = httpcore2.ConnectError(f"{host} has no address")
        for after, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                stream = self._inner.connect_tcp(address, port, attempt.left() / after, local_address, options)
            except TimeoutError:
                break
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
            else:
                return _TimedStream(stream, self._deadline)
        raise failure


def _left(deadline: Deadline, timeout: float | None = None) -> float:
    try:
        left = deadline.left()
    except TimeoutError:
        raise httpcore2.ReadTimeout("the exchange takes too long") from None
    return left if timeout is None else min(left, timeout)


def _addresses(host: str, port: int, deadline: Deadline) -> list[str]:
    try:
        return resolve(host, port, deadline)
    except TimeoutError as error:
        raise httpcore2.ConnectTimeout(str(error)) from None
    except OSError as error:
        raise httpcore2.ConnectError(f"{host}: {error}") from None


class _TimedStream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(self._deadline, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for at in range(0, len(buffer), _CHUNK_BYTES):
            self._inner.write(buffer[at : at + _CHUNK_BYTES], _left(self._deadline, timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        inner = self._inner.start_tls(ssl_context, server_hostname, _left(self._deadline, timeout))
        return _TimedStream(inner, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class TimedTransport(httpx2.BaseTransport):
    """Transport of an `httpx2.Client`. The client's read timeout is the longest time of one exchange, from the connection to the
    last byte. The transport uses no proxy. Threads may share it."""

    def __init__(self, trust: ssl.SSLContext) -> None:
        """`trust` is the TLS context of all connections. The numbers of connections are the defaults of `httpx2`."""
        self._deadline = Deadline()
        self._pool = httpcore2.ConnectionPool(
            trust, max_connections=100, max_keepalive_connections=20, keepalive_expiry=5.0,
            network_backend=TimedBackend(self._deadline),
        )  # fmt: skip

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends the request and returns the answer, whose body must be read by the same thread."""
        self._deadline.start(request.extensions["timeout"]["read"])
        url = request.url
        with _errors_of_httpx2():
            answer = self._pool.handle_request(
                httpcore2.Request(
                    request.method,
                    httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer.stream), extensions=answer.extensions)

    def close(self) -> None:
        """Closes the connections."""
        self._pool.close()


class _Body(httpx2.SyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        with _errors_of_httpx2():
            yield from self._stream

    def close(self) -> None:
        self._stream.close()


@contextmanager
def _errors_of_httpx2() -> Iterator[None]:
    """Context manager that raises the error of `httpx2` in place of the one of `httpcore2`, which has the same name."""
    try:
        yield
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, httpcore2.UnsupportedProtocol) as error:
        raise getattr(httpx2, type(error).__name__)(str(error)) from error
