"""Refusals of a shard over HTTPS and attested channels. They contain only the error's class and rule.

The module also limits how many refusals a shard records in its release log.
"""

import threading
from collections import Counter

from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.keys.epochs import ShardRefusal
from bytewise.protocol.units import Address
from bytewise.service import metrics, telemetry

REFUSALS_A_DAY = 50
"""Most refusals of one verifier that a shard records in one day of the chain. Further refusals appear only in the log of its
process."""

_DAY_S = 86_400


def refusal(error: BytewiseError) -> ShardRefusal:
    """Returns the refusal for an error, and logs and counts the error."""
    telemetry.log_error("request.refused", error)
    metrics.KMS_REFUSALS.labels(rule=error.rule).inc()
    return ShardRefusal(type(error).__name__, error.rule, isinstance(error, Unavailable))


class RefusalQuota:
    """A count of recorded refusals by verifier and day. It is thread-safe, and a restart begins at zero."""

    def __init__(self) -> None:
        self._day = 0
        self._taken: Counter[Address] = Counter()
        self._lock = threading.Lock()

    def take(self, voter: Address, now: int) -> bool:
        """Returns whether one more refusal of this verifier may be recorded on the day of Unix second `now`, and counts the
        refusal if so."""
        with self._lock:
            if now // _DAY_S != self._day:
                self._day, self._taken = now // _DAY_S, Counter()
            free = self._taken[voter] < REFUSALS_A_DAY
            self._taken[voter] += free
            return free
