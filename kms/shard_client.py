"""HTTPS to one shard: HTTP/1.1 by the standard library, under TLS 1.3 with a pinned certificate, over a stream that `dial` opens.

Enclaves use it, which have no network: somebody outside dials for them and hands in the connected socket. It is the one place
that knows how a shard is reached.
"""

import http.client
import select
import socket
import ssl
from collections.abc import Callable
from types import TracebackType
from urllib.parse import urlsplit

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors import BytewiseError, ConfigurationError, Fault, ShardRefused, TryAgain
from bytewise.protocol.jobs import ShardRecord
from bytewise.protocol.keys import Nonce, Refusal, ReleaseAnswer, ReleaseRequest
from bytewise.protocol.units import Digest

TIMEOUT_S = 5.0
"""Of one wait for the network; a shard needs about 30 ms plus its chain reads."""
MAX_ANSWER_BYTES = 64 * 1024
"""A release answer has about 2 KB."""

Dial = Callable[[ShardRecord, float], socket.socket]
"""Opens a stream to a shard within so many seconds; `OSError` or `TryAgain` if it cannot be reached."""


def dial(shard: ShardRecord, timeout_s: float) -> socket.socket:
    """A TCP connection to the host and port of the shard's address; `ConfigurationError` for an address that is none."""
    host, port = place_of(shard)
    return socket.create_connection((host, port), timeout=timeout_s)


def place_of(shard: ShardRecord) -> tuple[str, int]:
    """Host and port of a shard; `ConfigurationError` if its address is not `https://host[:port]`."""
    try:
        parts = urlsplit(shard.url)
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme != "https" or not host or parts.path.strip("/") or parts.query or parts.username:
        raise ConfigurationError(f"address of shard {shard.index}", f"is {shard.url[:80]!r}, wanted is https://host:port")
    return host, port or http.client.HTTPS_PORT


class ShardClient:
    """HTTPS to one shard, trusting its pinned certificate and nothing else. A context manager, for one thread at a time."""

    def __init__(
        self, shard: ShardRecord, timeout_s: float = TIMEOUT_S, most: int = MAX_ANSWER_BYTES, dial: Dial = dial
    ) -> None:  # fmt: skip
        """Connects at the first call. `ConfigurationError` for a certificate or an address that is none."""
        try:
            context = ssl.create_default_context(cadata=shard.certificate)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(f"certificate of shard {shard.index}", type(error).__name__) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._url, self._most = shard.url, most
        self._line = _Line(shard, context, timeout_s, dial)

    def __enter__(self) -> "ShardClient":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._line.close()

    def nonce(self) -> Digest:
        """A fresh nonce of the shard."""
        return decode(Nonce, self.call("POST", "/v1/nonce", b"")).nonce

    def release(self, request: ReleaseRequest) -> ReleaseAnswer:
        """The shard's answer, not yet believed."""
        return decode(ReleaseAnswer, self.call("POST", "/v1/release", encode(request)))

    def call(self, method: str, path: str, body: bytes) -> bytes:
        """Body of a 200 answer; `ShardRefused` with the shard's rule, `TryAgain` if it says so or cannot be reached."""
        status, data = self.exchange(method, path, body)
        if status == http.client.OK:
            return data
        try:
            refusal = decode(Refusal, data)
        except Fault:
            raise ShardRefused(self._url, f"status {status}") from None
        raise self._refused(refusal)

    def exchange(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of any answer; errors as of `call`."""
        try:
            return self._exchanged(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            self._line.close()
            raise TryAgain(self._url, type(error).__name__) from None
        except BytewiseError:
            self._line.close()
            raise

    def _exchanged(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        self._line.drop_if_stale()
        try:
            self._line.request(method, path, body)
        except (BrokenPipeError, ConnectionResetError):
            # A shard that refuses a body by its size answers before it has read it: the answer is there to be read.
            if self._line.sock is None:
                raise
        response = self._line.getresponse()
        data = response.read(self._most + 1)
        if len(data) > self._most:
            raise ShardRefused(self._url, "an answer above the cap")
        return response.status, data

    def _refused(self, refusal: Refusal) -> BytewiseError:
        if refusal.retryable:
            return TryAgain(self._url, refusal.error)
        return ShardRefused(self._url, f"{refusal.error} {refusal.rule}")


class _Line(http.client.HTTPConnection):
    """A connection whose stream comes from `dial`. The library calls `connect` whenever there is none."""

    def __init__(self, shard: ShardRecord, context: ssl.SSLContext, timeout_s: float, dial: Dial) -> None:
        self._name, port = place_of(shard)
        super().__init__(self._name, port)
        self._shard, self._context, self._wait_s, self._dial = shard, context, timeout_s, dial

    def connect(self) -> None:
        """Dials, and runs the handshake: nothing is said to whoever has not the pinned certificate's key."""
        plain = self._dial(self._shard, self._wait_s)
        try:
            plain.settimeout(self._wait_s)
            self.sock = self._context.wrap_socket(plain, server_hostname=self._name)
        except BaseException:
            plain.close()
            raise

    def drop_if_stale(self) -> None:
        """Closes an idle connection that has something to say: that can only be its end."""
        if self.sock is not None and select.select([self.sock], [], [], 0)[0]:
            self.close()
