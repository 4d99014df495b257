"""Tables that every actor has: journal, protection, outbox with nonce lanes, duties, cursors."""

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from bytewise.storage.base import Account, Base, Bytes, Bytes32, Int64, Prose, RowId, Word


class LockRow(Base):
    """A row per name that a transaction locks to be alone (PostgreSQL; SQLite's writers are alone anyway)."""

    __tablename__ = "lock_row"
    name: Mapped[Word] = mapped_column(primary_key=True)


class JournalRow(Base):
    """One entry of the hash-chained journal."""

    __tablename__ = "journal"
    number: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[Int64]
    kind: Mapped[Word]
    subject: Mapped[Bytes]
    body: Mapped[Bytes]
    previous: Mapped[Bytes32]
    digest: Mapped[Bytes32] = mapped_column(unique=True)
    signature: Mapped[Bytes]


class ProtectedVoteRow(Base):
    """The one vote for a (dispute, round): must be restored, never emptied (design section 2)."""

    __tablename__ = "protected_vote"
    dispute: Mapped[Bytes32] = mapped_column(primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    voter: Mapped[Account] = mapped_column(primary_key=True)
    said: Mapped[Bytes32]
    vote: Mapped[Bytes]
    quote: Mapped[Bytes]
    created_at: Mapped[Int64]


class LaneRow(Base):
    """One nonce lane: who may write to it, and the next free nonce."""

    __tablename__ = "lane"
    chain_id: Mapped[Word] = mapped_column(primary_key=True)
    account: Mapped[Account] = mapped_column(primary_key=True)
    next_nonce: Mapped[Int64]
    owner: Mapped[Word]
    fence: Mapped[Int64]
    leased_until: Mapped[Int64]
    stopped: Mapped[Word]


class OutboxRow(Base):
    """One intended transaction."""

    __tablename__ = "outbox"
    id: Mapped[RowId]
    chain_id: Mapped[Word]
    account: Mapped[Account]
    contract: Mapped[Account]
    function: Mapped[Word]
    subject: Mapped[Bytes]
    role: Mapped[Word]
    calldata: Mapped[Bytes]
    value_wei: Mapped[Word]
    deadline: Mapped[Int64]
    hand_in_by: Mapped[Int64] = mapped_column(server_default="0")
    state: Mapped[Word] = mapped_column(index=True)
    nonce: Mapped[Int64 | None]
    block_number: Mapped[Int64 | None]
    block_hash: Mapped[Bytes32 | None]
    detail: Mapped[Prose]
    created_at: Mapped[Int64]
    updated_at: Mapped[Int64]
    __table_args__ = (UniqueConstraint("chain_id", "contract", "function", "subject", "role"),)


class AttemptRow(Base):
    """Signed bytes of an outbox row: the first and every replacement."""

    __tablename__ = "outbox_attempt"
    outbox_id: Mapped[Int64] = mapped_column(ForeignKey("outbox.id"), primary_key=True, autoincrement=False)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    nonce: Mapped[Int64]
    raw: Mapped[Bytes]
    tx_hash: Mapped[Bytes32] = mapped_column(unique=True)
    signed_at: Mapped[Int64]
    broadcast_at: Mapped[Int64 | None]


class DutyRow(Base):
    """Something that must be done by a deadline."""

    __tablename__ = "duty"
    kind: Mapped[Word] = mapped_column(primary_key=True)
    subject: Mapped[Bytes] = mapped_column(primary_key=True)
    deadline: Mapped[Int64]
    state: Mapped[Word]
    detail: Mapped[Prose]
    created_at: Mapped[Int64]
    updated_at: Mapped[Int64]
    __table_args__ = (Index("ix_duty_state_deadline", "state", "deadline"),)


class CursorRow(Base):
    """A block that a log reader has finished, with its hash."""

    __tablename__ = "cursor_block"
    name: Mapped[Word] = mapped_column(primary_key=True)
    number: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    hash: Mapped[Bytes32]
