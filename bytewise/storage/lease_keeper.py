"""Holds the lease of a nonce lane from start to end of a process, also while it has nothing to send, however long a tick takes.

A thread renews it. Nobody can take it from a process that runs; one that slept past it (a suspended machine, a stopped process)
may find that another took it, and then must end: every write of it is refused by its old fencing token.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bytewise.protocol.errors import BytewiseError, LaneLost, LaneOwned, Unavailable
from bytewise.service import telemetry
from bytewise.service.clock import monotonic_s
from bytewise.storage.nonce_lease import Lane

RENEWALS_PER_LEASE = 3
"""A process that is slow, or one busy moment of its database, costs no lease."""

_LOOK_S = 0.25
"""Between two looks at a lane that another process holds."""

_GRACE_S = 2.0
"""Beyond a lease: its end is given in whole seconds."""


@contextmanager
def kept_lease(lane: Lane, stop: threading.Event, wait: bool = True) -> Iterator[Lane]:
    """Holds the lane's lease inside the block, and gives it back at its end.

    `LaneOwned` if another process holds it: at once, or where `wait` says so after the time of a lease, in which the one of a
    killed process ends. A lease that was lost sets `stop`, and is `LaneLost` at the end of the block.
    """
    fence = _take(lane, stop, wait)
    keeper = _Keeper(lane, stop)
    keeper.start()
    try:
        yield lane
    finally:
        keeper.end()
        lane.release()
    if keeper.lost:
        raise LaneLost(lane.account, fence)


def _take(lane: Lane, stop: threading.Event, wait: bool) -> int:
    began, told = monotonic_s(), False
    while True:
        try:
            return lane.acquire()
        except LaneOwned as error:
            over = not wait or monotonic_s() - began > lane.ttl_s + _GRACE_S
            if over or stop.wait(_LOOK_S):
                raise
            if not told:
                do = "stop that process; the lease of one that was killed is waited for"
                telemetry.log_error("lane.owned", error, for_s=lane.ttl_s, do=do)
                told = True


class _Keeper(threading.Thread):
    def __init__(self, lane: Lane, stop: threading.Event) -> None:
        super().__init__(name="lease", daemon=True)
        self.lost = False
        self._lane = lane
        self._stop_process = stop
        self._over = threading.Event()

    def run(self) -> None:
        """Renews until told to end; a lease that cannot be ours any more ends the process, whatever the reason."""
        ended = False
        try:
            while not self._over.wait(self._lane.ttl_s / RENEWALS_PER_LEASE):
                self._renew()
            ended = True
        except BytewiseError as error:
            telemetry.log_error("lane.lost", error, do="this process ends: find out which other one runs for its account")
        finally:
            if not ended:
                self.lost = True
                self._stop_process.set()

    def end(self) -> None:
        """Stops renewing; returns when no renewal is under way."""
        self._over.set()
        self.join()

    def _renew(self) -> None:
        try:
            self._lane.renew()
        except Unavailable as error:
            # The database is busy or away; whether somebody took the lease meanwhile is seen at the next renewal.
            telemetry.log_error("lane.not_renewed", error)
