"""Housekeeping of a database: whatever the order of events, nothing that is still needed is deleted, and all else is."""

import resource
import shutil
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import Engine, func, select

from bytewise.protocol.errors.actors import StoreCorrupt, TryAgain
from bytewise.protocol.units import U64, Blob, Digest
from bytewise.service.sections import DAY_S, HousekeepingSettings
from bytewise.storage.archive import Archive, LightAudits
from bytewise.storage.duties import DONE, MISSED, PENDING, Duties
from bytewise.storage.engine import open_database, read_transaction
from bytewise.storage.journal import Journal
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.outbox import Intent, Outbox, OutboxState, SignedTransaction
from bytewise.storage.protection import Protection
from bytewise.storage.receipt_store import IssuedReceipt, ReceiptStore
from bytewise.storage.retention import SWEEP_S, Horizon, Retention, housekeeping_job
from bytewise.storage.tables import (
    ArchivedEnvelopeRow,
    Base,
    DutyRow,
    IssuedReceiptRow,
    JournalRow,
    LightAuditRow,
    OutboxAttemptRow,
    OutboxRow,
    OwnBatchRow,
    ProtectedVoteRow,
    SeenBatchRow,
    SeenReceiptRow,
)
from tests.fixtures.metric_values import value_of
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.storage.hand_clock import HandClock
from tests.fixtures.storage.stored_records import ACCOUNT, header, name, signed_receipt, vote

WINDOW_S, DISPUTE_S, STAKE_S = 100, 1_000, 2_000
START = 1_800_000_000
NOTHING_EXTRA = HousekeepingSettings(receipts_days=0, envelopes_days=0, duties_days=0, transactions_days=0)


def count(engine: Engine, table: type[Base]) -> int:
    """Rows of a table."""
    with read_transaction(engine) as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


class Anchored(NamedTuple):
    """A batch of the model, with one receipt and its envelope."""

    number: int
    receipt: Digest
    envelope: Digest
    at: int


