"""Deletes records that nothing can need any more (design section 14). It never deletes votes and journal entries.

`Retention` keeps the records that the chain still needs (`Horizon`), and the records that are younger than the settings require.
Whatever the settings are, a record is deleted only after the longest possible dispute of its receipt, on the protocol clock.
Each transaction is short, so a vote never waits for it. After a crash between two transactions, the next start continues.
`housekeeping_job` is the periodic job that calls `Retention` and logs the number of deleted records.
"""

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Connection, Engine, delete, func, select, text, update

from bytewise.protocol import encoding
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.records.receipt import BatchHeader
from bytewise.protocol.units import Digest
from bytewise.service import metrics, telemetry
from bytewise.service.schedule import PeriodicJob
from bytewise.service.sections import DAY_S, HousekeepingSettings
from bytewise.storage.archive import ENDED_AUDITS
from bytewise.storage.duties import DONE, MISSED, PENDING
from bytewise.storage.engine import driver_connection, read_transaction, write_transaction
from bytewise.storage.outbox import OPEN, OutboxState
from bytewise.storage.receipt_store import ANCHORED
from bytewise.storage.tables import (
    ArchivedEnvelopeRow,
    DutyRow,
    IssuedReceiptRow,
    LightAuditRow,
    OutboxAttemptRow,
    OutboxRow,
    OwnBatchRow,
    SeenBatchRow,
    SeenReceiptRow,
)

PAGE = 200
"""Most rows that one transaction examines."""
VACUUM_PAGES = 2_000
"""Pages that one transaction of SQLite returns to the file system."""
SWEEP_S = 600
"""Seconds after its deadline at which an open duty counts as missed. The code that does the duty has ended it by then."""

_REVEALS = ("reveal", "revealUnderRoot")
_SENT = (OutboxState.CONFIRMED, OutboxState.FINAL)


class Horizon(NamedTuple):
    """The records that the chain still needs, according to one block."""

    clock: int
    """Protocol clock of the block in seconds, but never more than the timestamp of the block."""
    dispute_s: int
    """Longest time in seconds from issuing a receipt to the end of its last possible dispute, under any parameters so far."""
    stake_s: int
    """Longest unbonding time in seconds. An operator can be penalised until it ends."""
    disputes: frozenset[Digest] = frozenset()
    """Ids of the disputes that can still change."""
    disputed: frozenset[Digest] = frozenset()
    """Ids of the receipts of those disputes."""
    disputed_batches: frozenset[int] = frozenset()
    """Numbers of the batches of those disputes."""
    first_open_batch: int = 0
    """Number of the first batch whose challenge window may be open, or whose list the operator must still show."""
    first_locked_seq: int = 0
    """For an operator, the number of its first receipt whose collateral is not released. Otherwise 0."""


class ParamsReader(Protocol):
    """The part of the chain that `HorizonWatch` reads."""

    def params(self, version: int, block: int) -> ParamSet:
        """Returns one version of the network's parameters."""
        ...


class HorizonWatch:
    """The newest `Horizon` of a node. A tick calls `note`, and another thread reads `newest`, which is None before the first
    tick."""

    def __init__(self, chain: ParamsReader) -> None:
        self._chain = chain
        self.newest: Horizon | None = None

    def note(self, snapshot: Snapshot, first_locked_seq: int = 0) -> None:
        """Computes the horizon from a snapshot. An operator passes `first_locked_seq`, the number of its first receipt whose
        collateral is not released."""
        # A batch keeps the parameters under which it was anchored, so the longest of all versions count.
        versions = [self._chain.params(version, snapshot.number) for version in range(1, snapshot.params_version + 1)]
        self.newest = Horizon(
            clock=min(snapshot.clock, snapshot.timestamp),
            dispute_s=max(each.longest_dispute for each in versions),
            stake_s=max(each.times.unbond_delay for each in versions),
            disputes=frozenset(case.id for case in snapshot.disputes),
            disputed=frozenset(case.receipt_id for case in snapshot.disputes),
            disputed_batches=frozenset(case.batch_id for case in snapshot.disputes),
            first_open_batch=snapshot.batches[0].batch_id if snapshot.batches else snapshot.batch_count,
            first_locked_seq=first_locked_seq,
        )


