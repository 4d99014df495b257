"""Records whether the loops of a process run.

Each loop first names the longest time between two passes, and then reports every pass. `/livez` shows the result.
"""

import asyncio
import threading
from collections.abc import Awaitable
from typing import NamedTuple

from bytewise.service.clock import monotonic_s


class LoopState(NamedTuple):
    """State of a loop at one moment."""

    alive: bool
    """Whether the time since the last pass is within the limit."""
    last_s: float
    """Seconds since the last pass of the loop, or since it was announced."""
    limit_s: float
    """Longest time between two passes, in seconds."""


class Liveness:
    """The loops of one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limits: dict[str, float] = {}
        self._passes: dict[str, float] = {}

    def expect(self, loop: str, limit_s: float) -> None:
        """Announces a loop that passes at least every `limit_s` seconds from now on."""
        with self._lock:
            self._limits[loop] = limit_s
            self._passes[loop] = monotonic_s()

    def beat(self, loop: str) -> None:
        """Reports a pass of a loop."""
        with self._lock:
            self._passes[loop] = monotonic_s()

    def forget(self, loop: str) -> None:
        """Removes a loop that has ended as planned."""
        with self._lock:
            self._limits.pop(loop, None)
            self._passes.pop(loop, None)

    def loops(self) -> dict[str, LoopState]:
        """Returns the state of every announced loop, by name."""
        with self._lock:
            now = monotonic_s()
            ages = {loop: (now - self._passes[loop], limit) for loop, limit in sorted(self._limits.items())}
        return {loop: LoopState(age <= limit, age, limit) for loop, (age, limit) in ages.items()}


_PROCESS = Liveness()
expect = _PROCESS.expect
beat = _PROCESS.beat
forget = _PROCESS.forget
loops = _PROCESS.loops

HTTP_BEAT_S = 1
"""Seconds between two passes of an event loop that serves HTTP."""
HTTP_ALIVE_S = 30.0
"""Seconds without a pass after which such a loop counts as not alive, because a request blocks it."""


def beat_http() -> Awaitable[None]:
    """Reports a pass of the event loop `http`. uvicorn calls it (`callback_notify`, `timeout_notify`) and awaits the result."""
    expect("http", HTTP_ALIVE_S)
    return asyncio.sleep(0)
