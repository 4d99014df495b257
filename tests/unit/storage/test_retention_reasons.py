"""Each reason for which housekeeping keeps a record, alone and at its boundary; without it the record goes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Engine, delete, func, select, update

from bytewise.protocol.units import U64
from bytewise.service.sections import DAY_S, HousekeepingSettings
from bytewise.storage.archive import Archive, LightAudits
from bytewise.storage.duties import MISSED, PENDING, Duties
from bytewise.storage.engine import read_transaction, write_transaction
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.outbox import Intent, Outbox, OutboxState, SignedTransaction
from bytewise.storage.receipt_store import IssuedReceipt, ReceiptStore
from bytewise.storage.retention import Horizon, Retention
from bytewise.storage.tables import (
    ArchivedEnvelopeRow,
    Base,
    DutyRow,
    IssuedReceiptRow,
    LightAuditRow,
    OutboxAttemptRow,
    OutboxRow,
    OwnBatchRow,
    SeenBatchRow,
    SeenReceiptRow,
)
from tests.fixtures.storage.hand_clock import HandClock
from tests.fixtures.storage.stored_records import ACCOUNT, header, name, signed_receipt

DISPUTE_S, STAKE_S = 1_000, 2_000
LONG = 100 * STAKE_S
NONE = HousekeepingSettings(receipts_days=0, envelopes_days=0, duties_days=0, transactions_days=0)
RECEIPT, DISPUTE, OWN = name(1_000), name(5_000), name(9_001)

ENVELOPE, BATCH, AUDIT, DUTY, TRANSACTION, OWN_ENVELOPE, OWN_BATCH = KINDS = (
    "envelope", "batch", "audit", "duty", "transaction", "own_envelope", "own_batch",
)  # fmt: skip
ALL = frozenset(KINDS)
SHORT = frozenset({ENVELOPE, DUTY, OWN_ENVELOPE})
"""Kinds that are kept for the longest dispute; the others are kept until stake is free, too."""


class Stored(NamedTuple):
    """A database with one record of each kind that can go, and with what proves that it can."""

    engine: Engine
    clock: HandClock

    def horizon(self, **changes: Any) -> Horizon:
        """Nothing is open at the clock's time."""
        return Horizon(self.clock.now(), DISPUTE_S, STAKE_S, first_open_batch=1, first_locked_seq=3)._replace(**changes)

    def kept(self) -> frozenset[str]:
        """Kinds whose record is there, whole."""
        with read_transaction(self.engine) as connection:

            def count(table: type[Base], *conditions: Any) -> int:
                return int(connection.execute(select(func.count()).select_from(table).where(*conditions)).scalar_one())

            batch, receipt = count(SeenBatchRow), count(SeenReceiptRow)
            row, attempt = count(OutboxRow, OutboxRow.nonce == 0), count(OutboxAttemptRow, OutboxAttemptRow.nonce == 0)
            own, issued = count(OwnBatchRow, OwnBatchRow.first_seq == 1), count(IssuedReceiptRow, IssuedReceiptRow.seq == 1)
            sealed = count(IssuedReceiptRow, IssuedReceiptRow.seq == 1, func.length(IssuedReceiptRow.envelope) > 0)
            assert batch == receipt and row == attempt and own == issued, "both or none"
            assert count(OutboxRow, OutboxRow.nonce == 1) == 1 and count(OwnBatchRow, OwnBatchRow.first_seq == 2) == 1
            there = {
                ENVELOPE: count(ArchivedEnvelopeRow), BATCH: batch, AUDIT: count(LightAuditRow), DUTY: count(DutyRow),
                TRANSACTION: row, OWN_ENVELOPE: sealed, OWN_BATCH: own,
            }  # fmt: skip
        return frozenset(kind for kind, number in there.items() if number)

    def change(self, table: type[Base], **values: Any) -> None:
        """Changes every row of a table."""
        with write_transaction(self.engine) as connection:
            connection.execute(update(table).values(**values))

    def after_pruning(self, settings: HousekeepingSettings = NONE, **changes: Any) -> frozenset[str]:
        """What is kept; pruning again at the same horizon changes nothing."""
        for _ in range(2):
            Retention(self.engine, settings).prune(self.horizon(**changes))
        first = self.kept()
        assert sum(Retention(self.engine, settings).prune(self.horizon(**changes)).values()) == 0
        assert self.kept() == first
        return first


