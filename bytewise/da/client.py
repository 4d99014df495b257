"""Client of one or more EigenDA proxies. It implements `bytewise.ports.BlobStore` (design section 5).

The answer of a proxy decides what follows. A successful answer ends the call. After an answer of class RETRY the client asks the
same proxy again, a bounded number of times. After an answer of class FAIL_OVER, or after the last attempt, it asks the next
proxy. If no proxy is left, the last answer decides whether the client raises `TryAgain` or `FailOver`. If a proxy finds a stored
blob malformed, the client raises `CallerError`. If it finds a locator malformed, the client asks the next proxy, and raises
`CallerError` only if all proxies agree. If a proxy calls a certificate bad, the client asks the next proxy. It raises
`BadCertificate` as soon as a second proxy agrees. If no second proxy agrees and the accusing proxy was the last one, the client
raises `TryAgain`.
"""

import json
import threading
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

import httpx2

from bytewise.da.conventions import MAX_BODY_BYTES, STANDARD, ReplyClass, certificate_of, classify, locator_of
from bytewise.protocol.encoding import verify_depth
from bytewise.protocol.errors.actors import BadCertificate, CallerError, ConfigurationError, FailOver, TryAgain
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.errors.records import NotCanonical
from bytewise.service import metrics, telemetry
from bytewise.service.clock import monotonic_s
from bytewise.service.http.deadline import TimedTransport
from bytewise.service.settings import public_part

ATTEMPTS = 3
"""Number of attempts at one proxy before the client tries the next proxy. The proxy itself retries three times."""
BACKOFF_S = 0.2
"""Number of seconds before the second attempt. The wait doubles with each attempt."""
CONNECT_TIMEOUT_S = 5.0
"""Longest time of the connection to a proxy, in seconds. It is part of the time of the attempt."""


class _Reply(NamedTuple):
    verdict: ReplyClass
    body: bytes
    detail: str


class DaClient:
    """Client that stores and gets blobs through several proxies, which it tries in order."""

    def __init__(
        self, urls: tuple[str, ...], timeout_s: float, *, attempts: int = ATTEMPTS, pause: Callable[[float], object] | None = None
    ) -> None:
        """`timeout_s` is the longest time of one attempt at one proxy, from the connection to the last byte of the answer."""
        if not urls:
            raise ConfigurationError("da", "no proxy URL is set: set at least one")
        self._urls = tuple(url.rstrip("/") for url in urls)
        self._attempts = attempts
        self._pause = pause or threading.Event().wait
        timeout = httpx2.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))
        # Proxy settings of the environment are ignored: ciphertext goes only to the hosts of the settings.
        transport = TimedTransport(httpx2.create_ssl_context(trust_env=False))
        self._http = httpx2.Client(transport=transport, timeout=timeout, follow_redirects=False, trust_env=False)

    def __enter__(self) -> "DaClient":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def put(self, data: bytes) -> str:
        """Stores bytes and returns their locator. Raises `CallerError`, `TryAgain` or `FailOver`, as the module describes.

        The call is not idempotent: a retry may leave a second blob that no locator names.
        """
        last: Unavailable = TryAgain("da", "no proxy answered")
        for url in self._urls:
            reply = self._asked(url, "POST", f"{url}/put?commitment_mode={STANDARD}", data)
            if reply.verdict is ReplyClass.OK:
                return locator_of(reply.body)
            if reply.verdict is ReplyClass.CALLER_ERROR:
                raise CallerError(public_part(url), reply.detail)
            last = (
                FailOver(public_part(url), reply.detail)
                if reply.verdict is ReplyClass.FAIL_OVER
                else TryAgain(public_part(url), reply.detail)
            )
        raise last

    def get(self, locator: str, accept: Callable[[bytes], bool] | None = None) -> bytes:
        """Returns the bytes of a locator. The caller checks their hash. Raises `CallerError`, `BadCertificate`, `TryAgain` or
        `FailOver`, as the module describes.

        `accept` checks the bytes. If it refuses the bytes of a proxy, the client asks the next proxy. So a lying proxy cannot
        hide an honest proxy.
        """
        certificate = certificate_of(locator)
        accused: list[str] = []
        refusals: list[CallerError] = []
        last: Unavailable = TryAgain("da", "no proxy answered")
        for url in self._urls:
            reply = self._asked(url, "GET", f"{url}/get/0x{certificate.hex()}?commitment_mode={STANDARD}", None)
            match reply.verdict:
                case ReplyClass.OK if accept is None or accept(reply.body):
                    return reply.body
                case ReplyClass.OK:
                    last = TryAgain(public_part(url), "gave other bytes")
                case ReplyClass.CALLER_ERROR:
                    refusals.append(CallerError(public_part(url), reply.detail))
                case ReplyClass.BAD_CERTIFICATE:
                    accused.append(reply.detail)
                    last = TryAgain(public_part(url), f"calls the certificate bad, no second proxy agrees: {reply.detail}")
                case ReplyClass.FAIL_OVER:
                    last = FailOver(public_part(url), reply.detail)
                case ReplyClass.RETRY:
                    last = TryAgain(public_part(url), reply.detail)
            if len(accused) == 2:
                raise BadCertificate(locator[:40], accused[1])
        raise refusals[0] if len(refusals) == len(self._urls) else last

    def _asked(self, url: str, method: str, address: str, data: bytes | None) -> _Reply:
        reply = _Reply(ReplyClass.RETRY, b"", "not asked")
        for attempt in range(self._attempts):
            if attempt:
                self._pause(BACKOFF_S * 2 ** (attempt - 1))
            began = monotonic_s()
            reply = self._ask(method, address, data)
            _count(_OPERATIONS[method], reply, len(reply.body if data is None else data), monotonic_s() - began)
            if reply.verdict is not ReplyClass.RETRY:
                return reply
        telemetry.log("da.unavailable", url=public_part(url), detail=reply.detail)
        return reply

    def _ask(self, method: str, address: str, data: bytes | None) -> _Reply:
        headers = {"content-type": "application/octet-stream"} if data is not None else {}
        try:
            with self._http.stream(method, address, content=data, headers=headers, timeout=self._http.timeout) as response:
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > MAX_BODY_BYTES:
                        return _Reply(ReplyClass.RETRY, b"", "answer is larger than any blob")
        except httpx2.HTTPError as error:
            return _Reply(ReplyClass.RETRY, b"", type(error).__name__)
        return _Reply(classify(response.status_code), bytes(body), _detail(response.status_code, bytes(body)))


_OPERATIONS = {"POST": "put", "GET": "get"}


def _count(operation: str, reply: _Reply, size: int, seconds: float) -> None:
    metrics.DA_REQUESTS.labels(op=operation, status=reply.verdict.name.lower()).inc()
    metrics.DA_SECONDS.labels(op=operation).observe(seconds)
    if reply.verdict is ReplyClass.OK:
        metrics.DA_BYTES.labels(op=operation).inc(size)


def _detail(status: int, body: bytes) -> str:
    if status == 418:
        try:
            told = json.loads(verify_depth(body))
            return f"418/{int(told['StatusCode'])}"
        except (ValueError, OverflowError, KeyError, TypeError, NotCanonical):
            return "418 without a reason"
    return f"HTTP {status}"
