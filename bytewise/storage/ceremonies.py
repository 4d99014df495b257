"""The key ceremonies that a shard or the coordinator knows: their plans, their logs, and the messages that this process made.

Everything is stored before it is sent. A log only grows: a different message under a number that is in use is a fork. This
process stores one message of each kind in a ceremony, so a caller that asks again after a crash, or with another message, gets
the stored one. If a coordinator shows a second log, the first log stays and the second one is stored as evidence.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, Engine, insert, select, update

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import LogForked, StoreCorrupt
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.keys.ceremony import CeremonyPlan, SignedPlan
from bytewise.protocol.keys.ceremony_log import CeremonyLogCopy, Fork, Message, SignedHead
from bytewise.protocol.units import Digest
from bytewise.storage.engine import insert_if_new, lock_name, read_transaction, write_transaction
from bytewise.storage.tables import CeremonyForkRow, CeremonyMessageRow, CeremonyRow, OwnMessageRow

T = TypeVar("T")

RUNNING = ""


class StoredCeremony(NamedTuple):
    """A key ceremony as the database of one shard or of the coordinator stores it."""

    signed: SignedPlan
    """The plan with its coordinator's signature."""
    seed: bytes
    """The secret seed of this participant, sealed. It is empty after the end of the ceremony."""
    ended: str
    """The result with which the ceremony ended. It is empty while the ceremony runs."""
    log: tuple[Message, ...]
    """The messages of the log that are known so far."""
    end: SignedHead | None
    """The head of `log` that the coordinator signed. It is None in the database of the coordinator itself."""


class Ceremonies:
    """Database store of all key ceremonies in one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def open(self, signed: SignedPlan, seed: bytes) -> StoredCeremony:
        """Returns the ceremony of a plan. If the ceremony is unknown, stores it first, with this sealed seed."""
        name = signed.plan.digest
        with write_transaction(self._engine) as connection:
            insert_if_new(connection, CeremonyRow, id=name, plan=encode(signed), seed=seed, outcome=RUNNING)
        kept = self.find(name)
        if kept is None:
            raise StoreCorrupt("ceremonies", f"none is named {name.hex()[:16]}")
        return kept

    def find(self, name: Digest) -> StoredCeremony | None:
        """Returns the ceremony with this id, or None if it is unknown. Raises `StoreCorrupt` if a stored record is damaged."""
        query = select(CeremonyRow.plan, CeremonyRow.seed, CeremonyRow.outcome, CeremonyRow.signed_head).where(
            CeremonyRow.id == name
        )
        with read_transaction(self._engine) as connection:
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            log = tuple(_decoded(Message, each) for each in _log(connection, name))
        end = None if row.signed_head is None else _decoded(SignedHead, row.signed_head)
        return StoredCeremony(_decoded(SignedPlan, row.plan), row.seed, row.outcome, log, end)

    def running(self) -> tuple[CeremonyPlan, ...]:
        """Returns the plans of the ceremonies that have not ended. Raises `StoreCorrupt` if a stored plan is damaged."""
        query = select(CeremonyRow.plan).where(CeremonyRow.outcome == RUNNING).order_by(CeremonyRow.id)
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query).scalars().all()
        return tuple(_decoded(SignedPlan, each).plan for each in rows)

    def append(self, name: Digest, first: int, messages: Sequence[Message], end: SignedHead | None = None) -> int:
        """Adds messages to the log, from number `first` on, and returns the new length of the log.

        Messages that are stored already must be the same. If one differs, or if `first` would leave a gap, raises `LogForked` and
        stores nothing. `end` is the head that the coordinator signed for the log with these messages. In the coordinator's own
        database `end` is None.
        """
        with write_transaction(self._engine) as connection:
            lock_name(connection, f"ceremony {name.hex()}")
            have = _log(connection, name)
            if first > len(have):
                raise LogForked(name.hex()[:16], f"messages from {first} on, we have {len(have)}")
            for number, message in enumerate(messages, start=first):
                raw = encode(message)
                if number < len(have) and have[number] != raw:
                    raise LogForked(name.hex()[:16], f"message {number} differs")
                if number >= len(have):
                    connection.execute(insert(CeremonyMessageRow).values(ceremony=name, number=number, message=raw))
            if end is not None and end.length > len(have):
                connection.execute(update(CeremonyRow).where(CeremonyRow.id == name).values(signed_head=encode(end)))
        return max(len(have), first + len(messages))

    def keep_fork(self, fork: Fork) -> bool:
        """Stores evidence that the coordinator signed a second log of a known ceremony. Returns whether it was stored.

        Only the first evidence of each ceremony is stored.
        """
        with write_transaction(self._engine) as connection:
            return insert_if_new(connection, CeremonyForkRow, ceremony=fork.plan.plan.digest, fork=encode(fork))

    def copies(self) -> tuple[CeremonyLogCopy, ...]:
        """Returns the stored log of each ceremony for which the database has a head that the coordinator signed.

        A copy also has the evidence of a fork, if there is any. The copies are in the order of the ceremonies' ids. Raises
        `StoreCorrupt` if a stored record is damaged.
        """
        with read_transaction(self._engine) as connection:
            names = connection.execute(select(CeremonyRow.id).order_by(CeremonyRow.id)).scalars().all()
            forks = {row.ceremony: row.fork for row in connection.execute(select(CeremonyForkRow.ceremony, CeremonyForkRow.fork))}
        found = ((forks.get(name), self.find(Digest(name))) for name in names)
        return tuple(
            CeremonyLogCopy(kept.signed, kept.log, kept.end, None if fork is None else _decoded(Fork, fork))
            for fork, kept in found
            if kept is not None and kept.end is not None
        )

    def keep(self, message: Message) -> Message:
        """Stores a message that this process made, and returns the message that it may send.

        If the process has already stored a message of this kind for the ceremony, returns the earlier message and stores nothing.
        """
        key = {"ceremony": message.ceremony, "kind": message.kind}
        query = select(OwnMessageRow.message).filter_by(**key)
        with write_transaction(self._engine) as connection:
            insert_if_new(connection, OwnMessageRow, **key, message=encode(message))
            return _decoded(Message, connection.execute(query).scalar_one())

    def end(self, name: Digest, how: str) -> None:
        """Stores the result of a ceremony that ended, and deletes its seed.

        Old pages of the database file may still contain the seed, but only in sealed form.
        """
        with write_transaction(self._engine) as connection:
            connection.execute(update(CeremonyRow).where(CeremonyRow.id == name).values(outcome=how, seed=b""))


def _log(connection: Connection, name: Digest) -> Sequence[bytes]:
    query = select(CeremonyMessageRow.message).where(CeremonyMessageRow.ceremony == name).order_by(CeremonyMessageRow.number)
    return connection.execute(query).scalars().all()


def _decoded(cls: type[T], raw: bytes) -> T:
    try:
        return decode(cls, raw)
    except Fault as error:
        raise StoreCorrupt("ceremonies", str(error)[:120]) from None