@pytest.fixture
def stored(engine: Engine, clock: HandClock) -> Stored:
    archive, audits, now = Archive(engine, clock), LightAudits(engine, clock), clock.now()
    envelope = archive.keep_envelope(b"sealed")
    plain = signed_receipt(1)
    archive.add_batch(replace(header(1, 1, 0), anchored_at=U64(now)))
    archive.add_receipt(RECEIPT, 0, replace(plain, receipt=replace(plain.receipt, envelope_hash=envelope)), (), "Good")
    archive.mark_batch(0, "CHECKED")
    audits.add(RECEIPT, now)
    audits.mark(RECEIPT, "DONE")
    duties = Duties(engine, clock)
    duties.add("vote", DISPUTE, now)
    duties.done("vote", DISPUTE)
    lease = NonceLease(engine, clock, 31337, ACCOUNT, ttl_s=10**9)
    lease.acquire()
    outbox = Outbox(lease)
    for number in (0, 1):
        row = outbox.plan(Intent(ACCOUNT, "settle", bytes([number]), "test", b"x", 0, now))
        outbox.sign(row.id, 0, lambda nonce: SignedTransaction(b"raw", name(nonce + 1)))  # type: ignore[arg-type]
        outbox.mark(row.id, OutboxState.MINED, block_number=1, block_hash=name(1))
        outbox.mark(row.id, OutboxState.CONFIRMED)
        outbox.mark(row.id, OutboxState.FINAL)
    store = ReceiptStore(engine, clock, ACCOUNT)
    for seq in (1, 2):
        store.issue(name(seq), [IssuedReceipt(name(9_000 + seq), signed_receipt(seq), b"sealed", b"answer", now)])
        store.add_batch(header(seq, 1), b"list")
        store.anchored(seq)
    return Stored(engine, clock)


def days(**changes: int) -> HousekeepingSettings:
    return replace(NONE, **changes)


BOUNDARIES: dict[str, tuple[HousekeepingSettings, int, frozenset[str]]] = {
    "longest dispute": (NONE, DISPUTE_S, SHORT),
    "unbonding of stake": (NONE, STAKE_S, ALL - SHORT),
    "envelopes_days": (days(envelopes_days=5), 5 * DAY_S, frozenset({ENVELOPE})),
    "envelopes_days of an operator": (days(envelopes_days=5, receipts_days=100), 5 * DAY_S, frozenset({OWN_ENVELOPE})),
    "receipts_days": (days(receipts_days=5), 5 * DAY_S, frozenset({BATCH, AUDIT, OWN_BATCH})),
    "duties_days": (days(duties_days=5), 5 * DAY_S, frozenset({DUTY})),
    "transactions_days": (days(transactions_days=5), 5 * DAY_S, frozenset({TRANSACTION})),
}
"""Settings, the age until which they or the chain keep records, and the kinds of those records."""


@pytest.mark.parametrize("case", BOUNDARIES)
def test_record_is_kept_to_its_last_second_and_goes_then(stored: Stored, case: str) -> None:
    settings, age, kinds = BOUNDARIES[case]
    stored.clock.seconds += age
    assert stored.after_pruning(settings) >= kinds
    stored.clock.seconds += 1
    assert stored.after_pruning(settings) & kinds == set()


def test_everything_goes_at_last(stored: Stored) -> None:
    stored.clock.seconds += LONG
    assert stored.after_pruning() == set()


def test_settings_delete_nothing_that_the_chain_needs(stored: Stored) -> None:
    stored.clock.seconds += DISPUTE_S
    assert stored.after_pruning() == ALL


HORIZONS: dict[str, tuple[dict[str, Any], frozenset[str]]] = {
    "window of the batch may be open": ({"first_open_batch": 0}, frozenset({ENVELOPE, BATCH, AUDIT})),
    "batch of an open dispute": ({"disputed_batches": frozenset({0})}, frozenset({ENVELOPE, BATCH, AUDIT})),
    "receipt of an open dispute": ({"disputed": frozenset({RECEIPT})}, frozenset({ENVELOPE, BATCH, AUDIT})),
    "dispute of a duty": ({"disputes": frozenset({DISPUTE})}, frozenset({DUTY})),
    "own receipt of an open dispute": ({"disputed": frozenset({OWN})}, frozenset({OWN_ENVELOPE, OWN_BATCH})),
    "collateral of the own batch": ({"first_locked_seq": 1}, frozenset({OWN_ENVELOPE, OWN_BATCH})),
    "protocol clock stands": ({"clock": HandClock().now() + DISPUTE_S}, ALL),
}
"""What the chain still needs, and the kinds that it keeps however old they are."""


@pytest.mark.parametrize("case", HORIZONS)
def test_old_record_that_the_chain_needs_is_kept(stored: Stored, case: str) -> None:
    changes, kinds = HORIZONS[case]
    stored.clock.seconds += LONG
    assert stored.after_pruning(**changes) == kinds


def younger(table: type[Base], column: str, age_s: int = DISPUTE_S) -> Callable[[Stored], None]:
    """A time of a record, by the machine's clock, that is in the last second in which it counts."""
    return lambda stored: stored.change(table, **{column: stored.clock.now() - age_s})


