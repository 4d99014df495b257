"""What a database that came from a backup does not know: all that its account signed after the backup was made.

`bytewise backup restore` marks the database. From then on the account makes no new vote in a round whose commit phase began
before the first block that is younger than the restore, because the lost database may have the vote of that round. Votes that the
restored protection table has go on. Transactions with a nonce that the account had used by the first start are its own, although
the outbox does not know them (ADR-067).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy import Engine, delete, insert, select, update

from bytewise.service import telemetry
from bytewise.storage.engine import read_transaction, write_transaction
from bytewise.storage.tables import RestoredRow

_ROW = 1


class Restored(NamedTuple):
    """The last restore of a database."""

    backup_at: int
    """When the backup was made, Unix seconds."""
    restored_at: int
    """When it was restored, Unix seconds."""
    clock: int | None
    """Protocol clock of the first block that was seen after the restore; None before."""
    nonce: int | None
    """Transactions of the account, those that wait for a block included, at the first start; None before."""


class RestoreFence:
    """The fence of one database. A database that was never restored has none."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        query = select(RestoredRow.backup_at, RestoredRow.restored_at, RestoredRow.clock, RestoredRow.nonce)
        with read_transaction(engine) as connection:
            row = connection.execute(query).one_or_none()
        self.restored: Restored | None = None if row is None else Restored(*row)

    def mark(self, backup_at: int, now: int) -> None:
        """Records that this database was restored just now from a backup of that time. Any earlier mark is replaced."""
        restored = Restored(backup_at, now, None, None)
        with write_transaction(self._engine) as connection:
            connection.execute(delete(RestoredRow))
            connection.execute(insert(RestoredRow).values(id=_ROW, **restored._asdict()))
        self.restored = restored

    def note(self, clock: int, timestamp: int) -> None:
        """Takes the protocol clock and the time of a block. The first block that is not older than the restore sets the fence.

        An older block may lack a round in which the lost database voted: its node may be behind.
        """
        restored = self.restored
        if restored is not None and restored.clock is None and timestamp >= restored.restored_at:
            self._store(clock=clock)
            telemetry.log("restore.fenced", clock=clock, backup_at=restored.backup_at, restored_at=restored.restored_at)

    def covers(self, drawn_at: int) -> bool:
        """Whether the lost database may have a vote of a round whose commit phase began then, on the protocol clock."""
        restored = self.restored
        return restored is not None and (restored.clock is None or drawn_at <= restored.clock)

    def own_nonces(self, used: Callable[[], int]) -> int:
        """All lower nonces are the account's own. `used` reads its count of transactions, waiting ones included, and is called
        once for each restore. 0 without a restore."""
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
