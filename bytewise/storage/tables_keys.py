"""Tables of a key holder: release records, enclave instances, audit budget."""

from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from bytewise.storage.base import Base, Bytes, Bytes32, Int64


class ReleaseRow(Base):
    """One signed release record; (epoch, number) has no gap and no second record."""

    __tablename__ = "release_record"
    epoch: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    number: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    receipt_id: Mapped[Bytes32] = mapped_column(index=True)
    ticket_hash: Mapped[Bytes32]
    record: Mapped[Bytes]
    signature: Mapped[Bytes]
    digest: Mapped[Bytes32]
    right: Mapped[Bytes | None]
    grounds: Mapped[Bytes | None]
    __table_args__ = (UniqueConstraint("digest"),)


class InstanceRow(Base):
    """An enclave instance that got the key of one right: a receipt, dispute or audit, round and voter, hashed together."""

    __tablename__ = "release_instance"
    right_id: Mapped[Bytes32] = mapped_column(primary_key=True)
    instance: Mapped[Bytes32] = mapped_column(primary_key=True)


class BudgetRow(Base):
    """Audit releases of an epoch so far."""

    __tablename__ = "audit_budget"
    epoch: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    spent: Mapped[Int64]
