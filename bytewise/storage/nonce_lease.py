"""The nonce lease: exactly one process sends transactions for an account on a chain.

A lease lasts `ttl_s` seconds and has a fencing token. A process that was paused past the end of its lease may wake up and write.
If another process took the lease meanwhile, the old fencing token is out of date. Then the write raises `LeaseLost`, and the
paused process may not take the lease again.

`hold_lease` renews the lease from the start to the end of a process, however long a tick takes. A process that stops cleanly
releases its lease. The lease of a killed process ends after `ttl_s` seconds, even if a clock was set back since then.

A process that waits for the lease and does not get it ends, so nobody reads its metrics. It therefore writes its name into the
row of the lease, and the process that has the lease counts the refusal.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Row, and_, select, update

from bytewise.ports import Clock
from bytewise.protocol.errors.actors import ConfigurationError, KeyInUse, LeaseLost, LeaseTaken
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.units import Address
from bytewise.service import metrics, telemetry
from bytewise.service.clock import monotonic_s
from bytewise.service.node_files.key_lock import hold_key
from bytewise.storage.engine import insert_if_new, open_database, read_transaction, write_transaction
from bytewise.storage.tables import NonceLeaseRow


class LeaseTerm(NamedTuple):
    """One term of a lease. Each renewal starts a new term."""

    fencing_token: int
    """Fencing token of the process that has the lease."""
    leased_until: int
    """Unix second at which the term ends, by the clock of the process that has the lease."""


DEFAULT_TTL_S = 10
"""Seconds that a lease lasts. The time is much longer than the pauses of a busy machine. It is not longer, because the process
that follows a killed one must wait until the lease ends."""


def _process_name() -> str:
    return f"{socket.gethostname()[:50]}:{os.getpid()}:{os.urandom(4).hex()}"


class NonceLease:
    """Database store of the nonce lease of one account on one chain, as one process uses it."""

    def __init__(
        self, engine: Engine, clock: Clock, chain_id: int, account: Address, owner: str = "", ttl_s: int = DEFAULT_TTL_S
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.chain_id = chain_id
        self.account = account
        self.owner = owner or _process_name()
        self.ttl_s = ttl_s
        self._fence = -1

    def acquire(self, unrenewed: "LeaseTerm | None" = None) -> int:
        """Takes or renews the lease, and returns the fencing token.

        Raises `LeaseTaken` while another process has the lease. `unrenewed` is a term that the caller saw unchanged for longer
        than a lease lasts. If the lease still has this term, this process takes it over. Raises `LeaseLost` if another process
        took our lease: our earlier reads may be out of date, so only a restart helps.
        """
        if self._fence >= 0:
            return self.renew()
        now = self.clock.now()
        with write_transaction(self.engine) as connection:
            self._create(connection)
            row = self._locked(connection)
            assert row is not None, "created above"
            if row.owner and row.leased_until > now and LeaseTerm(row.fencing_token, row.leased_until) != unrenewed:
                raise LeaseTaken(self.account, row.owner)
            fence = int(row.fencing_token) + 1
            self._write(connection, owner=self.owner, fencing_token=fence, leased_until=now + self.ttl_s, refused_owner="")
        self._fence = fence
        return fence

    def renew(self) -> int:
        """Prolongs our lease, and returns its fencing token.

        This also works after the end of the lease, if no other process took it. Counts a process that was refused since the last
        renewal. Raises `LeaseLost` if another process took the lease.
        """
        with write_transaction(self.engine) as connection:
            row = self.require_in(connection)
            self._write(connection, leased_until=self.clock.now() + self.ttl_s, refused_owner="")
        if row.refused_owner:
            metrics.LEASE_CONFLICTS.labels(kind="refused").inc()
            telemetry.log("nonce_lease.contested", process=row.refused_owner, do="find out which of the two should run")
        return int(row.fencing_token)

    def note_refusal(self) -> None:
        """Stores the name of this process, which was refused the lease. The process that has the lease then counts the
        refusal."""
        with write_transaction(self.engine) as connection:
            self._write(connection, refused_owner=self.owner)

    def release(self) -> None:
        """Releases the lease. If it is no longer ours, the database does not change. In any case this object forgets its
        fencing token."""
        with write_transaction(self.engine) as connection:
            row = self._locked(connection)
            if row is not None and (row.owner, row.fencing_token) == (self.owner, self._fence):
                self._write(connection, owner="", leased_until=0)
        self._fence = -1

    def term(self) -> "LeaseTerm | None":
        """Returns the current term of the lease, which each renewal changes. Returns None if the account never had a lease."""
        columns = (NonceLeaseRow.fencing_token, NonceLeaseRow.leased_until)
        with read_transaction(self.engine) as connection:
            row = connection.execute(select(*columns).where(self._own())).one_or_none()
        return None if row is None else LeaseTerm(*row)

    def is_ours(self) -> bool:
        """Returns whether this process has the lease now. It only reads."""
        columns = (NonceLeaseRow.owner, NonceLeaseRow.fencing_token, NonceLeaseRow.leased_until)
        with read_transaction(self.engine) as connection:
            row = connection.execute(select(*columns).where(self._own())).one_or_none()
        if row is None or (row.owner, row.fencing_token) != (self.owner, self._fence):
            return False
        return bool(row.leased_until > self.clock.now())

    def require_in(self, connection: Connection) -> Row[Any]:
        """Locks the row of the lease and returns it. Raises `LeaseLost` unless the row has our name and our fencing token."""
        row = self._locked(connection)
        if row is None or (row.owner, row.fencing_token) != (self.owner, self._fence):
            raise LeaseLost(self.account, self._fence)
        return row

    def next_nonce(self, chain_nonce: int) -> int:
        """Returns the nonce that the next signature would use.

        `chain_nonce` is the account's number of transactions on the chain.
        """
        with read_transaction(self.engine) as connection:
            stored = connection.execute(select(NonceLeaseRow.next_nonce).where(self._own())).scalar_one_or_none()
        return max(stored or 0, chain_nonce)

    def take_nonce_in(self, connection: Connection, chain_nonce: int) -> int:
        """Takes the next nonce and returns it, inside the transaction that stores the signed bytes.

        Raises `LeaseLost` if this process does not have the lease.
        """
        nonce = max(int(self.require_in(connection).next_nonce), chain_nonce)
        self._write(connection, next_nonce=nonce + 1)
        return nonce

    def stop(self, reason: str) -> None:
        """Stops sending for this account until a person resumes it, because another program may have the account's key."""
        with write_transaction(self.engine) as connection:
            self._create(connection)
            self._write(connection, stop_reason=reason[:80])

    def resume(self) -> None:
        """Allows sending again after a stop."""
        with write_transaction(self.engine) as connection:
            self._write(connection, stop_reason="")

    def stop_reason(self) -> str:
        """Returns the reason why sending is stopped, or an empty text if it is not stopped."""
        with read_transaction(self.engine) as connection:
            return connection.execute(select(NonceLeaseRow.stop_reason).where(self._own())).scalar_one_or_none() or ""

    def verify_owner(self) -> None:
        """Raises `ConfigurationError` if the database belongs to another account, or to this account on another chain.

        Otherwise this process would treat the records of the other account as its own.
        """
        with read_transaction(self.engine) as connection:
            rows = connection.execute(select(NonceLeaseRow.chain_id, NonceLeaseRow.account)).all()
        others = [f"{row.account} on chain {row.chain_id}" for row in rows if (row.chain_id, row.account) != self._name()]
        if others:
            us = f"{self.account} on chain {self.chain_id}"
            raise ConfigurationError("database", f"is that of {others[0]}, not of {us}: name its own database, or its key")

    def _name(self) -> tuple[str, str]:
        return str(self.chain_id), self.account

    def leased_until(self) -> int:
        """Returns the Unix second at which the current lease ends. Returns 0 if there never was a lease, or if it was
        released."""
        with read_transaction(self.engine) as connection:
            return connection.execute(select(NonceLeaseRow.leased_until).where(self._own())).scalar_one_or_none() or 0

    def _create(self, connection: Connection) -> None:
        insert_if_new(
            connection, NonceLeaseRow, chain_id=str(self.chain_id), account=self.account, next_nonce=0, owner="", fencing_token=0,
            leased_until=0, refused_owner="", stop_reason="",
        )  # fmt: skip

    def _own(self) -> Any:
        return and_(NonceLeaseRow.chain_id == str(self.chain_id), NonceLeaseRow.account == self.account)

    def _locked(self, connection: Connection) -> Row[Any] | None:
        found = connection.execute(select(*NonceLeaseRow.__table__.columns).where(self._own()).with_for_update())
        return found.one_or_none()

    def _write(self, connection: Connection, **values: Any) -> None:
        connection.execute(update(NonceLeaseRow).where(self._own()).values(**values))


