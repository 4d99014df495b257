"""The hash-chained release records of a shard, and the counts that limit its releases (design section 8).

A record and the changed counts are committed in one transaction, so a restart cannot reset the counts.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, Engine, func, insert, select, update

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ReleaseLogBroken, StoreCorrupt
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.keys.epochs import RELEASES
from bytewise.protocol.keys.release_log import START, LogHead, SignedRelease, SignedReleaseEvidence, SignedTicket, verify_log
from bytewise.protocol.records.statements import Release, Ticket, TicketKind
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.units import Blob, Digest
from bytewise.storage.engine import insert_if_new, lock_name, read_transaction, write_transaction
from bytewise.storage.tables import AuditBudgetRow, ReleaseInstanceRow, ReleaseRow

T = TypeVar("T")

PAGE = 200
"""Most records in one page. A page is one answer to a reader of the release log."""

PAGE_BYTES = 2**19
"""Most bytes of a page, unless its first record alone is larger. A record with the largest GPU claims has 150 KB."""

_FRAME = len(b'{"entries":[]}') - len(b",")
_AROUND = len(b'{"grounds":,"record":,"right":,"signature":"0x"},')


class Usage(NamedTuple):
    """Facts about earlier releases, which the shard compares with its limits."""

    instances: frozenset[Digest]
    """Enclave instances that already received a partial under the right of this ticket."""
    audits: int
    """Number of distinct audits in this key epoch for which a partial was released."""
    of_receipt: int
    """Number of records for the ticket's receipt, from all callers."""
    given: Callable[[], int]
    """Function that returns how many of those records released a partial to the ticket's instance under this right. Each call
    reads all those records."""
    newest: int
    """Newest `decided_at` among the records of this key epoch. It is 0 if there is no record."""


