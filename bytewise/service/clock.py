"""The only clocks. Protocol time is the block's; these serve timeouts, records and logs (design section 2)."""

import threading
import time

from bytewise.ports import Clock


class SystemClock:
    """Wall time; implements `bytewise.ports.Clock`."""

    def now(self) -> int:
        """Unix seconds."""
        return int(time.time())


class ForwardClock:
    """Another clock that is never seen to go back while this process lives: who sets it back revives nothing that expired."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest = 0
        self._lock = threading.Lock()

    def now(self) -> int:
        """Unix seconds, at least those it gave before."""
        with self._lock:
            self._latest = max(self._latest, self._clock.now())
            return self._latest


def monotonic_s() -> float:
    """Seconds of a clock that never steps back, for timeouts and durations."""
    return time.monotonic()