RENEWALS_PER_LEASE = 3
"""Number of renewals in the time of one lease. There are several, so that a slow process or a busy database does not lose the
lease."""

_POLL_S = 0.25
"""Seconds between two attempts to take a lease that another process has."""

_GRACE_S = 2.0
"""Seconds to wait after the end of a lease, because the end is stored in whole seconds."""


@contextmanager
def hold_lease(lease: NonceLease, stop: threading.Event, wait: bool = True) -> Iterator[NonceLease]:
    """Context manager that takes the lease, renews it inside the block, and releases it at the end of the block.

    Raises `ConfigurationError` if the database belongs to another account. Raises `LeaseTaken` if another process has the lease.
    With `wait`, first tries again for the duration of one lease, because the lease of a killed process ends in that time. If this
    process loses the lease inside the block, `stop` is set and the block ends with `LeaseLost`.
    """
    lease.verify_owner()
    fence = _take(lease, stop, wait)
    renewer = _Renewer(lease, stop)
    renewer.start()
    try:
        yield lease
    finally:
        renewer.end()
        lease.release()
    if renewer.lost:
        raise LeaseLost(lease.account, fence)


def _take(lease: NonceLease, stop: threading.Event, wait: bool) -> int:
    """Takes the lease and returns the fencing token.

    If a clock was set back, the lease of a killed process seems to last for a long time. Therefore this function treats a lease
    as over if its owner did not renew it during the whole wait. The monotonic clock measures the wait, so no change of the wall
    clock affects it.
    """
    began, is_logged, first = monotonic_s(), False, lease.term()
    while True:
        is_over = monotonic_s() - began > lease.ttl_s + _GRACE_S
        try:
            return lease.acquire(first if is_over else None)
        except LeaseTaken as error:
            if is_over:
                _leave_note(lease)
            if is_over or not wait or stop.wait(_POLL_S):
                raise
            if not is_logged:
                do = "stop that process; if it was killed, its lease ends by itself"
                telemetry.log_error("nonce_lease.refused", error, for_s=lease.ttl_s, do=do)
                is_logged = True


