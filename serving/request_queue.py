"""The queue for the single engine thread. It also recognises a retried request, and gives it the receipt of its first try.

Two equal requests get two answers, unless the second request is a retry. A retry has the idempotency key of the first request,
or a retry count above 0. The official client sends a retry count instead of a key. A retry gets the answer of the first
request, and waits while the engine computes that answer.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.errors.actors import BadRequest
from bytewise.protocol.errors.branches import Bug, Unavailable
from bytewise.protocol.units import Digest
from bytewise.service import metrics
from serving.refusals import Busy, Code

MAX_KEY_CHARACTERS = 255
"""Most characters of an idempotency key."""
MOST_OWED = 1024
"""Most refused requests that the queue remembers, so that their retries count as new requests. If the queue has forgotten a
refused request, its retry may get the answer of an equal request."""

_HALF = 16
_RETRIES = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class RequestTicket:
    """The identity of a request. The queue recognises the retries of a request by it."""

    name: Digest
    """Hash of caller and request. With an idempotency key, the first half of the name is a hash of caller and key, and the
    second half is a hash of the request."""
    once: bool
    """Whether the request has an idempotency key. There is only one answer for each key."""
    retry: int
    """Number of times that the client has sent the request before."""

    @property
    def start(self) -> bytes:
        """Bytes with which the name of every retry begins. With an idempotency key, these bytes are the first half of the name.
        Without a key, they are the whole name."""
        return self.name[:_HALF] if self.once else self.name

    def verify_name(self, name: Digest) -> None:
        """Checks that a stored name is the name of this request. `name` begins with `start`.

        Raises `BadRequest` if it is the name of another request with the same idempotency key.
        """
        if name != self.name:
            raise BadRequest("Idempotency-Key", "was sent with another body: a new request needs a new key", Code.KEY_REUSED)


def request_ticket(body: bytes, authorization: str, address: str, idempotency_key: str, retries: str) -> RequestTicket:
    """Makes the ticket of a request from its bytes, three headers and the client's address. `retries` is the header
    `x-stainless-retry-count`.

    A retry must come from the same API key and address as its first request. The server accepts any API key, so different
    clients may use the same key, and an answer contains its opening. Raises `BadRequest` if the idempotency key is too long.
    """
    caller = [text.encode("utf-8", "surrogateescape") for text in (authorization, address)]
    retry = int(retries) if _RETRIES.fullmatch(retries) else 0
    if not idempotency_key:
        return RequestTicket(labelled(Label.RETRY, *caller, body), once=False, retry=retry)
    if len(idempotency_key) > MAX_KEY_CHARACTERS:
        raise BadRequest("Idempotency-Key", f"is longer than {MAX_KEY_CHARACTERS} characters")
    key = labelled(Label.RETRY, *caller, idempotency_key.encode("utf-8", "surrogateescape"))
    return RequestTicket(Digest(key[:_HALF] + labelled(Label.RETRY, body)[:_HALF]), once=True, retry=retry)


@dataclass(slots=True, eq=False)
class _Run:
    """A request that waits for the engine's thread or runs there."""

    ticket: RequestTicket
    future: Future[bytes]
    retry: int
    """Highest retry count of the requests that wait for this run. If several runs are for equal requests, each run serves the
    retries of one client."""


class RequestQueue:
    """The queue of the engine thread. It accepts a limited amount of work, and gives retries the answer of their first
    request."""

    def __init__(
        self,
        remembered: Callable[[bytes], tuple[Digest, bytes] | None],
        queue_limit: int,
        on_bug: Callable[[BaseException], None],
    ) -> None:
        """Makes an empty queue. `remembered` finds a stored answer by the start of its name, and returns the whole name and the
        answer. The queue calls `on_bug` with each `Bug` that ends a run."""
        self._remembered = remembered
        self._limit = queue_limit
        self._on_bug = on_bug
        self._lock = threading.Lock()
        self._runs: list[_Run] = []
        self._owed: OrderedDict[Digest, int] = OrderedDict()
        # One thread: the engine takes one request at a time, and receipt numbers follow the order of signing.
        self._executor = ThreadPoolExecutor(1, "engine")

    def submit(self, asked: RequestTicket, prepare: Callable[[], Callable[[], bytes]]) -> Future[bytes]:
        """Returns the future answer of a request. A retry gets the future of its first request, or the stored answer.

        For any other request this method calls `prepare`, which checks the request and returns the work for the engine thread.
        Errors of `prepare` are passed on. Raises `BadRequest` if the idempotency key belongs to another request, and `Busy` if
        the queue is full. In both cases the request is not queued.
        """
        with self._lock:
            new = self._is_new(asked)
            known = None if new else self._known(asked)
        if known is not None:
            return known
        try:
            return self._begin(asked, new, prepare())
        except Unavailable:
            self._owe(asked)
            raise

    def close(self) -> None:
        """Waits for the running request and cancels the waiting requests."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _begin(self, asked: RequestTicket, new: bool, work: Callable[[], bytes]) -> Future[bytes]:
        with self._lock:
            known = None if new else self._known(asked)
            if known is not None:
                return known
            if len(self._runs) >= self._limit:
                metrics.REQUESTS_REFUSED.labels(reason="queue").inc()
                raise Busy("queue", f"{self._limit} requests are waiting")
            run = _Run(asked, self._executor.submit(work), asked.retry)
            self._runs.append(run)
        run.future.add_done_callback(lambda done: self._finished(run, done))
        return run.future

    def _is_new(self, asked: RequestTicket) -> bool:
        # Called under the lock. A refused request has no answer, so its retry must not take the answer of an equal request.
        if asked.once or asked.retry == 0:
            return not asked.once
        owed = self._owed.pop(asked.name, 0)
        if owed > 1:
            self._owed[asked.name] = owed - 1
        return owed > 0

    def _owe(self, asked: RequestTicket) -> None:
        if asked.once:
            return
        with self._lock:
            self._owed[asked.name] = self._owed.pop(asked.name, 0) + 1
            while len(self._owed) > MOST_OWED:
                self._owed.popitem(last=False)

    def _known(self, asked: RequestTicket) -> Future[bytes] | None:
        # Called under the lock. An answer is stored before its future ends, so it is found in one of the two places.
        run = self._running(asked)
        if run is not None:
            metrics.REQUESTS_JOINED.labels(how="in_flight").inc()
            run.retry = max(run.retry, asked.retry)
            return run.future
        found = self._remembered(asked.start)
        if found is None:
            return None
        asked.verify_name(found[0])
        metrics.REQUESTS_JOINED.labels(how="remembered").inc()
        done: Future[bytes] = Future()
        done.set_result(found[1])
        return done

    def _running(self, asked: RequestTicket) -> _Run | None:
        # A run that has ended is skipped: it failed, or its answer is stored.
        alive = [run for run in reversed(self._runs) if not run.future.done()]
        equal = [run for run in alive if run.ticket.once == asked.once and run.ticket.start == asked.start]
        for run in equal:
            asked.verify_name(run.ticket.name)
        return next((run for run in equal if run.retry < asked.retry), equal[0] if equal else None)

    def _finished(self, run: _Run, done: "Future[bytes]") -> None:
        with self._lock:
            self._runs.remove(run)
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._owe(run.ticket)
        if isinstance(error, Bug):
            self._on_bug(error)
