"""The key ceremonies that a shard or the coordinator knows: plans, logs, own messages. All are durable before anything is sent.

A log only grows: a different message under a number that is taken is a fork. An own message is stored once, so a caller that asks
again, after a crash or with another message, gets the first one. If a coordinator shows other logs, the first is kept as
evidence.
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
    """One ceremony as stored."""

    signed: SignedPlan
    """The plan with its coordinator's signature."""
    seed: bytes
    """Seed of the participant, sealed; empty after the end."""
    ended: str
    """How it ended; empty while it runs."""
    log: tuple[Message, ...]
    """The log, as far as it is known."""
    end: SignedHead | None
    """The head of that log, signed by the coordinator; None in the database of the coordinator itself."""


class Ceremonies:
    """All key ceremonies of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def open(self, signed: SignedPlan, seed: bytes) -> StoredCeremony:
        """Returns the ceremony of a plan. An unknown one is first stored with this sealed seed."""
        name = signed.plan.digest
        with write_transaction(self._engine) as connection:
            insert_if_new(connection, CeremonyRow, id=name, plan=encode(signed), seed=seed, outcome=RUNNING)
        kept = self.find(name)
        if kept is None:
            raise StoreCorrupt("ceremonies", f"none is named {name.hex()[:16]}")
        return kept

    def find(self, name: Digest) -> StoredCeremony | None:
        """A ceremony as stored; None if it is unknown, `StoreCorrupt` if it is damaged."""
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
        """Plans of the ceremonies that have not ended; `StoreCorrupt` if one is damaged."""
        query = select(CeremonyRow.plan).where(CeremonyRow.outcome == RUNNING).order_by(CeremonyRow.id)
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query).scalars().all()
        return tuple(_decoded(SignedPlan, each).plan for each in rows)

    def append(self, name: Digest, first: int, messages: Sequence[Message], end: SignedHead | None = None) -> int:
        """Adds messages from number `first` on, and returns the new length of the log. Messages that are stored already must be
        the same.

        `end` is the head that the coordinator signed for the longer log; the coordinator's own database has none. `LogForked`,
        and nothing is stored, if a message differs or there would be a gap.
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
        """Stores evidence of another log of a known ceremony, unless there is some already. Returns whether it was stored."""
        with write_transaction(self._engine) as connection:
            return insert_if_new(connection, CeremonyForkRow, ceremony=fork.plan.plan.digest, fork=encode(fork))

    def copies(self) -> tuple[CeremonyLogCopy, ...]:
        """The stored log of every ceremony whose coordinator signed it, by name. `StoreCorrupt` if something is damaged."""
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
        """Stores the own message of this kind, and returns the one that may be sent: this message, or the one that was stored
        before."""
        key = {"ceremony": message.ceremony, "kind": message.kind}
        query = select(OwnMessageRow.message).filter_by(**key)
        with write_transaction(self._engine) as connection:
            insert_if_new(connection, OwnMessageRow, **key, message=encode(message))
            return _decoded(Message, connection.execute(query).scalar_one())

    def end(self, name: Digest, how: str) -> None:
        """Marks the end and deletes the seed. Old pages of the database may still contain it, but only sealed."""
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
