"""Limits for untrusted peers of a service: slots in total and for each address, and time for one exchange."""

import threading
from collections import Counter

from bytewise.service.clock import monotonic_s


class AddressSlots:
    """Counts slots, such as connections, that peers use at one time. It limits their number in total and for each address.
    Thread-safe."""

    def __init__(self, most: int, per_address: int) -> None:
        self._most = most
        self._per_address = per_address
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, address: str) -> bool:
        """Takes a slot for a peer at this address until `leave` is called.

        Returns False if no slot is free, in total or for the address.
        """
        with self._lock:
            free = self._taken.total() < self._most and self._taken[address] < self._per_address
            if free:
                self._taken[address] += 1
            return free

    def leave(self, address: str) -> None:
        """Frees a slot of this address. An address without a slot uses no memory."""
        with self._lock:
            self._taken[address] -= 1
            if self._taken[address] <= 0:
                del self._taken[address]

    @property
    def in_use(self) -> int:
        """Number of slots that are in use by all addresses."""
        with self._lock:
            return self._taken.total()


def seconds_left(until: float) -> float:
    """Returns the seconds that are left until a time of `monotonic_s`. Raises `TimeoutError` once that time has passed.

    Set the result as the timeout before each read and write of an exchange. Then a peer that sends single bytes gets no extra
    time.
    """
    left = until - monotonic_s()
    if left <= 0:
        raise TimeoutError("out of time")
    return left