class Retention:
    """Deletes old records from the database of one process."""

    def __init__(self, engine: Engine, settings: HousekeepingSettings, stopping: Callable[[], bool] = lambda: False) -> None:
        """Creates the object. `stopping` is called between two transactions. If it returns true, no further transaction
        begins."""
        self._engine = engine
        self._settings = settings
        self._stopping = stopping

    def prune(self, horizon: Horizon) -> Counter[str]:
        """Deletes the rows that are old enough, and returns their number by kind.

        A second run with the same horizon deletes nothing.
        """
        settings, gone = self._settings, Counter[str]()
        kept_s = max(horizon.dispute_s, horizon.stake_s)
        by_receipts = self.receipts_before(horizon)
        gone["duty_swept"] = self._sweep(horizon)
        gone["envelope"] = self._paged(
            lambda after: self._envelopes(horizon, horizon.clock - max(horizon.dispute_s, settings.envelopes_days * DAY_S), after)
        )
        gone["receipt"] = self._paged(lambda after: self._batches(horizon, by_receipts, after))
        gone["audit"] = self._audits(by_receipts)
        gone["duty"] = self._duties(horizon, horizon.clock - max(horizon.dispute_s, settings.duties_days * DAY_S))
        gone["transaction"] = self._transactions(horizon.clock - max(kept_s, settings.transactions_days * DAY_S))
        gone["own_envelope"] = self._paged(
            lambda after: self._own_envelopes(
                horizon, horizon.clock - max(horizon.dispute_s, settings.envelopes_days * DAY_S), after
            )
        )
        gone["own_receipt"] = self._paged(lambda after: self._own_batches(horizon, by_receipts, after))
        return gone

    def receipts_before(self, horizon: Horizon) -> int:
        """Returns the Unix second before which neither the chain nor the settings need any record of a receipt."""
        return horizon.clock - max(horizon.dispute_s, horizon.stake_s, self._settings.receipts_days * DAY_S)

    def compact(self) -> int:
        """Returns the free pages of a SQLite file to the file system, and returns their number.

        PostgreSQL does this itself (autovacuum). Raises `TryAgain` if the database is busy or its disk is full.
        """
        if self._engine.dialect.name != "sqlite":
            return 0
        freed = 0
        with driver_connection(self._engine) as connection:
            before = _pragma(connection, "freelist_count")
            while not self._stopping() and before:
                # One step of the statement frees one page. Only `executescript` runs all steps.
                _sqlite_of(connection).executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
                left = _pragma(connection, "freelist_count")
                freed += before - left
                if left >= before:
                    break
                before = left
            _sqlite_of(connection).executescript("PRAGMA wal_checkpoint(PASSIVE)")
        return freed

    def _paged(self, page: Callable[[Any], tuple[int, Any]]) -> int:
        """Deletes all pages of one kind and returns the number of rows.

        Each call of `page` gets the last key of the page before. It returns the number of deleted rows and its own last key, or
        None at the end.
        """
        total, after = 0, None
        while not self._stopping():
            gone, after = page(after)
            total += gone
            if after is None:
                break
        return total

    def _sweep(self, horizon: Horizon) -> int:
        """Ends the duties whose deadline passed while this process did not run, and returns their number.

        A duty whose vote was revealed ends as DONE, any other as MISSED. A duty stays open while its dispute can still change.
        """
        late = (DutyRow.state == PENDING, DutyRow.deadline + SWEEP_S < horizon.clock)
        with write_transaction(self._engine) as connection:
            rows = connection.execute(select(DutyRow.kind, DutyRow.subject).where(*late)).all()
            ended = [row for row in rows if row.subject not in horizon.disputes]
            for kind, subject in ended:
                state = DONE if _was_revealed(connection, kind, subject) else MISSED
                one = update(DutyRow).where(DutyRow.kind == kind, DutyRow.subject == subject, DutyRow.state == PENDING)
                connection.execute(one.values(state=state, detail="ended while this node did not run", updated_at=horizon.clock))
                metrics.DUTIES.labels(kind=kind.partition(".")[0], result=state.lower()).inc()
        return len(ended)

    def _envelopes(self, horizon: Horizon, before: int, after: bytes | None) -> tuple[int, bytes | None]:
        old = select(ArchivedEnvelopeRow.envelope_hash).where(ArchivedEnvelopeRow.archived_at < before)
        if after is not None:
            old = old.where(ArchivedEnvelopeRow.envelope_hash > after)
        with write_transaction(self._engine) as connection:
            page = connection.execute(old.order_by(ArchivedEnvelopeRow.envelope_hash).limit(PAGE)).scalars().all()
            used = (
                select(SeenReceiptRow.envelope_hash, SeenReceiptRow.receipt_id, SeenBatchRow.batch_id, SeenBatchRow.header)
                .join(SeenBatchRow, SeenBatchRow.batch_id == SeenReceiptRow.batch_id)
                .where(SeenReceiptRow.envelope_hash.in_(page))
            )
            rows = connection.execute(used).all()
            audited = _audited(connection, [row.receipt_id for row in rows])
            needed = {
                row.envelope_hash for row in rows
                if row.receipt_id in audited or row.receipt_id in horizon.disputed
                or _is_needed(row.batch_id, row.header, horizon, before)
            }  # fmt: skip
            gone = [each for each in page if each not in needed]
            connection.execute(delete(ArchivedEnvelopeRow).where(ArchivedEnvelopeRow.envelope_hash.in_(gone)))
        return len(gone), page[-1] if len(page) == PAGE else None

    def _batches(self, horizon: Horizon, before: int, after: int | None) -> tuple[int, int | None]:
        old = select(SeenBatchRow.batch_id, SeenBatchRow.header).where(
            SeenBatchRow.seen_at < before, SeenBatchRow.batch_id < horizon.first_open_batch
        )
        if after is not None:
            old = old.where(SeenBatchRow.batch_id > after)
        with write_transaction(self._engine) as connection:
            page = connection.execute(old.order_by(SeenBatchRow.batch_id).limit(PAGE)).all()
            ids = [row.batch_id for row in page if not _is_needed(row.batch_id, row.header, horizon, before)]
            members = select(SeenReceiptRow.batch_id, SeenReceiptRow.receipt_id).where(SeenReceiptRow.batch_id.in_(ids))
            rows = connection.execute(members).all()
            audited = _audited(connection, [row.receipt_id for row in rows])
            kept = {row.batch_id for row in rows if row.receipt_id in audited or row.receipt_id in horizon.disputed}
            gone = [each for each in ids if each not in kept]
            count = connection.execute(delete(SeenReceiptRow).where(SeenReceiptRow.batch_id.in_(gone))).rowcount
            connection.execute(delete(SeenBatchRow).where(SeenBatchRow.batch_id.in_(gone)))
        return count, page[-1].batch_id if len(page) == PAGE else None

    def _audits(self, before: int) -> int:
        """Deletes ended audits whose receipt is deleted.

        While the receipt is stored, its audit stays, because otherwise the verifier could draw and sign the audit again.
        """
        receipt = select(SeenReceiptRow.receipt_id).where(SeenReceiptRow.receipt_id == LightAuditRow.receipt_id).exists()
        old = (LightAuditRow.state.in_(ENDED_AUDITS), LightAuditRow.deadline < before, LightAuditRow.updated_at < before)
        with write_transaction(self._engine) as connection:
            return connection.execute(delete(LightAuditRow).where(*old, ~receipt)).rowcount

    def _duties(self, horizon: Horizon, before: int) -> int:
        """Deletes old ended duties.

        A duty stays while its dispute can still change, and a declined duty while its dispute can still be opened.
        """
        old = (DutyRow.state != PENDING, DutyRow.deadline < before, DutyRow.updated_at < before)
        with write_transaction(self._engine) as connection:
            return connection.execute(delete(DutyRow).where(*old, DutyRow.subject.not_in(horizon.disputes))).rowcount

    def _transactions(self, before: int) -> int:
        """Deletes ended transactions of which no version can be mined any more.

        All their nonces are below that of a final transaction of the account. The newest final transaction stays as the proof.
        It also prevents the outbox from signing anything twice.
        """
        gone = 0
        with read_transaction(self._engine) as connection:
            final = select(OutboxRow.chain_id, OutboxRow.account, func.max(OutboxRow.nonce)).where(
                OutboxRow.state == OutboxState.FINAL
            )
            accounts = connection.execute(final.group_by(OutboxRow.chain_id, OutboxRow.account)).all()
            everybody = connection.execute(select(OutboxRow.chain_id, OutboxRow.account).distinct()).all()
        newest = {(chain_id, account): int(nonce or 0) for chain_id, account, nonce in accounts}
        for chain_id, account in everybody:
            more = True
            while more and not self._stopping():
                count = self._transactions_of(chain_id, account, newest.get((chain_id, account), 0), before)
                gone, more = gone + count, count == PAGE
        return gone

    def _transactions_of(self, chain_id: str, account: str, final_nonce: int, before: int) -> int:
        attempts = select(OutboxAttemptRow.outbox_id).where(
            OutboxAttemptRow.outbox_id == OutboxRow.id, OutboxAttemptRow.nonce >= final_nonce
        )
        old = (
            OutboxRow.chain_id == chain_id, OutboxRow.account == account,
            OutboxRow.state.not_in((*OPEN, OutboxState.CONFIRMED)), OutboxRow.updated_at < before, OutboxRow.deadline < before,
            ~attempts.exists(),
        )  # fmt: skip
        with write_transaction(self._engine) as connection:
            ids = connection.execute(select(OutboxRow.id).where(*old).order_by(OutboxRow.id).limit(PAGE)).scalars().all()
            connection.execute(delete(OutboxAttemptRow).where(OutboxAttemptRow.outbox_id.in_(ids)))
            connection.execute(delete(OutboxRow).where(OutboxRow.id.in_(ids)))
        return len(ids)

    def _own_envelopes(self, horizon: Horizon, before: int, after: int | None) -> tuple[int, int | None]:
        """Deletes the operator's copies of envelopes. The receipts stay."""
        with write_transaction(self._engine) as connection:
            page, firsts = _own_old_batches(connection, horizon, before, after)
            emptied = update(IssuedReceiptRow).where(
                IssuedReceiptRow.batch_first_seq.in_(firsts), func.length(IssuedReceiptRow.envelope) > 0
            )
            count = connection.execute(emptied.values(envelope=b"")).rowcount
        return count, page[-1] if len(page) == PAGE else None

    def _own_batches(self, horizon: Horizon, before: int, after: int | None) -> tuple[int, int | None]:
        with write_transaction(self._engine) as connection:
            page, firsts = _own_old_batches(connection, horizon, before, after)
            count = connection.execute(delete(IssuedReceiptRow).where(IssuedReceiptRow.batch_first_seq.in_(firsts))).rowcount
            connection.execute(delete(OwnBatchRow).where(OwnBatchRow.first_seq.in_(firsts)))
        return count, page[-1] if len(page) == PAGE else None