class _Renewer(threading.Thread):
    def __init__(self, lease: NonceLease, stop: threading.Event) -> None:
        super().__init__(name="lease", daemon=True)
        self.lost = False
        self._lease = lease
        self._stop_process = stop
        self._over = threading.Event()
        self._failed = ""

    def run(self) -> None:
        """Renews the lease until `end` is called. Stops the process as soon as another process may have the lease."""
        ended = False
        try:
            while not self._over.wait(self._lease.ttl_s / RENEWALS_PER_LEASE):
                self._renew()
            ended = True
        except BytewiseError as error:
            metrics.LEASE_CONFLICTS.labels(kind="lost").inc()
            telemetry.log_error("nonce_lease.lost", error, do="this process ends: find out which other one runs for its account")
            _leave_note(self._lease)
        finally:
            if not ended:
                self.lost = True
                self._stop_process.set()

    def end(self) -> None:
        """Stops renewing, and waits until a renewal in progress is over."""
        self._over.set()
        self.join()

    def _renew(self) -> None:
        try:
            self._lease.renew()
            self._failed = ""
        except Unavailable as error:
            # The database is busy, full or unreachable. The next renewal shows whether another process took the lease meanwhile.
            # Each reason is logged once, because a disk may be full for hours.
            if self._failed != str(error):
                self._failed = str(error)
                telemetry.log_error("nonce_lease.renewal_failed", error)


def _leave_note(lease: NonceLease) -> None:
    with suppress(BytewiseError):  # the refusal itself matters more
        lease.note_refusal()


@contextmanager
def hold_account_key(key_file: Path, database_url: str) -> Iterator[None]:
    """Context manager that holds the lock of an account's key file inside the block (`hold_key`).

    Raises `KeyInUse` if another process has the lock. Before that, stores the name of this process in the account's lease, where
    the other process finds it and counts the refusal.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_key(key_file))
        except KeyInUse:
            with suppress(BytewiseError), write_transaction(open_database(database_url)) as connection:
                connection.execute(update(NonceLeaseRow).values(refused_owner=_process_name()))
            raise
        yield
