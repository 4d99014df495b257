"""The only clocks. Protocol time is the block's; these serve timeouts, records and logs (design section 2)."""

import threading
import time
from collections.abc import Callable

from bytewise.ports import Clock


class SystemClock:
    """Wall time; implements `bytewise.ports.Clock`."""

    def now(self) -> int:
        """Unix seconds."""
        return int(time.time())


BEHIND_S = 60
"""What a clock is corrected by in passing is less; more is told."""


class ForwardClock:
    """Another clock that is never seen to go back while this process lives: who sets it back revives nothing that expired.

    A clock that was once far ahead therefore stays where it was until the process starts again, or the time has come.
    """

    def __init__(self, clock: Clock, on_behind: Callable[[int], object] = lambda _: None) -> None:
        """`on_behind`: told the seconds by which the other clock went back, once each time, if they are more than `BEHIND_S`."""
        self._clock = clock
        self._on_behind = on_behind
        self._latest = 0
        self._behind = False
        self._lock = threading.Lock()

    def now(self) -> int:
        """Unix seconds, at least those it gave before."""
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