def housekeeping_job(
    engine: Engine, settings: HousekeepingSettings, horizon: Callable[[], Horizon | None], stop: threading.Event,
    prune_inbox: Callable[[int], int] = lambda _before: 0,
) -> PeriodicJob:  # fmt: skip
    """Returns the periodic job that deletes old records from the database of one process.

    `horizon` returns the records that the chain still needs. The job does nothing while `horizon` returns None. `prune_inbox`
    gets a Unix second, deletes the files of receipts that are older, and returns how many it deleted.
    """
    retention = Retention(engine, settings, stop.is_set)

    def run() -> None:
        needed = horizon()
        if needed is None:
            return
        gone = +retention.prune(needed)
        inbox = prune_inbox(retention.receipts_before(needed))
        if inbox:
            gone["inbox"] = inbox
        for what, count in gone.items():
            metrics.DELETED.labels(what=what).inc(count)
        freed = 0
        try:
            freed = retention.compact()
        finally:
            if gone:
                telemetry.log("housekeeping.deleted", freed_pages=freed, clock=needed.clock, **gone)

    return PeriodicJob("housekeeping", run, settings.every_s)


def _own_old_batches(connection: Connection, horizon: Horizon, before: int, after: int | None) -> tuple[Sequence[int], list[int]]:
    """Returns the first numbers of a page of the operator's anchored batches, and the first numbers of those that nothing needs.

    The newest batch stays, because the next batch follows its numbers.
    """
    newest = select(func.max(OwnBatchRow.first_seq)).scalar_subquery()
    old = select(OwnBatchRow.first_seq).where(
        OwnBatchRow.state == ANCHORED, OwnBatchRow.created_at < before, OwnBatchRow.first_seq < newest,
        OwnBatchRow.first_seq + OwnBatchRow.receipts <= horizon.first_locked_seq,
    )  # fmt: skip
    if after is not None:
        old = old.where(OwnBatchRow.first_seq > after)
    page = connection.execute(old.order_by(OwnBatchRow.first_seq).limit(PAGE)).scalars().all()
    members = IssuedReceiptRow.batch_first_seq.in_(page)
    late = select(IssuedReceiptRow.batch_first_seq).where(members, IssuedReceiptRow.issued_at >= before)
    kept = set(connection.execute(late).scalars())
    for ids in _pages(list(horizon.disputed)):
        disputed = select(IssuedReceiptRow.batch_first_seq).where(members, IssuedReceiptRow.receipt_id.in_(ids))
        kept |= set(connection.execute(disputed).scalars())
    return page, [each for each in page if each not in kept]


