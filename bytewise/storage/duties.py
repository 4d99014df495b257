"""Duties: tasks that a node must do by a deadline. A duty ends as DONE, MISSED or DECLINED (design section 10).

`bytewise.storage.retention` ends the duties whose deadline passed while the process did not run, and deletes old ended duties.
Only the command of a person opens an ended duty again (`Duties.order`), for example after a reorganisation moved its deadline.
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
"""State of a duty that the person who runs the node chose not to do. The penalty is known."""


class Duty(NamedTuple):
    """One duty. `kind` and `subject` identify it, and `deadline` is in Unix seconds of chain time."""

    kind: str
    subject: bytes
    deadline: int
    state: str
    detail: str


class Duties:
    """Database store of the duties of one process."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def add(self, kind: str, subject: bytes, deadline: int) -> Duty:
        """Adds a duty and returns it. Returns the existing one, in whatever state it is, if the duty was added before."""
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
        """Makes a duty open with this deadline, because a person asked for it, and returns the duty.

        Adds the duty if it is unknown, and opens it again if it has ended.
        """
        self.add(kind, subject, deadline)
        change = update(DutyRow).where(DutyRow.kind == kind, DutyRow.subject == subject)
        with write_transaction(self._engine) as connection:
            connection.execute(change.values(state=PENDING, detail="", deadline=deadline, updated_at=self._clock.now()))
        found = self.find(kind, subject)
        assert found is not None
        return found

    def find(self, kind: str, subject: bytes) -> Duty | None:
        """Returns the duty with this kind and subject, or None if it was never added."""
        rows = self._select(DutyRow.kind == kind, DutyRow.subject == subject)
        return rows[0] if rows else None

    def pending(self) -> tuple[Duty, ...]:
        """Returns the open duties, the earliest deadline first, and sets the metric of their number."""
        found = self._select(DutyRow.state == PENDING)
        metrics.DUTIES_PENDING.set(len(found))
        return found

    def all(self) -> tuple[Duty, ...]:
        """Returns all duties, the earliest deadline first."""
        return self._select()

    def done(self, kind: str, subject: bytes, detail: str = "") -> Duty:
        """Ends an open duty as DONE and returns it. A duty that has already ended stays as it is."""
        return self._end(kind, subject, DONE, detail)

    def miss(self, kind: str, subject: bytes, detail: str = "") -> Duty:
        """Ends an open duty as MISSED and returns it. A duty that has already ended stays as it is."""
        return self._end(kind, subject, MISSED, detail)

    def decline(self, subject: bytes, kind: str = "vote", detail: str = "declined by the operator") -> Duty:
        """Ends a duty as DECLINED and returns it. Adds it first if it is unknown, so a person can decline it in advance.

        A duty that has already ended stays as it is.
        """
        self.add(kind, subject, deadline=0)
        return self._end(kind, subject, DECLINED, detail)

    def declined(self, kind: str, subject: bytes) -> bool:
        """Returns whether this duty was declined."""
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
