"""The newest messages, which the duty process takes by number. A restart loses them, and a reader is told how many it missed."""

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

MAX_MESSAGES = 10_000
MAX_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Received:
    """A message that was admitted."""

    number: int
    """1, 2, … in the order of arrival."""
    topic: str
    account: str
    """Account of its origin."""
    body: dict[str, Any]
    size: int
    """Bytes of the message."""


@dataclass(frozen=True, slots=True)
class RingPage:
    """Messages after some number."""

    messages: tuple[Received, ...]
    lost: int
    """Messages between that number and the first of these that are gone."""
    last: int
    """Number after which to ask the next time."""


class Ring:
    """A bounded list of messages. Thread-safe."""

    def __init__(self, messages: int = MAX_MESSAGES, size: int = MAX_BYTES) -> None:
        self._kept: deque[Received] = deque()
        self._limits = messages, size
        self._bytes = 0
        self._last = 0
        self._lock = threading.Lock()

    def put(self, topic: str, account: str, body: dict[str, Any], size: int) -> int:
        """Adds a message and returns its number. The oldest ones go if there are too many, or too many bytes."""
        with self._lock:
            self._last += 1
            self._kept.append(Received(self._last, topic, account, body, size))
            self._bytes += size
            while len(self._kept) > self._limits[0] or self._bytes > self._limits[1]:
                self._bytes -= self._kept.popleft().size
            return self._last

    def take(self, after: int, most: int) -> RingPage:
        """At most `most` messages with a greater number than `after`. A reader that is ahead of this ring starts at its begin."""
        with self._lock:
            start = after if 0 <= after <= self._last else 0
            found = [each for each in self._kept if each.number > start][: max(0, most)]
            first = self._kept[0].number if self._kept else self._last + 1
            return RingPage(tuple(found), max(0, first - start - 1), found[-1].number if found else max(start, first - 1))
