"""HTTPS client of one shard with a pinned certificate, for programs that read the shard's public log or run ceremonies.

Every exchange ends by one deadline, however slowly the shard or the resolver of host names answers.
"""

import ssl

import httpcore2
import httpx2

from bytewise.protocol.address_book import ShareHolder
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError, ShardRefused, TryAgain
from bytewise.protocol.errors.branches import BytewiseError, Fault
from bytewise.protocol.jobs import ShardRecord
from bytewise.protocol.keys.epochs import ShardRefusal
from bytewise.service.connections import Deadline
from bytewise.service.http.deadline import TimedBackend

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
