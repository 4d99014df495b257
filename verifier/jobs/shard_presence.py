"""Counts the shards of the key epoch that could release a partial now. It asks each shard whether its share is in force.

An enclave that reaches fewer shards than the threshold gets no key, and its seat then loses money. Nothing else shows that before
a job needs the key.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.jobs import EpochRecord, ShardRecord
from bytewise.protocol.keys.epochs import ShardInfo
from bytewise.service import metrics
from bytewise.service.clock import monotonic_s
from bytewise.service.readiness import Check
from kms.shard_client import ShardClient

EVERY_S = 60.0
"""Seconds between two questions to the shards, which limit the rate of unknown callers."""
TIMEOUT_S = 2.0
"""Seconds to wait for the answer of one shard."""
_AT_ONCE = 16

_ADVICE = "Find out whether the network or the shards are down; below the threshold no receipt can be opened."


def is_ready(shard: ShardRecord) -> bool:
    """Returns whether the shard answers that its share is in force."""
    try:
        with ShardClient(shard, TIMEOUT_S) as client:
            return decode(ShardInfo, client.call("GET", "/v1/info", b"")).in_force is True
    except BytewiseError:
        return False


class ShardPresence:
    """The check that enough shards of the newest key epoch are ready. The tick sets the epoch, and `/readyz` reads the check."""

    def __init__(self, ask: Callable[[ShardRecord], bool] = is_ready, monotonic: Callable[[], float] = monotonic_s) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._record: EpochRecord | None = None
        self._last: tuple[float, Check] | None = None

    def note(self, record: EpochRecord) -> None:
        """Sets the active key epoch, whose shards the check asks."""
        with self._lock:
            self._record, self._last = record, None
        metrics.SHARDS_THRESHOLD.set(record.threshold)

    def check(self) -> Check:
        """Returns a check that passes if at least as many shards are ready as the threshold says. The answer is at most `EVERY_S`
        seconds old."""
        with self._lock:
            record, last = self._record, self._last
        if record is None:
            return Check("key_shards", False, "the key epoch was not read yet", "a key epoch", _ADVICE)
        if last is not None and self._monotonic() - last[0] < EVERY_S:
            return last[1]
        with ThreadPoolExecutor(_AT_ONCE, "shards") as pool:
            ready = sum(pool.map(self._ask, record.shards))
        metrics.SHARDS_READY.set(ready)
        value, threshold = f"{ready} of {len(record.shards)} are ready", f"at least {record.threshold}"
        found = Check("key_shards", ready >= record.threshold, value, threshold, _ADVICE)
        with self._lock:
            self._last = (self._monotonic(), found)
        return found
