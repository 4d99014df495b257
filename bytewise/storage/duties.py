"""Duties: what must be done by a deadline. A duty ends DONE, MISSED or DECLINED (design section 10).
`bytewise.storage.retention` ends duties whose time passed while the process did not run, and deletes old ended ones.

Only a person reopens an ended duty (`Duties.order`), because a reorganisation may have moved its time.
"""

from typing import Any, NamedTuple

from sqlalchemy import Engine, select, update

from bytewise.ports import Clock
from bytewise.service import metrics
from bytewise.storage.engine import insert_if_new, read_transaction, write_transaction
from bytewise.storage.tables import DutyRow

PENDING = "PENDING"
DONE = "DONE"
MISSED = "MISSED"
DECLINED = "DECLINED"
"""State of a duty that an operator does not do, at the known penalty."""


class Duty(NamedTuple):
    """One duty; `deadline` in Unix seconds of chain time."""

    kind: str
    subject: bytes
    deadline: int
    state: str
    detail: str


class Duties:
    """The duty table of one process."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def add(self, kind: str, subject: bytes, deadline: int) -> Duty:
        """Adds a duty, or returns the existing one in any state."""
        now = self._clock.now()
        with write_transaction(self._engine) as connection:
            insert_if_new(
                connection, DutyRow, kind=kind, subject=subject, deadline=deadline, state=PENDING, detail="",
                created_at=now, updated_at=now,
            )  # fmt: skip
        found = self.find(kind, subject)
        assert found is not None
        return found

    def order(self, kind: str, subject: bytes, deadline: int) -> Duty:
        """Opens a duty with this deadline because a person asked for it. A duty that has ended is opened again."""
        self.add(kind, subject, deadline)
        change = update(DutyRow).where(DutyRow.kind == kind, DutyRow.subject == subject)
        with write_transaction(self._engine) as connection:
            connection.execute(change.values(state=PENDING, detail="", deadline=deadline, updated_at=self._clock.now()))
        found = self.find(kind, subject)
        assert found is not None
        return found

    def find(self, kind: str, subject: bytes) -> Duty | None:
        """One duty."""
        rows = self._select(DutyRow.kind == kind, DutyRow.subject == subject)
        return rows[0] if rows else None

    def pending(self) -> tuple[Duty, ...]:
        """Open duties, most urgent first."""
        found = self._select(DutyRow.state == PENDING)
        metrics.DUTIES_PENDING.set(len(found))
        return found

    def all(self) -> tuple[Duty, ...]:
        """Every duty by deadline."""
        return self._select()

    def done(self, kind: str, subject: bytes, detail: str = "") -> Duty:
        """Ends a duty as DONE; no effect on one that has ended."""
        return self._end(kind, subject, DONE, detail)

    def miss(self, kind: str, subject: bytes, detail: str = "") -> Duty:
        """Ends a duty as MISSED; no effect on one that has ended."""
        return self._end(kind, subject, MISSED, detail)

    def decline(self, subject: bytes, kind: str = "vote", detail: str = "declined by the operator") -> Duty:
        """Declines one duty, even one that is not known yet. No effect on one that has ended."""
        self.add(kind, subject, deadline=0)
        return self._end(kind, subject, DECLINED, detail)

    def declined(self, kind: str, subject: bytes) -> bool:
        """Whether this duty was declined."""
        found = self.find(kind, subject)
        return found is not None and found.state == DECLINED

    def _end(self, kind: str, subject: bytes, state: str, detail: str) -> Duty:
        change = update(DutyRow).where(DutyRow.kind == kind, DutyRow.subject == subject, DutyRow.state == PENDING)
        with write_transaction(self._engine) as connection:
            ended = connection.execute(change.values(state=state, detail=detail, updated_at=self._clock.now())).rowcount
        if ended:
            metrics.DUTIES.labels(kind=kind.partition(".")[0], result=state.lower()).inc()
        found = self.find(kind, subject)
        assert found is not None, "a duty is added before it ends"
        return found

    def _select(self, *conditions: Any) -> tuple[Duty, ...]:
        columns = (DutyRow.kind, DutyRow.subject, DutyRow.deadline, DutyRow.state, DutyRow.detail)
        query = select(*columns).where(*conditions).order_by(DutyRow.deadline, DutyRow.kind, DutyRow.subject)
        with read_transaction(self._engine) as connection:
            return tuple(Duty(*row) for row in connection.execute(query))
