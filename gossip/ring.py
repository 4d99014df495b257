"""A bounded store in memory of the newest messages, from which the duty process takes messages by number. A restart loses all of
them. Each answer says how many messages the reader missed."""

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

MAX_MESSAGES = 10_000
MAX_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Received:
    """A message of a peer that passed the checks of `gossip.admission`."""

    number: int
    """Number of the message in the order of arrival: 1, 2, …"""
    topic: str
    account: str
    """Account of the message's origin."""
    body: dict[str, Any]
    size: int
    """Size of the message in bytes."""


@dataclass(frozen=True, slots=True)
class RingPage:
    """The answer to a reader that asks for the messages after some number."""

    messages: tuple[Received, ...]
    lost: int
    """How many messages after that number were dropped before the reader asked."""
    last: int
    """Number to ask with the next time: the number of the last message that the reader has got or missed."""


class Ring:
    """The store of the newest messages, bounded by their number and their size. Thread-safe."""

    def __init__(self, messages: int = MAX_MESSAGES, size: int = MAX_BYTES) -> None:
        self._kept: deque[Received] = deque()
        self._limits = messages, size
        self._bytes = 0
        self._last = 0
        self._lock = threading.Lock()

    def put(self, topic: str, account: str, body: dict[str, Any], size: int) -> int:
        """Adds a message of `size` bytes and returns its number. Drops the oldest messages if the store then has too many
        messages or too many bytes."""
        with self._lock:
            self._last += 1
            self._kept.append(Received(self._last, topic, account, body, size))
            self._bytes += size
            while len(self._kept) > self._limits[0] or self._bytes > self._limits[1]:
                self._bytes -= self._kept.popleft().size
            return self._last

    def take(self, after: int, most: int) -> RingPage:
        """Returns at most `most` messages with numbers greater than `after`. If no message had a number as great as `after` yet,
        the process has restarted since the reader's last call, and the reader gets the messages from the beginning."""
        with self._lock:
            start = after if 0 <= after <= self._last else 0
            found = [each for each in self._kept if each.number > start][: max(0, most)]
            first = self._kept[0].number if self._kept else self._last + 1
            return RingPage(tuple(found), max(0, first - start - 1), found[-1].number if found else max(start, first - 1))
