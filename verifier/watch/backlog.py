"""Keys of data that is still to be fetched. Keys with the fewest failures come first, and each failure makes a key wait longer.

So a hundred batches with missing bytes cost little, and none of them delays a batch that was just anchored.
"""

from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")

FIRST_PAUSE_S = 1
"""Seconds of chain time for which a key waits after its first failure. The pause doubles with each further failure."""
LONGEST_PAUSE_S = 64


class _Tries(NamedTuple):
    failures: int
    not_before: int


class Backlog(Generic[K]):
    """Keys in the order in which they were added, each with its number of failures. Times are seconds of chain time."""

    def __init__(self) -> None:
        self._tries: dict[K, _Tries] = {}

    def __len__(self) -> int:
        return len(self._tries)

    def add(self, key: K) -> None:
        """Adds a key. A key that is already there keeps its failures."""
        self._tries.setdefault(key, _Tries(0, 0))

    def drop(self, key: K) -> None:
        """Removes a key if it is there."""
        self._tries.pop(key, None)

    def clear(self) -> None:
        """Removes all keys."""
        self._tries.clear()

    def due(self, now: int) -> list[K]:
        """Returns the keys whose pause is over, those with the fewest failures first."""
        found = [key for key, tries in self._tries.items() if tries.not_before <= now]
        return sorted(found, key=lambda key: self._tries[key].failures)

    def failures(self, key: K) -> int:
        """Returns how often a key has failed, or 0 if the key is unknown."""
        return self._tries[key].failures if key in self._tries else 0

    def failed(self, key: K, now: int) -> None:
        """Counts a failure of a known key and starts its pause."""
        failures = self._tries[key].failures
        pause_s = min(FIRST_PAUSE_S << min(failures, 30), LONGEST_PAUSE_S)
        self._tries[key] = _Tries(failures + 1, now + pause_s)
