"""Reads of a DA store that may be away: a verb waits for it a few seconds in all, however many blobs it asks for."""

import queue
import threading
from collections.abc import Callable

from bytewise.protocol.errors import TryAgain, Unavailable
from bytewise.service.clock import monotonic_s

PATIENCE_S = 5.0
"""Longest wait of a verb for reads that brought nothing, all of them together."""


class BoundedStore:
    """The read side of a store; reads that succeed cost nothing of the patience. For one thread."""

    def __init__(self, get: Callable[[str], bytes], patience_s: float = PATIENCE_S) -> None:
        self._get, self._patience_s, self._left_s = get, patience_s, patience_s

    def get(self, locator: str) -> bytes:
        """The bytes of a locator, or its errors; `TryAgain` without asking once the patience is spent."""
        if self._left_s <= 0:
            raise TryAgain("DA", f"brought nothing in {self._patience_s:.0f} s")
        answer: queue.Queue[bytes | Exception] = queue.Queue()
        began = monotonic_s()
        # In a thread of its own, which does not keep the process: no timeout of the client bounds names, trickles and retries.
        threading.Thread(target=self._ask, args=(locator, answer), daemon=True).start()
        try:
            found = answer.get(timeout=self._left_s)
        except queue.Empty:
            self._left_s = 0
            raise TryAgain("DA", f"brought nothing in {self._patience_s:.0f} s") from None
        if isinstance(found, bytes):
            return found
        if isinstance(found, Unavailable):
            self._left_s -= monotonic_s() - began
        raise found

    def _ask(self, locator: str, answer: "queue.Queue[bytes | Exception]") -> None:
        try:
            answer.put(self._get(locator))
        except Exception as error:  # noqa: BLE001  (raised again by the reader)
            answer.put(error)
