"""HTTPS client of one shard with a pinned certificate, for programs that read the shard's public log or run ceremonies.

Every exchange ends by one deadline, however slowly the shard or the resolver of host names answers.
"""

import ssl
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

import httpcore2
import httpx2

from bytewise.protocol.address_book import ShareHolder
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError, ShardRefused, TryAgain
from bytewise.protocol.errors.branches import BytewiseError, Fault
from bytewise.protocol.jobs import ShardRecord
from bytewise.protocol.keys.epochs import ShardRefusal
from bytewise.service.clock import monotonic_s
from bytewise.service.connections import seconds_left

MAX_LOOKUPS = 32
"""Most host names that this process resolves at one time. The system's resolver cannot be stopped, so an exchange whose deadline
passes leaves a thread that ends when the resolver gives up, usually after some seconds."""
_LOOKUPS = threading.BoundedSemaphore(MAX_LOOKUPS)

_CHUNK_BYTES = 2**14
"""Most bytes that are written at once: one TLS record, which has one timeout."""

SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
"""Option of a socket, in the form of `socket.setsockopt`."""


class Deadline:
    """The time by which the current exchange must end."""

    def __init__(self) -> None:
        self._until = 0.0

    def start(self, seconds: float) -> None:
        """Starts the deadline of the next exchange, in `seconds` from now."""
        self._until = monotonic_s() + seconds

    def left(self) -> float:
        """Returns the seconds until the deadline. Raises `httpcore2.ReadTimeout` if none are left."""
        try:
            return seconds_left(self._until)
        except TimeoutError:
            raise httpcore2.ReadTimeout("the exchange takes too long") from None


class TimedBackend(httpcore2.NetworkBackend):
    """A network backend whose connections end at one deadline. The timeouts of the HTTP client itself are ignored."""

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
        failure: Exception = httpcore2.ConnectError(f"{host} has no address")
        for after, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                stream = self._inner.connect_tcp(address, port, self._deadline.left() / after, local_address, options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
            else:
                return _TimedStream(stream, self._deadline)
        raise failure


def _addresses(host: str, port: int, deadline: Deadline) -> list[str]:
    # A name can have any number of addresses, and the library would give each the whole time.
    answer: Future[list[str]] = Future()
    if not _LOOKUPS.acquire(timeout=deadline.left()):
        raise httpcore2.ConnectTimeout(f"{host}: {MAX_LOOKUPS} other names are being resolved")
    try:
        threading.Thread(target=_resolve, args=(host, port, answer), name=f"resolve {host}"[:60], daemon=True).start()
    except RuntimeError as error:  # The system has no thread left.
        _LOOKUPS.release()
        raise httpcore2.ConnectError(f"{host}: {error}") from None
    try:
        return answer.result(deadline.left())
    except TimeoutError:
        raise httpcore2.ConnectTimeout(f"{host}: its name was not resolved in time") from None
    except (OSError, ValueError) as error:
        raise httpcore2.ConnectError(f"{host}: {error}") from None


def _resolve(host: str, port: int, answer: "Future[list[str]]") -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        answer.set_result(list(dict.fromkeys(str(each[4][0]) for each in found)))
    except (OSError, ValueError) as error:  # UnicodeError, for a name that is too long, is a ValueError.
        answer.set_exception(error)
    finally:
        _LOOKUPS.release()


class _TimedStream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for at in range(0, len(buffer), _CHUNK_BYTES):
            self._inner.write(buffer[at : at + _CHUNK_BYTES], self._deadline.left())

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return _TimedStream(self._inner.start_tls(ssl_context, server_hostname, self._deadline.left()), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


TIMEOUT_S = 5.0
"""Seconds for one HTTP exchange, from the connection to the last byte, unless the caller sets another time."""
MAX_ANSWER_BYTES = 64 * 1024
"""Largest answer in bytes, unless the caller sets another size."""

PAGE_NOT_FOUND = "status 404"
"""Text that `ShardRefused` has in place of a rule, if the shard answers but has nothing at this path."""

_FAILURES = (
    httpcore2.ConnectionNotAvailable,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)


class ShardBusy(TryAgain):
    """Raised when the shard refuses a call that may succeed later, for example because it is busy."""


class ShardClient:
    """HTTPS client of one shard, which trusts only the shard's pinned certificate. It is a context manager."""

    def __init__(self, shard: ShardRecord | ShareHolder, timeout_s: float = TIMEOUT_S, most: int = MAX_ANSWER_BYTES) -> None:
        try:
            context = ssl.create_default_context(cadata=shard.certificate)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(f"certificate of shard {shard.address}", type(error).__name__) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._url = shard.url
        self._most = most
        self._timeout_s = timeout_s
        self._deadline = Deadline()
        self._base = _origin(shard)
        self._http = httpcore2.ConnectionPool(context, network_backend=TimedBackend(self._deadline))

    def __enter__(self) -> "ShardClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def call(self, method: str, path: str, body: bytes, timeout_s: float | None = None) -> bytes:
        """Sends a request and returns the body of a 200 answer. Raises `ShardRefused` with the shard's rule, or if the answer
        is too large. Raises `TryAgain` if the shard cannot be reached, or `ShardBusy` if the same call may succeed later.

        The call ends after `timeout_s`, by default the client's own limit, even if the answer comes one byte at a time. Only one
        call may run at a time.
        """
        if self._base.scheme != "https":
            raise TryAgain(
                self._url, "is not https: the client needs a pinned certificate. Correct the shard's address in the address book"
            )
        self._deadline.start(self._timeout_s if timeout_s is None else timeout_s)
        url = httpcore2.URL(
            scheme=self._base.raw_scheme, host=self._base.raw_host, port=self._base.port, target=self._target(path)
        )
        try:
            with self._http.stream(method, url, headers=[(b"host", self._base.netloc)], content=body) as response:
                data = bytearray()
                for chunk in response.iter_stream():
                    data += chunk
                    if len(data) > self._most:
                        raise ShardRefused(self._url, "an answer above the cap")
                status = response.status
        except _FAILURES as error:
            raise TryAgain(self._url, type(error).__name__) from None
        if status == httpx2.codes.OK:
            return bytes(data)
        raise self._refusal(status, bytes(data))

    def _target(self, path: str) -> bytes:
        return self._base.raw_path.rstrip(b"/") + path.encode()

    def _refusal(self, status: int, data: bytes) -> BytewiseError:
        try:
            refusal = decode(ShardRefusal, data)
        except Fault:
            return ShardRefused(self._url, f"status {status}")
        if refusal.retryable:
            return ShardBusy(self._url, refusal.error)
        return ShardRefused(self._url, f"{refusal.error} {refusal.rule}")


def _origin(shard: ShardRecord | ShareHolder) -> httpx2.URL:
    try:
        return httpx2.URL(shard.url)
    except httpx2.InvalidURL as error:
        raise ConfigurationError(f"address of shard {shard.address}", f"{shard.url!r} is no URL: {error}") from None
