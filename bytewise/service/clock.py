"""The clocks of a process, for timeouts, records and logs.

Protocol time does not come from them, but from the block (design section 2).
"""

import threading
import time
from collections.abc import Callable

from bytewise.ports import Clock


class SystemClock:
    """The wall clock of this machine. It implements `bytewise.ports.Clock`."""

    def now(self) -> int:
        """Returns the current time in Unix seconds."""
        return int(time.time())


BEHIND_S = 60
"""Most seconds by which a clock may go back without a report. A larger step back is reported."""


class ForwardClock:
    """A clock that never goes back while this process lives.

    If the machine's clock is set back, this clock stands still until the machine's clock has caught up, or until the process
    restarts. So nothing that expired becomes valid again.
    """

    def __init__(self, clock: Clock, on_behind: Callable[[int], object] = lambda _: None) -> None:
        """Creates the clock on top of `clock`.

        If that clock goes back by more than `BEHIND_S` seconds, `on_behind` is called once with the number of seconds.
        """
        self._clock = clock
        self._on_behind = on_behind
        self._latest = 0
        self._behind = False
        self._lock = threading.Lock()

    def now(self) -> int:
        """Returns the time in Unix seconds. It is never less than an earlier result."""
        with self._lock:
            given = self._clock.now()
            self._latest = max(self._latest, given)
            was, self._behind = self._behind, self._latest - given > BEHIND_S
            if self._behind and not was:
                self._on_behind(self._latest - given)
            return self._latest


def monotonic_s() -> float:
    """Returns seconds of a clock that never steps back, for timeouts and durations."""
    return time.monotonic()
