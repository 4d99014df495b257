"""The block from which a process last decided: its metrics, and the readiness check of its age."""

import threading

from bytewise.ports import Clock
from bytewise.service import metrics
from bytewise.service.readiness import Check

MAX_AGE_S = 120
"""Age of the head in seconds above which a process is not ready: ten slots of Ethereum."""

_ADVICE = "Look at the chain node: is it up, is it synchronised, and is this machine's clock right?"


class ChainHead:
    """Kept by the loop that reads the chain. Thread-safe."""

    def __init__(self, clock: Clock, max_age_s: int = MAX_AGE_S) -> None:
        self._clock = clock
        self._max_age_s = max_age_s
        self._lock = threading.Lock()
        self._timestamp: int | None = None

    def note(self, number: int, timestamp: int) -> None:
        """The process decides from this block; `timestamp` in Unix seconds."""
        metrics.HEAD_BLOCK.set(number)
        metrics.HEAD_TIMESTAMP.set(timestamp)
        with self._lock:
            self._timestamp = timestamp

    def check(self) -> Check:
        """Whether the block is young enough to decide from."""
        with self._lock:
            timestamp = self._timestamp
        threshold = f"at most {self._max_age_s} s"
        if timestamp is None:
            return Check("head_age", False, "no block was read yet", threshold, _ADVICE)
        age = self._clock.now() - timestamp
        return Check("head_age", age <= self._max_age_s, f"{age} s", threshold, _ADVICE)
