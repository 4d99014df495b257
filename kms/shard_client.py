"""HTTPS to one shard, its certificate pinned: for whoever reads its public log, or brings shards together."""

import ssl

import httpcore2
import httpx2

from bytewise.protocol.address_book import Holder
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors import BytewiseError, ConfigurationError, Fault, ShardRefused, TryAgain
from bytewise.protocol.jobs import ShardRecord
from bytewise.protocol.keys.epochs import Refusal
from kms.timed_http import Deadline, TimedBackend

TIMEOUT_S = 5.0
"""Of one HTTP exchange, from the first connection to the last byte, where the caller does not say otherwise."""
MAX_ANSWER_BYTES = 64 * 1024
"""Most that an answer has where the caller does not say otherwise."""

NO_PAGE = "status 404"
"""What `ShardRefused` says of a shard that answers, and has nothing at this path."""

_FAILURES = (
    httpcore2.ConnectionNotAvailable,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)


class ShardBusy(TryAgain):
    """The shard is there, and asks to be asked again later."""


class ShardClient:
    """HTTPS to one shard, trusting its pinned certificate and nothing else."""

    def __init__(self, shard: ShardRecord | Holder, timeout_s: float = TIMEOUT_S, most: int = MAX_ANSWER_BYTES) -> None:
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
        """Body of a 200 answer; `ShardRefused` with the shard's rule, `TryAgain` if it cannot be reached,
        `ShardBusy` if it asks to be asked again.

        Ends after `timeout_s`, without it after the client's own, also where an answer comes a byte at a time. One call at once.
        """
        if self._base.scheme != "https":
            raise TryAgain(self._url, "is not https: nothing is asked without a pinned certificate")
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
            refusal = decode(Refusal, data)
        except Fault:
            return ShardRefused(self._url, f"status {status}")
        if refusal.retryable:
            return ShardBusy(self._url, refusal.error)
        return ShardRefused(self._url, f"{refusal.error} {refusal.rule}")


def _origin(shard: ShardRecord | Holder) -> httpx2.URL:
    try:
        return httpx2.URL(shard.url)
    except httpx2.InvalidURL as error:
        raise ConfigurationError(f"address of shard {shard.address}", f"{shard.url!r} is none: {error}") from None
