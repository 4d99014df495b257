"""The block from which a process last decided: its metrics, and checks of the block's age and of the machine's clock."""

import threading

from bytewise.ports import Clock
from bytewise.protocol.evidence.appraisal_policy import TEST_CHAIN_IDS
from bytewise.service import metrics
from bytewise.service.readiness import Check, ReadinessRegistry

MAX_AGE_S = 120
"""Largest age in seconds of the block from which a process decides. If it is older, the process is not ready. It is ten slots of
Ethereum."""

MAX_AHEAD_S = 15
"""Most seconds by which a block may be dated after this machine's clock: one slot, and some for an honest difference of
clocks."""

_ADVICE = "Look at the chain node: is it up, is it synchronised, and is this machine's clock right?"


class ChainHead:
    """The block from which the process last decided. The loop that reads the chain calls `note`. Thread-safe."""

    def __init__(self, clock: Clock, max_age_s: int = MAX_AGE_S, chain_id: int = 0) -> None:
        """Creates the object.

        If `chain_id` is a test chain, its blocks may be dated in the future, because such a chain dates them as its user says.
        """
        self._is_test_chain = chain_id in TEST_CHAIN_IDS
        self._clock = clock
        self._max_age_s = max_age_s
        self._lock = threading.Lock()
        self._timestamp: int | None = None

    def note(self, number: int, timestamp: int) -> None:
        """Records the number and the timestamp (Unix seconds) of the block from which the process now decides."""
        metrics.HEAD_BLOCK.set(number)
        metrics.HEAD_TIMESTAMP.set(timestamp)
        if not self._is_test_chain:
            metrics.CLOCK_OFFSET.labels(source="chain").set(timestamp - self._clock.now())
        with self._lock:
            self._timestamp = timestamp

    def add_checks(self, readiness: ReadinessRegistry) -> None:
        """Adds the readiness checks `head_age` and `clock`."""
        readiness.add("head_age", self.check)
        readiness.add("clock", self.clock_check)

    def age_s(self) -> int | None:
        """Returns the age of the block in seconds by this machine's clock. It is negative if the block is dated in the future.

        Returns None before the first block.
        """
        with self._lock:
            return None if self._timestamp is None else self._clock.now() - self._timestamp

    def clock_check(self) -> Check:
        """Returns a check that fails if no block was read, or if the block is dated too far after this machine's clock.

        A clock that is ahead of the chain is not found here, but by the check `head_age`.
        """
        age, threshold = self.age_s(), f"at most {MAX_AHEAD_S} s behind the newest block"
        value = "no block was read yet" if age is None else f"{max(-age, 0)} s behind"
        is_right = age is not None and (age >= -MAX_AHEAD_S or self._is_test_chain)
        return Check("clock", is_right, value, threshold, "Start NTP on this machine.")

    def check(self) -> Check:
        """Returns a check that fails if no block was read, or if the block is too old to decide from."""
        age, threshold = self.age_s(), f"at most {self._max_age_s} s"
        if age is None:
            return Check("head_age", False, "no block was read yet", threshold, _ADVICE)
        return Check("head_age", age <= self._max_age_s, f"{age} s", threshold, _ADVICE)