def anchored_lately(stored: Stored) -> None:
    """The machine's clock was behind when the batch was seen."""
    from bytewise.protocol.encoding import encode

    stored.change(SeenBatchRow, header=encode(replace(header(1, 1, 0), anchored_at=U64(stored.clock.now() - DISPUTE_S))))


ROWS: dict[str, tuple[Callable[[Stored], None], frozenset[str]]] = {
    "batch seen lately": (younger(SeenBatchRow, "seen_at", STAKE_S), frozenset({BATCH, AUDIT})),
    "batch anchored lately": (anchored_lately, frozenset({ENVELOPE, BATCH, AUDIT})),
    "envelope archived lately": (younger(ArchivedEnvelopeRow, "archived_at"), frozenset({ENVELOPE})),
    "audit runs": (lambda stored: stored.change(LightAuditRow, state="PENDING"), frozenset({ENVELOPE, BATCH, AUDIT})),
    "audit of a late deadline": (younger(LightAuditRow, "deadline", STAKE_S), frozenset({AUDIT})),
    "audit ended lately": (younger(LightAuditRow, "updated_at", STAKE_S), frozenset({AUDIT})),
    "duty of a late deadline": (younger(DutyRow, "deadline"), frozenset({DUTY})),
    "duty ended lately": (younger(DutyRow, "updated_at"), frozenset({DUTY})),
    "transaction ended lately": (younger(OutboxRow, "updated_at", STAKE_S), frozenset({TRANSACTION})),
    "transaction of a late deadline": (younger(OutboxRow, "deadline", STAKE_S), frozenset({TRANSACTION})),
    "transaction only confirmed": (lambda stored: stored.change(OutboxRow, state="CONFIRMED"), frozenset({TRANSACTION})),
    "own batch built lately": (younger(OwnBatchRow, "created_at"), frozenset({OWN_ENVELOPE, OWN_BATCH})),
    "own batch built before its stake is free": (younger(OwnBatchRow, "created_at", STAKE_S), frozenset({OWN_BATCH})),
    "own receipt signed before its stake is free": (younger(IssuedReceiptRow, "issued_at", STAKE_S), frozenset({OWN_BATCH})),
    "own batch not anchored": (
        lambda stored: stored.change(OwnBatchRow, state="BUILT"), frozenset({OWN_ENVELOPE, OWN_BATCH}),
    ),
    "own receipt signed lately": (younger(IssuedReceiptRow, "issued_at"), frozenset({OWN_ENVELOPE, OWN_BATCH})),
}  # fmt: skip
"""A change of the rows, and the kinds that it keeps in an old database."""


@pytest.mark.parametrize("case", ROWS)
def test_old_record_whose_row_says_so_is_kept(stored: Stored, case: str) -> None:
    change, kinds = ROWS[case]
    stored.clock.seconds += LONG
    change(stored)
    # Rows that are young by their own times go when the chain needs them no more.
    assert stored.after_pruning() == kinds


def test_running_audit_stays_also_without_its_receipt(stored: Stored) -> None:
    """The chain may take a batch back, and then show it again."""
    with write_transaction(stored.engine) as connection:
        connection.execute(delete(SeenReceiptRow))
        connection.execute(delete(SeenBatchRow))
    stored.change(LightAuditRow, state="PENDING")
    stored.clock.seconds += LONG
    assert stored.after_pruning() == {AUDIT}


def test_nonce_that_no_final_transaction_follows_stays(stored: Stored) -> None:
    """Some version of it could still be mined after a deep reorganisation."""
    stored.clock.seconds += LONG
    with write_transaction(stored.engine) as connection:
        connection.execute(update(OutboxRow).where(OutboxRow.nonce == 1).values(state="CONFIRMED"))
    assert TRANSACTION in stored.after_pruning()
    with write_transaction(stored.engine) as connection:
        connection.execute(update(OutboxRow).where(OutboxRow.nonce == 1).values(account="0x" + "ee" * 20, state="FINAL"))
    assert TRANSACTION in stored.after_pruning(), "a final transaction of another account proves nothing"


def test_open_duty_is_never_deleted_while_its_dispute_is_open(stored: Stored) -> None:
    stored.change(DutyRow, state=PENDING)
    stored.clock.seconds += LONG
    assert DUTY in stored.after_pruning(disputes=frozenset({DISPUTE}))
    (duty,) = Duties(stored.engine, stored.clock).all()
    assert duty.state == PENDING


def test_open_duty_ends_before_it_is_deleted(stored: Stored) -> None:
    """A duty whose time is over is missed first, so that `status` can show it for as long as any other."""
    stored.change(DutyRow, state=PENDING)
    stored.clock.seconds += LONG
    Retention(stored.engine, NONE).prune(stored.horizon())
    (duty,) = Duties(stored.engine, stored.clock).all()
    assert duty.state == MISSED
