"""The queue before the one engine thread, and the memory that gives a retried request its one receipt.

The official client retries a POST on a lost answer without any idempotency header (`ecosystem.md` 5.3). So the name of a request
is its body: while it is in flight, or its answer is remembered, the same body from the same caller gets the same answer.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from bytewise.protocol.digests import Label, labelled, sha256
from bytewise.protocol.errors import Bug, TryAgain
from bytewise.protocol.units import Digest
from bytewise.service import telemetry


def request_key(body: bytes, authorization: str, idempotency_key: str) -> Digest:
    """Name of a request: caller, body, and the caller's own idempotency key where it wants two answers to one body."""
    caller = sha256(authorization.encode("utf-8", "surrogateescape"))
    return labelled(Label.RETRY, caller, idempotency_key.encode("utf-8", "surrogateescape"), body)


class Desk:
    """Accepts work for the engine thread; joins equal requests; bounded."""

    def __init__(
        self, remembered: Callable[[Digest], bytes | None], queue_limit: int, on_bug: Callable[[BaseException], None]
    ) -> None:
        self._remembered = remembered
        self._limit = queue_limit
        self._on_bug = on_bug
        self._lock = threading.Lock()
        self._in_flight: dict[Digest, Future[bytes]] = {}
        # One thread: the engine takes one request at a time, and receipt numbers are given in the order of signing.
        self._executor = ThreadPoolExecutor(1, "engine")

    def submit(self, key: Digest, prepare: Callable[[], Callable[[], bytes]]) -> Future[bytes]:
        """The future answer of the request named `key`.

        `prepare()` checks the request here and now (its errors are raised at once) and returns the work for the engine thread.
        `TryAgain` when the queue is full; nothing was accepted then.
        """
        with self._lock:
            known = self._known(key)
        if known is not None:
            return known
        work = prepare()
        with self._lock:
            known = self._known(key)
            if known is not None:
                return known
            if len(self._in_flight) >= self._limit:
                telemetry.count("bytewise_requests_refused_total", reason="queue")
                raise TryAgain("queue", f"{self._limit} requests are waiting")
            future = self._executor.submit(work)
            self._in_flight[key] = future
        future.add_done_callback(lambda done: self._finished(key, done))
        return future

    def close(self) -> None:
        """Finishes what runs, cancels what waits."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _known(self, key: Digest) -> Future[bytes] | None:
        # Under the lock. An answer is stored before its future ends, so it is found in one place or the other.
        if key in self._in_flight:
            telemetry.count("bytewise_requests_joined_total", how="in_flight")
            return self._in_flight[key]
        answer = self._remembered(key)
        if answer is None:
            return None
        telemetry.count("bytewise_requests_joined_total", how="remembered")
        done: Future[bytes] = Future()
        done.set_result(answer)
        return done

    def _finished(self, key: Digest, done: "Future[bytes]") -> None:
        with self._lock:
            self._in_flight.pop(key, None)
        if done.cancelled():
            return
        error = done.exception()
        if isinstance(error, Bug):
            self._on_bug(error)
