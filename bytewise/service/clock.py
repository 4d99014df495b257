"""The clocks of a process, for timeouts, records and logs. Protocol time is that of the block (design section 2)."""

import threading
import time
from collections.abc import Callable

from bytewise.ports import Clock


class SystemClock:
    """Wall time. It implements `bytewise.ports.Clock`."""

    def now(self) -> int:
        """Unix seconds."""
        return int(time.time())


BEHIND_S = 60
"""Largest correction of a clock, in seconds, that is not reported."""


class ForwardClock:
    """A clock that never goes back while this process lives, so setting the machine's clock back revives nothing that expired.

    If the machine's clock was once far ahead, this clock therefore stands still until that time is reached, or until the process
    restarts.
    """

    def __init__(self, clock: Clock, on_behind: Callable[[int], object] = lambda _: None) -> None:
        """`on_behind` is called with the seconds by which the other clock went back, once each time, if they
        exceed `BEHIND_S`."""
        self._clock = clock
        self._on_behind = on_behind
        self._latest = 0
        self._behind = False
        self._lock = threading.Lock()

    def now(self) -> int:
        """Unix seconds, never less than an earlier answer."""
        with self._lock:
            given = self._clock.now()
            self._latest = max(self._latest, given)
            was, self._behind = self._behind, self._latest - given > BEHIND_S
            if self._behind and not was:
                self._on_behind(self._latest - given)
            return self._latest


def monotonic_s() -> float:
    """Seconds of a clock that never steps back, for timeouts and durations."""
    return time.monotonic()