class NodeHistory(RuleBasedStateMachine):
    """A node's database beside a model of what the chain still needs."""

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / "node.db").write_bytes(empty_database())
        self.engine = open_database(f"sqlite:///{self.folder / 'node.db'}")
        self.wall, self.clock = HandClock(START), START
        self.archive, self.audits = Archive(self.engine, self.wall), LightAudits(self.engine, self.wall)
        self.duties = Duties(self.engine, self.wall)
        self.lease = NonceLease(self.engine, self.wall, 31337, ACCOUNT, ttl_s=10**9)
        self.lease.acquire()
        self.outbox = Outbox(self.lease)
        self.store = ReceiptStore(self.engine, self.wall, ACCOUNT)
        self.batches: list[Anchored] = []
        self.first_open = 0
        self.disputes: dict[Digest, Anchored] = {}
        self.tried: set[int] = set()
        self.seated: set[Digest] = set()
        self.running: set[Digest] = set()
        self.votes_due: dict[Digest, int] = {}
        self.own: list[tuple[int, int]] = []
        self.released = 0
        self.used = 0
        self.open_rows: list[int] = []
        self.confirmed: list[int] = []
        self.votes = 0
        self.retention = Retention(self.engine, NOTHING_EXTRA)

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        self._end_everything()
        self.prune()
        for table in (SeenBatchRow, SeenReceiptRow, ArchivedEnvelopeRow, LightAuditRow, DutyRow):
            assert count(self.engine, table) == 0, f"{table.__tablename__} stays small"
        assert count(self.engine, OutboxRow) <= 1, "the newest final transaction proves that older ones are final"
        assert count(self.engine, OwnBatchRow) <= 1 and count(self.engine, IssuedReceiptRow) <= 1
        assert count(self.engine, ProtectedVoteRow) == self.votes
        self.engine.dispose()
        shutil.rmtree(self.folder)

    def _end_everything(self) -> None:
        self.disputes.clear()
        for receipt in self.running:
            self.audits.mark(receipt, "DONE")
        self.running.clear()
        self.first_open, self.released = len(self.batches), len(self.own)
        self.transaction_is_planned()  # a later one must be final before one that reverted can go
        for item in self.open_rows:
            self._mine(item)
            self.confirmed.append(item)
        for item in self.confirmed:
            self.outbox.mark(item, OutboxState.FINAL)
        behind = self.wall.seconds - self.clock
        self._pass(behind + 10 * STAKE_S)
        self.prune()
        self._pass(behind + 10 * STAKE_S)

    def _pass(self, seconds: int) -> None:
        self.clock += seconds
        self.wall.seconds += seconds

    # --- events ---

    @rule()
    def batch_is_anchored(self) -> None:
        number = len(self.batches)
        envelope = self.archive.keep_envelope(b"%d" % number)
        head = replace(header(number + 1, 1, number), anchored_at=U64(self.clock))
        plain = signed_receipt(number + 1)
        signed = replace(plain, receipt=replace(plain.receipt, envelope_hash=envelope))
        made = Anchored(number, name(1_000 + number), envelope, self.clock)
        self.archive.add_batch(head)
        self.archive.add_receipt(made.receipt, number, signed, (), "Good")
        self.archive.mark_batch(number, "CHECKED")
        self.batches.append(made)

    def windows_end(self) -> None:
        while self.first_open < len(self.batches) and self.batches[self.first_open].at + WINDOW_S < self.clock:
            self.first_open += 1

    @precondition(lambda self: self.first_open < len(self.batches))
    @rule(data=st.data())
    def dispute_is_opened(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.batches[self.first_open :]))
        if batch.number not in self.tried:  # the chain has one dispute of a receipt
            self.disputes[name(5_000 + batch.number)] = batch
            self.tried.add(batch.number)

    @precondition(lambda self: self.disputes)
    @rule(data=st.data())
    def seat_is_drawn(self, data: st.DataObject) -> None:
        dispute = data.draw(st.sampled_from(sorted(self.disputes)))
        if dispute not in self.seated:
            self.seated.add(dispute)
            self.votes_due[dispute] = self.duties.add("vote", dispute, self.clock + 200).deadline

    @precondition(lambda self: self.votes_due.keys() & self.disputes.keys())
    @rule(data=st.data())
    def vote_is_protected_and_revealed(self, data: st.DataObject) -> None:
        dispute = data.draw(st.sampled_from(sorted(self.votes_due.keys() & self.disputes.keys())))
        Protection(self.engine, self.wall).sign_once(vote(dispute=int.from_bytes(dispute)), Blob(b""))
        self.votes = count(self.engine, ProtectedVoteRow)
        self.duties.done("vote", dispute, "revealed")
        del self.votes_due[dispute]

    @precondition(lambda self: self.disputes)
    @rule(data=st.data())
    def dispute_ends(self, data: st.DataObject) -> None:
        del self.disputes[data.draw(st.sampled_from(sorted(self.disputes)))]

    @precondition(lambda self: self.first_open < len(self.batches))
    @rule(data=st.data())
    def audit_is_drawn(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.batches[self.first_open :]))
        if self.audits.add(batch.receipt, batch.at + WINDOW_S).state == "PENDING":
            self.running.add(batch.receipt)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), state=st.sampled_from(["DONE", "FAILED"]))
    def audit_ends(self, data: st.DataObject, state: str) -> None:
        receipt = data.draw(st.sampled_from(sorted(self.running)))
        self.audits.mark(receipt, state)
        self.running.discard(receipt)

    @rule()
    def operator_anchors(self) -> None:
        seq = self.store.next_seq()
        signed = signed_receipt(seq)
        self.store.issue(name(seq), [IssuedReceipt(name(9_000 + seq), signed, b"sealed", b"answer", self.clock)])
        self.store.add_batch(header(seq, 1), b"list")
        self.store.anchored(seq)
        self.own.append((seq, self.clock))

    @precondition(lambda self: self.released < len(self.own))
    @rule()
    def collateral_is_released(self) -> None:
        self.released += 1

    @rule()
    def transaction_is_planned(self) -> None:
        self.used += 1
        intent = Intent(ACCOUNT, "settle", self.used.to_bytes(8), "test", b"data", 0, 0)
        self.open_rows.append(self.outbox.plan(intent).id)

    @precondition(lambda self: self.open_rows)
    @rule()
    def transaction_is_confirmed(self) -> None:
        item = self.open_rows.pop(0)
        self._mine(item)
        self.confirmed.append(item)

    @precondition(lambda self: self.open_rows)
    @rule()
    def transaction_is_superseded(self) -> None:
        self.outbox.mark(self.open_rows.pop(0), OutboxState.SUPERSEDED)

    @precondition(lambda self: self.open_rows)
    @rule()
    def transaction_reverts(self) -> None:
        item = self.open_rows.pop(0)
        self._sign(item)
        self.outbox.mark(item, OutboxState.MINED, block_number=1, block_hash=name(1))
        self.outbox.mark(item, OutboxState.REVERTED, block_number=1, block_hash=name(1))

    @precondition(lambda self: self.confirmed)
    @rule()
    def transaction_is_final(self) -> None:
        self.outbox.mark(self.confirmed.pop(0), OutboxState.FINAL)

    def _sign(self, item: int) -> None:
        made = self.outbox.sign(item, 0, lambda nonce: SignedTransaction(Blob(b"raw"), name(7_000 + nonce)))
        self.outbox.broadcast(item, made.tx_hash)

    def _mine(self, item: int) -> None:
        self._sign(item)
        self.outbox.mark(item, OutboxState.MINED, block_number=1, block_hash=name(1))
        self.outbox.mark(item, OutboxState.CONFIRMED)

    @rule(seconds=st.sampled_from([1, WINDOW_S + 1, DISPUTE_S // 2, DISPUTE_S, 2 * STAKE_S, 4 * STAKE_S]))
    def time_passes(self, seconds: int) -> None:
        self._pass(seconds)
        self.windows_end()
        self.prune()

    @rule(seconds=st.sampled_from([WINDOW_S, DISPUTE_S, 2 * STAKE_S]))
    def protocol_clock_stands_still(self, seconds: int) -> None:
        self.wall.seconds += seconds

    @rule()
    def prune(self) -> None:
        cases = self.disputes.values()
        self.retention.prune(
            Horizon(
                self.clock, DISPUTE_S, STAKE_S, frozenset(self.disputes),
                frozenset(case.receipt for case in cases) | {name(9_000 + seq) for seq in self._disputed_own()},
                frozenset(case.number for case in cases), self.first_open, self._locked_from(),
            )
        )  # fmt: skip

    def _disputed_own(self) -> set[int]:
        """Every fifth of the operator's receipts is disputed as long as anything is."""
        return {seq for seq, _ in self.own if seq % 5 == 0} if self.disputes else set()

    def _locked_from(self) -> int:
        return self.own[self.released][0] if self.released < len(self.own) else len(self.own) + 1

    # --- what is still needed ---

    @invariant()
    def nothing_needed_is_gone(self) -> None:
        if not hasattr(self, "engine"):
            return
        disputed = {case.number for case in self.disputes.values()}
        for batch in self.batches:
            is_young = self.clock - batch.at < DISPUTE_S
            if batch.number >= self.first_open or batch.number in disputed or is_young or batch.receipt in self.running:
                assert self.archive.batch(batch.number) is not None
                assert self.archive.receipt(batch.receipt) is not None
                assert self.archive.envelope(batch.envelope) is not None
        assert {each.receipt_id for each in self.audits.audits("PENDING")} == self.running
        pending = {each.subject for each in self.duties.pending()}
        for dispute, deadline in self.votes_due.items():
            assert dispute in pending or (dispute not in self.disputes and deadline + SWEEP_S < self.clock)
        rows = {item.id for item in self.outbox.all()}
        assert rows >= {*self.open_rows, *self.confirmed}
        for seq, at in self.own:
            held = seq >= self._locked_from() or seq in self._disputed_own() or seq == self.own[-1][0]
            if held or self.clock - at < DISPUTE_S:
                assert self.store.envelope(name(9_000 + seq)) == b"sealed"
                assert self.store.list_data(seq) is not None
        assert count(self.engine, ProtectedVoteRow) == self.votes


def test_nothing_needed_is_deleted_in_any_order_of_events() -> None:
    case = NodeHistory.TestCase
    case.settings = settings(
        max_examples=10, stateful_step_count=30, deadline=None, phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    case().runTest()


@pytest.fixture
def long_ago(engine: Engine, clock: HandClock) -> Horizon:
    """A horizon far after everything that a test stores."""
    return Horizon(clock.now() + 1_000 * DAY_S, DISPUTE_S, STAKE_S, first_open_batch=100)


def test_overdue_duty_of_a_stopped_node_is_missed_or_done(engine: Engine, clock: HandClock, long_ago: Horizon) -> None:
    duties, lease = Duties(engine, clock), NonceLease(engine, clock, 31337, ACCOUNT)
    for number in (1, 2, 3):
        duties.add("vote.2", name(number), clock.now() + 100)
    lease.acquire()
    outbox = Outbox(lease)
    row = outbox.plan(Intent(ACCOUNT, "reveal", name(2) + (2).to_bytes(2, "big"), "member", b"x", 0, 0))
    outbox.sign(row.id, 0, lambda nonce: SignedTransaction(Blob(b"raw"), name(nonce)))
    outbox.mark(row.id, OutboxState.MINED, block_number=1, block_hash=name(1))
    outbox.mark(row.id, OutboxState.CONFIRMED)
    keep = HousekeepingSettings(duties_days=10_000)
    gone = Retention(engine, keep).prune(long_ago._replace(disputes=frozenset({name(3)})))
    assert gone["duty_swept"] == 2
    assert {each.subject: each.state for each in duties.all()} == {name(1): MISSED, name(2): DONE, name(3): PENDING}


def test_final_transactions_go_and_no_nonce_is_used_again(engine: Engine, clock: HandClock, long_ago: Horizon) -> None:
    lease = NonceLease(engine, clock, 31337, ACCOUNT)
    lease.acquire()
    outbox = Outbox(lease)
    for number in range(5):
        row = outbox.plan(Intent(ACCOUNT, "settle", bytes([number]), "test", b"x", 0, 0))
        outbox.sign(row.id, 0, lambda nonce: SignedTransaction(Blob(b"raw"), name(nonce)))
        outbox.mark(row.id, OutboxState.MINED, block_number=1, block_hash=name(1))
        if number < 4:
            outbox.mark(row.id, OutboxState.CONFIRMED)
        if number < 3:
            outbox.mark(row.id, OutboxState.FINAL)
    assert Retention(engine, NOTHING_EXTRA).prune(long_ago)["transaction"] == 2
    assert [(item.nonce, item.state) for item in outbox.all()] == [
        (2, OutboxState.FINAL), (3, OutboxState.CONFIRMED), (4, OutboxState.MINED),
    ]  # fmt: skip
    assert count(engine, OutboxAttemptRow) == 3 and lease.next_nonce(0) == 5


def test_journal_is_never_pruned(engine: Engine, clock: HandClock, long_ago: Horizon) -> None:
    journal = Journal(engine, Ed25519PrivateKey.generate(), clock)
    for number in range(3):
        journal.append("act.Test", bytes([number]), {})
    Retention(engine, NOTHING_EXTRA).prune(long_ago)
    journal.verify_journal()
    assert count(engine, JournalRow) == 3


def test_size_of_the_file_stays_flat_while_records_come_and_go(sqlite_engine: Engine, clock: HandClock) -> None:
    archive, sizes = Archive(sqlite_engine, clock), []
    retention = Retention(sqlite_engine, NOTHING_EXTRA)
    for turn in range(6):
        for number in range(60):
            archive.keep_envelope(bytes([turn, number]) * 8_000)
        clock.seconds += 2 * DISPUTE_S
        retention.prune(Horizon(clock.now(), DISPUTE_S, STAKE_S))
        retention.compact()
        with read_transaction(sqlite_engine) as connection:
            sizes.append(connection.exec_driver_sql("PRAGMA page_count").scalar_one())
    assert max(sizes[1:]) <= sizes[0] + 8, sizes


def test_full_disk_while_pages_are_returned_is_no_bug(
    sqlite_engine: Engine, clock: HandClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug ends the process. Here no file may grow, so the statements of `compact` fail in the driver."""
    archive, retention = Archive(sqlite_engine, clock), Retention(sqlite_engine, NOTHING_EXTRA)
    for number in range(60):
        archive.keep_envelope(bytes([number]) * 8_000)
    clock.seconds += 2 * DISPUTE_S
    horizon = Horizon(clock.now(), DISPUTE_S, STAKE_S)
    retention.prune(horizon)
    job = housekeeping_job(sqlite_engine, NOTHING_EXTRA, lambda: horizon, threading.Event(), lambda _before: 3)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        with pytest.raises(TryAgain, match="database is unavailable"):
            retention.compact()
        with pytest.raises(TryAgain, match="database is unavailable"):
            job.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert '"inbox":3' in capsys.readouterr().err, "what was deleted is said all the same"
    assert retention.compact() > 0


def test_corrupt_file_is_named_while_pages_are_returned(sqlite_engine: Engine, clock: HandClock) -> None:
    archive, retention = Archive(sqlite_engine, clock), Retention(sqlite_engine, NOTHING_EXTRA)
    for number in range(60):
        archive.keep_envelope(bytes([number]) * 8_000)
    clock.seconds += 2 * DISPUTE_S
    retention.prune(Horizon(clock.now(), DISPUTE_S, STAKE_S))
    file = Path(str(sqlite_engine.url.database))
    sqlite_engine.dispose()  # The last connection writes all pages into the file.
    with file.open("r+b") as opened:
        head = opened.read(36)
        size, first_free = int.from_bytes(head[16:18]), int.from_bytes(head[32:36])
        opened.seek((first_free - 1) * size)
        opened.write(b"\xff" * size)
    with pytest.raises(StoreCorrupt, match="malformed"):
        retention.compact()


def test_job_says_what_it_deleted_and_waits_for_a_block(
    engine: Engine, clock: HandClock, capsys: pytest.CaptureFixture[str]
) -> None:
    Archive(engine, clock).keep_envelope(b"sealed")
    seen: list[Horizon | None] = [None]
    job = housekeeping_job(engine, NOTHING_EXTRA, lambda: seen[0], threading.Event())
    before = value_of("bytewise_housekeeping_deleted_total", what="envelope")
    job.run()
    assert count(engine, ArchivedEnvelopeRow) == 1
    seen[0] = Horizon(clock.now() + DAY_S, DISPUTE_S, STAKE_S)
    job.run()
    assert count(engine, ArchivedEnvelopeRow) == 0
    assert value_of("bytewise_housekeeping_deleted_total", what="envelope") == before + 1
