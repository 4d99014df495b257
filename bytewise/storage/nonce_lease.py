"""A nonce lane: exactly one process writes for a (chain, account), by a lease with a fencing token.

A process that was paused past its lease may wake up and write: its fence is then no longer the lane's, and the write is refused
with `LaneLost`; nor does it take the lane a second time. A process that stopped cleanly releases the lane; one that was killed
holds it for `ttl_s` at most. `lease_keeper` holds it for as long as a process lives.
"""

import os
import socket
from typing import Any

from sqlalchemy import Connection, Engine, Row, and_, select, update

from bytewise.ports import Clock
from bytewise.protocol.errors import LaneLost, LaneOwned
from bytewise.protocol.units import Address
from bytewise.storage.engine import insert_if_absent, reading, writing
from bytewise.storage.tables_core import LaneRow

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

        `LaneOwned` while another process holds it, `LaneLost` if we held it and another took it since: what we read before that
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
                raise LaneOwned(self.account, row.owner)
            fence = int(row.fence) + 1
            self._write(connection, owner=self.owner, fence=fence, leased_until=now + self.ttl_s)
        self._fence = fence
        return fence

    def renew(self) -> int:
        """Prolongs our lease, also one that ended if nobody took it; returns its fencing token. `LaneLost` if it is another's."""
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
        """The locked lane row, if our fencing token is still the lane's; otherwise `LaneLost`."""
        row = self._locked(connection)
        if row is None or (row.owner, row.fence) != (self.owner, self._fence):
            raise LaneLost(self.account, self._fence)
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
