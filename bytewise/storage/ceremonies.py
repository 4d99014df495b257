"""What a shard, or the scribe, knows of key ceremonies: plans, logs, own words. Each is durable before anything is sent.

A log only grows: another message at a number that is taken is a fork. An own word is stored once: whoever asks again, after a
crash or with another word, gets the first.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, Engine, insert, select, update

from bytewise.protocol.ceremony import Plan, SignedPlan
from bytewise.protocol.ceremony_log import Message
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors import Fault, LogForked, StoreCorrupt
from bytewise.protocol.units import Digest
from bytewise.storage.engine import insert_if_absent, reading, writing
from bytewise.storage.locks import alone
from bytewise.storage.tables_ceremonies import CeremonyLogRow, CeremonyRow, CeremonyWordRow

T = TypeVar("T")

RUNNING = ""


class Kept(NamedTuple):
    """One ceremony as stored."""

    signed: SignedPlan
    """The plan with its scribe's signature."""
    seed: bytes
    """Sealed; empty after the end."""
    ended: str
    """How it ended; empty while it runs."""
    log: tuple[Message, ...]
    """As far as we know it."""


class Ceremonies:
    """All key ceremonies of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def open(self, signed: SignedPlan, seed: bytes) -> Kept:
        """The ceremony of a plan; stored with this sealed seed if it was unknown, else as it is."""
        name = signed.plan.digest
        with writing(self._engine) as connection:
            insert_if_absent(connection, CeremonyRow, id=name, plan=encode(signed), seed=seed, ended=RUNNING)
        kept = self.find(name)
        if kept is None:
            raise StoreCorrupt("ceremonies", f"none is named {name.hex()[:16]}")
        return kept

    def find(self, name: Digest) -> Kept | None:
        """A ceremony as stored; None if it is unknown, `StoreCorrupt` if it is damaged."""
        query = select(CeremonyRow.plan, CeremonyRow.seed, CeremonyRow.ended).where(CeremonyRow.id == name)
        with reading(self._engine) as connection:
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            log = tuple(_decoded(Message, each) for each in _log(connection, name))
        return Kept(_decoded(SignedPlan, row.plan), row.seed, row.ended, log)

    def running(self) -> tuple[Plan, ...]:
        """Plans of the ceremonies that have not ended; `StoreCorrupt` if one is damaged."""
        query = select(CeremonyRow.plan).where(CeremonyRow.ended == RUNNING).order_by(CeremonyRow.id)
        with reading(self._engine) as connection:
            rows = connection.execute(query).scalars().all()
        return tuple(_decoded(SignedPlan, each).plan for each in rows)

    def append(self, name: Digest, first: int, messages: Sequence[Message]) -> int:
        """Adds messages from number `first` on; those that we have must be the same. The length of the log then.

        `LogForked` if one differs, or if there would be a gap; nothing is stored then.
        """
        with writing(self._engine) as connection:
            alone(connection, f"ceremony {name.hex()}")
            have = _log(connection, name)
            if first > len(have):
                raise LogForked(name.hex()[:16], f"messages from {first} on, we have {len(have)}")
            for number, message in enumerate(messages, start=first):
                raw = encode(message)
                if number < len(have) and have[number] != raw:
                    raise LogForked(name.hex()[:16], f"message {number} differs")
                if number >= len(have):
                    connection.execute(insert(CeremonyLogRow).values(ceremony=name, number=number, message=raw))
        return max(len(have), first + len(messages))

    def keep(self, message: Message) -> Message:
        """The one message of this kind that we say in its ceremony: this one, or what was stored before."""
        key = {"ceremony": message.ceremony, "kind": message.kind}
        query = select(CeremonyWordRow.message).filter_by(**key)
        with writing(self._engine) as connection:
            insert_if_absent(connection, CeremonyWordRow, **key, message=encode(message))
            return _decoded(Message, connection.execute(query).scalar_one())

    def end(self, name: Digest, how: str) -> None:
        """Marks the end and forgets the seed. What the database kept of it elsewhere stays sealed."""
        with writing(self._engine) as connection:
            connection.execute(update(CeremonyRow).where(CeremonyRow.id == name).values(ended=how, seed=b""))


def _log(connection: Connection, name: Digest) -> Sequence[bytes]:
    query = select(CeremonyLogRow.message).where(CeremonyLogRow.ceremony == name).order_by(CeremonyLogRow.number)
    return connection.execute(query).scalars().all()


def _decoded(cls: type[T], raw: bytes) -> T:
    try:
        return decode(cls, raw)
    except Fault as error:
        raise StoreCorrupt("ceremonies", str(error)[:120]) from None
