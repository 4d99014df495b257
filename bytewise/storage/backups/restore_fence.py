"""Limits what an account may sign after its database was restored from a backup.

After the backup was made, the account may have signed votes and transactions that the restored database lacks. `bytewise backup
restore` therefore marks the database. The first block that is not older than the restore sets the fence: the account makes no new
vote in a round whose commit phase began up to then, because the lost database may have a vote for that round. The account still
reveals votes that are in the restored protection table. A nonce that was used before the first start after the restore counts as
the account's own, although the outbox does not know the transaction (ADR-019).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy import Engine, delete, insert, select, update

from bytewise.service import telemetry
from bytewise.storage.engine import read_transaction, write_transaction
from bytewise.storage.tables import RestoredRow

_ROW = 1


class Restored(NamedTuple):
    """The last restore of a database: its times, and the first protocol clock and nonce that the node read after the restore."""

    backup_at: int
    """Unix second at which the backup was made."""
    restored_at: int
    """Unix second at which the database was restored."""
    clock: int | None
    """Protocol clock of the first block that was seen after the restore. It is None until such a block is seen."""
    nonce: int | None
    """Number of the account's transactions at the first start after the restore, pending ones included. It is None before that
    start."""


class RestoreFence:
    """Database store of the mark that a restore sets. `restored` is None for a database that was never restored."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        query = select(RestoredRow.backup_at, RestoredRow.restored_at, RestoredRow.clock, RestoredRow.nonce)
        with read_transaction(engine) as connection:
            row = connection.execute(query).one_or_none()
        self.restored: Restored | None = None if row is None else Restored(*row)

    def mark(self, backup_at: int, now: int) -> None:
        """Marks the database as restored at `now` from a backup that was made at `backup_at`, both in Unix seconds.

        Replaces an earlier mark.
        """
        restored = Restored(backup_at, now, None, None)
        with write_transaction(self._engine) as connection:
            connection.execute(delete(RestoredRow))
            connection.execute(insert(RestoredRow).values(id=_ROW, **restored._asdict()))
        self.restored = restored

    def note(self, clock: int, timestamp: int) -> None:
        """Sets the fence at the protocol clock of a block, if this is the first block that is not older than the restore.

        The process calls this method for each block that it reads. An older block does not count: its chain node may be behind
        and not show a round in which the lost database voted.
        """
        restored = self.restored
        if restored is not None and restored.clock is None and timestamp >= restored.restored_at:
            self._store(clock=clock)
            telemetry.log("restore.fenced", clock=clock, backup_at=restored.backup_at, restored_at=restored.restored_at)

    def covers(self, drawn_at: int) -> bool:
        """Returns whether the lost database may have a vote in a round.

        `drawn_at` is the time on the protocol clock at which the commit phase of the round began.
        """
        restored = self.restored
        return restored is not None and (restored.clock is None or drawn_at <= restored.clock)

    def own_nonces(self, used: Callable[[], int]) -> int:
        """Returns the nonce below which every used nonce counts as the account's own.

        Returns 0 if the database was never restored. `used` returns the account's number of transactions, pending ones included.
        It is called once for each restore.
        """
        if self.restored is None:
            return 0
        if self.restored.nonce is None:
            self._store(nonce=used())
        return self.restored.nonce or 0

    def _store(self, **values: Any) -> None:
        assert self.restored is not None, "marked before"
        with write_transaction(self._engine) as connection:
            connection.execute(update(RestoredRow).values(**values))
        self.restored = self.restored._replace(**values)
