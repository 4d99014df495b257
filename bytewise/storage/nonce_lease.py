"""A nonce lane: exactly one process writes for a (chain, account), by a lease with a fencing token.

A process that was paused past its lease may wake up and write: its fence is then no longer the lane's, and the write is refused
with `LeaseLost`; nor does it take the lane a second time. A process that stopped cleanly releases the lane; one that was killed
holds it for `ttl_s` at most. `lease_keeper` holds it for as long as a process lives.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Row, and_, select, update

from bytewise.ports import Clock
from bytewise.protocol.errors.actors import LeaseLost, LeaseTaken
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.units import Address
from bytewise.service import telemetry
from bytewise.service.clock import monotonic_s
from bytewise.storage.engine import insert_if_absent, reading, writing
from bytewise.storage.tables import LaneRow

DEFAULT_TTL_S = 10
"""Seconds. Far above the pauses of a busy machine; short, because a killed process's successor waits for it."""


class Lane:
    """The lane of one account on one chain, as seen by one process."""

    def __init__(
        self, engine: Engine, clock: Clock, chain_id: int, account: Address, owner: str = "", ttl_s: int = DEFAULT_TTL_S
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.chain_id = chain_id
        self.account = account
        self.owner = owner or f"{socket.gethostname()[:50]}:{os.getpid()}:{os.urandom(4).hex()}"
        self.ttl_s = ttl_s
        self._fence = -1

    def acquire(self) -> int:
        """Takes or renews the lease; returns the fencing token.

        `LeaseTaken` while another process holds it, `LeaseLost` if we held it and another took it since: what we read before that
        may be out of date, so nothing but a new start makes up for it.
        """
        if self._fence >= 0:
            return self.renew()
        now = self.clock.now()
        with writing(self.engine) as connection:
            self._create(connection)
            row = self._locked(connection)
            assert row is not None, "created above"
            if row.owner and row.leased_until > now:
                raise LeaseTaken(self.account, row.owner)
            fence = int(row.fence) + 1
            self._write(connection, owner=self.owner, fence=fence, leased_until=now + self.ttl_s)
        self._fence = fence
        return fence

    def renew(self) -> int:
        """Prolongs our lease, also one that ended if nobody took it; returns its fencing token. `LeaseLost` if it is
        another's."""
        with writing(self.engine) as connection:
            fence = int(self.held_in(connection).fence)
            self._write(connection, leased_until=self.clock.now() + self.ttl_s)
        return fence

    def release(self) -> None:
        """Gives the lease back; no effect if it is not ours any more."""
        with writing(self.engine) as connection:
            row = self._locked(connection)
            if row is not None and (row.owner, row.fence) == (self.owner, self._fence):
                self._write(connection, owner="", leased_until=0)
        self._fence = -1

    def held_in(self, connection: Connection) -> Row[Any]:
        """The locked lane row, if our fencing token is still the lane's; otherwise `LeaseLost`."""
        row = self._locked(connection)
        if row is None or (row.owner, row.fence) != (self.owner, self._fence):
            raise LeaseLost(self.account, self._fence)
        return row

    def next_nonce(self, chain_nonce: int) -> int:
        """The nonce that the next signature would use; `chain_nonce` is the account's count on-chain."""
        with reading(self.engine) as connection:
            stored = connection.execute(select(LaneRow.next_nonce).where(self._own())).scalar_one_or_none()
        return max(stored or 0, chain_nonce)

    def take_nonce_in(self, connection: Connection, chain_nonce: int) -> int:
        """Allocates a nonce inside the transaction that stores the signed bytes."""
        nonce = max(int(self.held_in(connection).next_nonce), chain_nonce)
        self._write(connection, next_nonce=nonce + 1)
        return nonce

    def stop(self, reason: str) -> None:
        """Stops the lane until a person resumes it: a stranger holds our key, or something as bad."""
        with writing(self.engine) as connection:
            self._create(connection)
            self._write(connection, stopped=reason[:80])

    def resume(self) -> None:
        """Ends a stop."""
        with writing(self.engine) as connection:
            self._write(connection, stopped="")

    def stopped(self) -> str:
        """Why the lane is stopped; empty if it is not."""
        with reading(self.engine) as connection:
            return connection.execute(select(LaneRow.stopped).where(self._own())).scalar_one_or_none() or ""

    def _create(self, connection: Connection) -> None:
        insert_if_absent(
            connection, LaneRow, chain_id=str(self.chain_id), account=self.account, next_nonce=0, owner="", fence=0,
            leased_until=0, stopped="",
        )  # fmt: skip

    def _own(self) -> Any:
        return and_(LaneRow.chain_id == str(self.chain_id), LaneRow.account == self.account)

    def _locked(self, connection: Connection) -> Row[Any] | None:
        found = connection.execute(select(*LaneRow.__table__.columns).where(self._own()).with_for_update())
        return found.one_or_none()

    def _write(self, connection: Connection, **values: Any) -> None:
        connection.execute(update(LaneRow).where(self._own()).values(**values))


# Holds the lease of a nonce lane from start to end of a process, also while it has nothing to send, however long a tick takes.

RENEWALS_PER_LEASE = 3
"""A process that is slow, or one busy moment of its database, costs no lease."""

_LOOK_S = 0.25
"""Between two looks at a lane that another process holds."""

_GRACE_S = 2.0
"""Beyond a lease: its end is given in whole seconds."""


@contextmanager
def kept_lease(lane: Lane, stop: threading.Event, wait: bool = True) -> Iterator[Lane]:
    """Holds the lane's lease inside the block, and gives it back at its end.

    `LeaseTaken` if another process holds it: at once, or where `wait` says so after the time of a lease, in which the one of a
    killed process ends. A lease that was lost sets `stop`, and is `LeaseLost` at the end of the block.
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
        raise LeaseLost(lane.account, fence)


def _take(lane: Lane, stop: threading.Event, wait: bool) -> int:
    began, told = monotonic_s(), False
    while True:
        try:
            return lane.acquire()
        except LeaseTaken as error:
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
