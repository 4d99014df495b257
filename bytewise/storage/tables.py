"""All tables in one place, for migrations and their drift test."""

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from bytewise.storage.base import Account, Base, Bytes, Bytes32, Int64, Prose, RowId, Word

# Tables that every actor has: journal, protection, outbox with nonce lanes, duties, cursors.


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


# Tables of key ceremonies: plan, log as we know it, what its scribe signed, own words, the sealed seed while one runs.


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


# Tables of a key holder: release records, enclave instances, audit budget.


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


# Tables of verifiers (seen receipts, archive, audits) and of operators (receipts issued, batches, retries).


class SeenBatchRow(Base):
    """A batch that the chain showed."""

    __tablename__ = "seen_batch"
    batch_id: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    block_number: Mapped[Int64] = mapped_column(index=True)
    header: Mapped[Bytes]
    state: Mapped[Word]
    detail: Mapped[Prose]
    seen_at: Mapped[Int64]


class SeenReceiptRow(Base):
    """A receipt found in a batch, and what the check said."""

    __tablename__ = "seen_receipt"
    receipt_id: Mapped[Bytes32] = mapped_column(primary_key=True)
    batch_id: Mapped[Int64] = mapped_column(index=True)
    operator: Mapped[Account]
    seq: Mapped[Int64]
    signed: Mapped[Bytes]
    proof: Mapped[Bytes]
    envelope_hash: Mapped[Bytes32]
    finding: Mapped[Word]
    detail: Mapped[Prose]
    checked_at: Mapped[Int64]
    __table_args__ = (Index("ix_seen_receipt_number", "operator", "seq"),)


class EnvelopeRow(Base):
    """Ciphertext kept at first sight; DA forgets after its retention."""

    __tablename__ = "archived_envelope"
    envelope_hash: Mapped[Bytes32] = mapped_column(primary_key=True)
    data: Mapped[Bytes]
    archived_at: Mapped[Int64]


class AuditRow(Base):
    """A light audit that we were drawn for."""

    __tablename__ = "audit"
    receipt_id: Mapped[Bytes32] = mapped_column(primary_key=True)
    deadline: Mapped[Int64]
    state: Mapped[Word] = mapped_column(index=True)
    result: Mapped[Bytes | None]
    signature: Mapped[Bytes | None]
    opening: Mapped[Bytes | None]
    detail: Mapped[Prose]
    updated_at: Mapped[Int64]


class SequenceRow(Base):
    """The next receipt number of an operator account."""

    __tablename__ = "receipt_sequence"
    operator: Mapped[Account] = mapped_column(primary_key=True)
    next_seq: Mapped[Int64]


class IssuedRow(Base):
    """A receipt we signed, with all that must be published for it."""

    __tablename__ = "issued_receipt"
    seq: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    receipt_id: Mapped[Bytes32] = mapped_column(unique=True)
    signed: Mapped[Bytes]
    envelope: Mapped[Bytes]
    batch_first_seq: Mapped[Int64 | None] = mapped_column(index=True)
    issued_at: Mapped[Int64]


class AnswerRow(Base):
    """The answer to a request, for the client that asks again."""

    __tablename__ = "answer"
    request_key: Mapped[Bytes32] = mapped_column(primary_key=True)
    receipt_id: Mapped[Bytes32]
    response: Mapped[Bytes]
    created_at: Mapped[Int64] = mapped_column(index=True)


class OwnBatchRow(Base):
    """A batch that we built, until the chain shows it."""

    __tablename__ = "own_batch"
    first_seq: Mapped[Int64] = mapped_column(primary_key=True, autoincrement=False)
    receipts: Mapped[int]
    header: Mapped[Bytes]
    list_data: Mapped[Bytes]
    state: Mapped[Word]
    created_at: Mapped[Int64]


METADATA = Base.metadata
"""The whole schema."""
