"""Records whether the enclaves of one group accept jobs. A group is an enclave of this node, or all enclaves of a cluster.

While a group accepts no job, it is asked less often. The log says once that it went away and once that it returned.
"""

import threading
from collections.abc import Callable

from prometheus_client import Gauge

from bytewise.protocol.errors.actors import TryAgain
from bytewise.service import metrics, telemetry
from bytewise.service.clock import monotonic_s

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 5.0
"""First and longest pause, in seconds of wall time, before an absent enclave is asked again. The pause doubles each time. It
stays short compared with a commit phase."""


class EnclaveAway(TryAgain):
    """Raised when an enclave accepted no job, so that no attempt was made."""


class EnclaveUnsuited(EnclaveAway):
    """Raised when an enclave answers, but cannot run this job."""


class EnclavePresence:
    """The record of whether one group's enclaves accepted the last job. The job threads write the record, and the tick reads
    it."""

    def __init__(
        self, monotonic: Callable[[], float] = monotonic_s, group: str = "own 1", up: Gauge = metrics.ENCLAVE_UP
    ) -> None:
        """`group` names the enclaves in the log. `up` is the metric that shows whether they are there."""
        self._monotonic = monotonic
        self._group = group
        self._up = up
        self._lock = threading.Lock()
        self._pause_s = 0.0
        self._lost_at = 0.0
        self._not_before = 0.0

    @property
    def down(self) -> bool:
        """True if the last job found no enclave."""
        with self._lock:
            return self._pause_s > 0

    @property
    def away_s(self) -> float:
        """Seconds since the enclave went away, or 0 while it is there."""
        with self._lock:
            return self._monotonic() - self._lost_at if self._pause_s > 0 else 0.0

    @property
    def pausing(self) -> bool:
        """True while it is too early to ask the enclave again."""
        with self._lock:
            return self._pause_s > 0 and self._monotonic() < self._not_before

    def lost(self, error: EnclaveAway) -> None:
        """Notes that the enclave accepted no job. Each pause before the next question is longer than the one before."""
        with self._lock:
            now, first = self._monotonic(), self._pause_s == 0
            if first:
                self._lost_at = now
            self._pause_s = FIRST_PAUSE_S if first else min(2 * self._pause_s, LONGEST_PAUSE_S)
            self._not_before = now + self._pause_s
        self._up.set(0)
        if first:
            telemetry.log_error("enclave.lost", error, group=self._group)

    def found(self) -> None:
        """Notes that the enclave accepted a job."""
        with self._lock:
            back, away_s = self._pause_s > 0, self._monotonic() - self._lost_at
            self._pause_s = 0.0
        self._up.set(1)
        if back:
            telemetry.log("enclave.returned", group=self._group, away_s=round(away_s))