class ReleaseRecords:
    """Database store of the release records of one shard. `domain` is the signing domain of the contract `KeyEpochs`."""

    def __init__(self, engine: Engine, domain: Domain, recorded: Callable[[SignedRelease], None] = lambda _: None) -> None:
        """Creates the database store. It calls `recorded` with each record after the commit."""
        self._recorded = recorded
        self._engine = engine
        self._domain = domain
        self._dated: dict[int, tuple[int, int]] = {}
        """For each epoch: index of the first record whose date was not read yet, and the newest date before it."""

    def append(self, ticket: Ticket, decide: Callable[[Usage, LogHead], SignedRelease]) -> SignedRelease:
        """Calls `decide` with the usage that counts for the ticket and the head of the records, and commits the record that it
        returns.

        Returns the same record. If `decide` raises, nothing changes.
        """
        epoch, right = ticket.key_epoch, right_id(ticket)
        with write_transaction(self._engine) as connection:
            lock_name(connection, f"release {epoch}")
            usage, head = self._usage(connection, ticket, right), self._head(connection, epoch)
            signed = decide(usage, head)
            self._insert(connection, signed)
            if signed.record.decision in RELEASES:
                insert_if_new(connection, ReleaseInstanceRow, right_id=right, instance=ticket.instance)
                if ticket.kind == TicketKind.AUDIT.value and not usage.instances:
                    _count_audit(connection, epoch)
        self._recorded(signed)
        return signed

    def page(self, epoch: int, first: int) -> tuple[SignedRelease, ...]:
        """Returns at most `PAGE` records of a key epoch, from index `first` on, and fewer if they would exceed `PAGE_BYTES`.

        It loads only the records that it returns, because anybody may ask for them.
        """
        lengths = (
            func.coalesce(func.length(each), 4)
            for each in (ReleaseRow.record, ReleaseRow.signed_ticket, ReleaseRow.release_evidence)
        )
        rows = ReleaseRow.epoch == epoch, ReleaseRow.number >= first
        sizes = select(ReleaseRow.number, *lengths, func.length(ReleaseRow.signature)).where(*rows)
        with read_transaction(self._engine) as connection:
            found = connection.execute(sizes.order_by(ReleaseRow.number).limit(PAGE)).all()
            totals = itertools.accumulate(
                (_AROUND + sum(parts) + 2 * signature for _, *parts, signature in found), initial=_FRAME
            )
            fits = sum(total <= PAGE_BYTES for total in totals) - 1
            if not found:
                return ()
            last = found[max(fits, 1) - 1].number
            query = select(*_ENTRY).where(*rows, ReleaseRow.number <= last)
            return tuple(_entry(*row) for row in connection.execute(query.order_by(ReleaseRow.number)))

    def verify_chain(self, epoch: int) -> LogHead:
        """Recomputes the hash chain of a key epoch's records and returns its head.

        Raises `StoreCorrupt` for the first record that does not continue the chain.
        """
        head, newest = START, 0
        while entries := self.page(epoch, head.next_index):
            try:
                head = verify_log(entries, head, self._domain)
            except ReleaseLogBroken as error:
                raise StoreCorrupt("release records", str(error)) from None
            newest = max(newest, *(each.record.decided_at for each in entries))
        stored = self.head(epoch)
        if stored != head:
            raise StoreCorrupt("release records", f"head is {stored.next_index}, records end at {head.next_index}")
        self._dated[epoch] = head.next_index, newest
        return head

    def epochs(self) -> tuple[int, ...]:
        """Returns the key epochs that have a record, in ascending order."""
        with read_transaction(self._engine) as connection:
            return tuple(connection.execute(select(ReleaseRow.epoch).distinct().order_by(ReleaseRow.epoch)).scalars())

    def head(self, epoch: int) -> LogHead:
        """Returns the head of a key epoch's records, as it is stored. It verifies nothing."""
        with read_transaction(self._engine) as connection:
            return self._head(connection, epoch)

    def digest_of(self, epoch: int, index: int) -> Digest | None:
        """Returns the stored EIP-712 digest of a record, or None if there is no record with this index."""
        query = select(ReleaseRow.digest).where(ReleaseRow.epoch == epoch, ReleaseRow.number == index)
        with read_transaction(self._engine) as connection:
            found = connection.execute(query).scalar_one_or_none()
        return None if found is None else Digest(found)

    def _head(self, connection: Connection, epoch: int) -> LogHead:
        query = select(ReleaseRow.digest, ReleaseRow.number).where(ReleaseRow.epoch == epoch)
        row = connection.execute(query.order_by(ReleaseRow.number.desc()).limit(1)).one_or_none()
        return START if row is None else LogHead(Digest(row.digest), row.number + 1)

    def _newest(self, connection: Connection, epoch: int) -> int:
        # No column has the date, so each record is read once in a process. Dates may go back a little.
        first, newest = self._dated.get(epoch, (0, 0))
        query = select(ReleaseRow.number, ReleaseRow.record).where(ReleaseRow.epoch == epoch, ReleaseRow.number >= first)
        for number, record in connection.execute(query):
            first, newest = max(first, number + 1), max(newest, _stored(Release, record).decided_at)
        self._dated[epoch] = first, newest
        return newest

    def _usage(self, connection: Connection, ticket: Ticket, right: Digest) -> Usage:
        instances = connection.execute(select(ReleaseInstanceRow.instance).where(ReleaseInstanceRow.right_id == right)).scalars()
        spent = connection.execute(
            select(AuditBudgetRow.spent).where(AuditBudgetRow.epoch == ticket.key_epoch)
        ).scalar_one_or_none()
        # A receipt belongs to one epoch, and the index contains its id, so no row is read.
        where = ReleaseRow.receipt_id == ticket.receipt_id
        count = connection.execute(select(func.count()).select_from(ReleaseRow).where(where)).scalar_one()

        def of_instance() -> int:
            query = select(*_ENTRY).where(where)
            entries = (_entry(*row) for row in connection.execute(query))
            rights = (each.right.ticket for each in entries if each.right is not None and each.record.decision in RELEASES)
            return sum(each.instance == ticket.instance and right_id(each) == right for each in rights)

        newest = self._newest(connection, ticket.key_epoch)
        return Usage(frozenset(Digest(each) for each in instances), spent or 0, count, of_instance, newest)

    def _insert(self, connection: Connection, signed: SignedRelease) -> None:
        record = signed.record
        row = {
            "epoch": record.key_epoch,
            "number": record.index,
            "receipt_id": record.receipt_id,
            "ticket_hash": record.ticket_hash,
            "record": encode(record),
            "signature": signed.signature,
            "digest": typed_digest(self._domain, record),
            "signed_ticket": None if signed.right is None else encode(signed.right),
            "release_evidence": None if signed.grounds is None else encode(signed.grounds),
        }
        connection.execute(insert(ReleaseRow), row)


def right_id(ticket: Ticket) -> Digest:
    """Returns a digest that identifies the right of a ticket.

    It covers kind, subject, round, receipt and voter, but not the instance.
    """
    parts = (ticket.kind, ticket.subject, ticket.round, ticket.receipt_id, ticket.voter.encode())
    return digests.labelled(Label.RELEASE_RIGHT, *parts)


_ENTRY = ReleaseRow.record, ReleaseRow.signature, ReleaseRow.signed_ticket, ReleaseRow.release_evidence


def _entry(record: bytes, signature: bytes, right: bytes | None, grounds: bytes | None) -> SignedRelease:
    return SignedRelease(
        _stored(Release, record),
        Blob(signature),
        None if right is None else _stored(SignedTicket, right),
        None if grounds is None else _stored(SignedReleaseEvidence, grounds),
    )


def _stored(cls: type[T], data: bytes) -> T:
    try:
        return decode(cls, data)
    except Fault as error:
        raise StoreCorrupt("release records", str(error)[:120]) from None


def _count_audit(connection: Connection, epoch: int) -> None:
    insert_if_new(connection, AuditBudgetRow, epoch=epoch, spent=0)
    connection.execute(update(AuditBudgetRow).where(AuditBudgetRow.epoch == epoch).values(spent=AuditBudgetRow.spent + 1))