def _pages(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (values[start : start + PAGE] for start in range(0, len(values), PAGE))


def _is_needed(batch_id: int, header: bytes, horizon: Horizon, before: int) -> bool:
    """Returns whether a batch was anchored at or after `before`, or its receipts can still be disputed or demanded."""
    if batch_id >= horizon.first_open_batch or batch_id in horizon.disputed_batches:
        return True
    return encoding.decode(BatchHeader, header).anchored_at >= before


def _audited(connection: Connection, receipts: Sequence[bytes]) -> set[bytes]:
    """Returns the receipts among `receipts` whose light audit has not ended."""
    running: set[bytes] = set()
    for ids in _pages(receipts):
        query = select(LightAuditRow.receipt_id).where(
            LightAuditRow.receipt_id.in_(ids), LightAuditRow.state.not_in(ENDED_AUDITS)
        )
        running |= set(connection.execute(query).scalars())
    return running


def _was_revealed(connection: Connection, kind: str, subject: bytes) -> bool:
    """Returns whether the chain has the transaction that reveals the vote of a duty.

    The kind is `vote`, or `vote.N` in a later round.
    """
    name, _, number = kind.partition(".")
    if name != "vote" or not (number or "1").isdigit():
        return False
    step = subject + int(number or "1").to_bytes(2, "big")
    query = select(OutboxRow.id).where(OutboxRow.subject == step, OutboxRow.function.in_(_REVEALS), OutboxRow.state.in_(_SENT))
    return connection.execute(query.limit(1)).scalar_one_or_none() is not None


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.execute(text(f"PRAGMA {name}")).scalar_one())


def _sqlite_of(connection: Connection) -> sqlite3.Connection:
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw
