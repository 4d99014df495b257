"""Tables of key ceremonies: plan, log as we know it, what its scribe signed, own words, the sealed seed while one runs."""

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from bytewise.storage.base import Base, Bytes, Bytes32, Int64, Word


class CeremonyRow(Base):
    """One ceremony; `seed` is sealed by whoever keeps it and emptied when `ended` is set."""

    __tablename__ = "ceremony"
    id: Mapped[Bytes32] = mapped_column(primary_key=True)
    plan: Mapped[Bytes]
    seed: Mapped[Bytes]
    ended: Mapped[Word]
    log_end: Mapped[Bytes | None]
    """The scribe's signed head of our whole log; none in a scribe's own store, nor where the log is from before schema 0009."""


class CeremonyLogRow(Base):
    """One message of a ceremony's log; (ceremony, number) has no gap and no second message."""

    __tablename__ = "ceremony_log"
    ceremony: Mapped[Bytes32] = mapped_column(ForeignKey("ceremony.id"), primary_key=True)
    number: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    message: Mapped[Bytes]


class CeremonyForkRow(Base):
    """The first other log that the scribe of a ceremony showed us, with what it signed for it."""

    __tablename__ = "ceremony_fork"
    ceremony: Mapped[Bytes32] = mapped_column(ForeignKey("ceremony.id"), primary_key=True)
    fork: Mapped[Bytes]


class CeremonyWordRow(Base):
    """The one message of each kind that we ever say in a ceremony, stored before it is said."""

    __tablename__ = "ceremony_word"
    ceremony: Mapped[Bytes32] = mapped_column(ForeignKey("ceremony.id"), primary_key=True)
    kind: Mapped[Word] = mapped_column(primary_key=True)
    message: Mapped[Bytes]
