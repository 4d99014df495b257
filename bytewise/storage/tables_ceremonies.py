"""Tables of key ceremonies: the plan, the log as we know it, our own words, and the sealed seed while one runs."""

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


class CeremonyLogRow(Base):
    """One message of a ceremony's log; (ceremony, number) has no gap and no second message."""

    __tablename__ = "ceremony_log"
    ceremony: Mapped[Bytes32] = mapped_column(ForeignKey("ceremony.id"), primary_key=True)
    number: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    message: Mapped[Bytes]


class CeremonyWordRow(Base):
    """The one message of each kind that we ever say in a ceremony, stored before it is said."""

    __tablename__ = "ceremony_word"
    ceremony: Mapped[Bytes32] = mapped_column(ForeignKey("ceremony.id"), primary_key=True)
    kind: Mapped[Word] = mapped_column(primary_key=True)
    message: Mapped[Bytes]
