"""A shard's hash-chained release records, with the counts that limit releases, in one transaction (design section 8).

The limits live in the same rows and the same commit as the records, so a restart cannot refill them.
"""

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Connection, Engine, insert, select, update

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors import BadSignature, Fault, StoreCorrupt
from bytewise.protocol.keys import Decision, SignedRelease
from bytewise.protocol.messages import Release, Ticket, TicketKind
from bytewise.protocol.signing import Domain, typed_digest, verify_signature
from bytewise.protocol.units import ZERO_DIGEST, Blob, Digest
from bytewise.storage.engine import insert_if_absent, reading, writing
from bytewise.storage.locks import alone
from bytewise.storage.tables_keys import BudgetRow, InstanceRow, ReleaseRow

PAGE = 200
"""Records of one log answer: below 200 KB."""


class LogHead(NamedTuple):
    """Where the next record goes."""

    digest: Digest
    """EIP-712 digest of the newest record; zero before the first."""
    next_index: int
    """Index of the next record."""


class Usage(NamedTuple):
    """What was released before, as limits count it."""

    instances: frozenset[Digest]
    """Enclave instances that got this right's key."""
    audits: int
    """Distinct audits released in this epoch."""


class ReleaseRecords:
    """The release records of one shard; `domain` is that of `KeyEpochs`."""

    def __init__(self, engine: Engine, domain: Domain) -> None:
        self._engine = engine
        self._domain = domain

    def append(self, ticket: Ticket, decide: Callable[[Usage, LogHead], SignedRelease]) -> SignedRelease:
        """Commits the record that `decide` makes for the ticket; if `decide` raises, nothing changes."""
        epoch, right = ticket.key_epoch, right_id(ticket)
        with writing(self._engine) as connection:
            alone(connection, f"release {epoch}")
            usage = _usage(connection, epoch, right)
            signed = decide(usage, self._head(connection, epoch))
            self._insert(connection, signed)
            if signed.record.decision == Decision.RELEASED.value:
                insert_if_absent(connection, InstanceRow, right_id=right, instance=ticket.instance)
                if ticket.kind == TicketKind.AUDIT.value and not usage.instances:
                    _count_audit(connection, epoch)
        return signed

    def page(self, epoch: int, first: int) -> tuple[SignedRelease, ...]:
        """At most `PAGE` records of an epoch from index `first` on."""
        query = select(ReleaseRow.record, ReleaseRow.signature).where(ReleaseRow.epoch == epoch)
        with reading(self._engine) as connection:
            rows = connection.execute(query.where(ReleaseRow.number >= first).order_by(ReleaseRow.number).limit(PAGE))
            return tuple(SignedRelease(_decoded(record), Blob(signature)) for record, signature in rows)

    def verify_chain(self, epoch: int) -> LogHead:
        """The head of an epoch's records, each recomputed; `StoreCorrupt` names the first that does not fit."""
        head = LogHead(ZERO_DIGEST, 0)
        while entries := self.page(epoch, head.next_index):
            head = verify_log(entries, head, self._domain)
        with reading(self._engine) as connection:
            stored = self._head(connection, epoch)
        if stored != head:
            raise StoreCorrupt("release records", f"head is {stored.next_index}, records end at {head.next_index}")
        return head

    def _head(self, connection: Connection, epoch: int) -> LogHead:
        query = select(ReleaseRow.digest, ReleaseRow.number).where(ReleaseRow.epoch == epoch)
        row = connection.execute(query.order_by(ReleaseRow.number.desc()).limit(1)).one_or_none()
        return LogHead(ZERO_DIGEST, 0) if row is None else LogHead(Digest(row.digest), row.number + 1)

    def _insert(self, connection: Connection, signed: SignedRelease) -> None:
        record = signed.record
        connection.execute(
            insert(ReleaseRow).values(
                epoch=record.key_epoch,
                number=record.index,
                receipt_id=record.receipt_id,
                ticket_hash=record.ticket_hash,
                record=encode(record),
                signature=signed.signature,
                digest=typed_digest(self._domain, record),
            )
        )


def verify_log(entries: tuple[SignedRelease, ...], head: LogHead, domain: Domain) -> LogHead:
    """The head after these records, if each is signed by its shard and follows the one before; else `StoreCorrupt`."""
    for signed in entries:
        record, digest = signed.record, typed_digest(domain, signed.record)
        if record.index != head.next_index or record.previous != head.digest:
            raise StoreCorrupt("release records", f"record {record.index} does not follow {head.next_index - 1}")
        try:
            verify_signature(f"release record {record.index}", digest, signed.signature, record.shard)
        except BadSignature as error:
            raise StoreCorrupt("release records", str(error)) from None
        head = LogHead(digest, record.index + 1)
    return head


def right_id(ticket: Ticket) -> Digest:
    """Name of what a ticket is a right to: kind, subject, round, receipt and voter; not the instance."""
    parts = (ticket.kind, ticket.subject, ticket.round, ticket.receipt_id, ticket.voter.encode())
    return digests.labelled(Label.RELEASE_RIGHT, *parts)


def _decoded(record: bytes) -> Release:
    try:
        return decode(Release, record)
    except Fault as error:
        raise StoreCorrupt("release records", str(error)[:120]) from None


def _usage(connection: Connection, epoch: int, right: Digest) -> Usage:
    instances = connection.execute(select(InstanceRow.instance).where(InstanceRow.right_id == right)).scalars()
    spent = connection.execute(select(BudgetRow.spent).where(BudgetRow.epoch == epoch)).scalar_one_or_none()
    return Usage(frozenset(Digest(each) for each in instances), spent or 0)


def _count_audit(connection: Connection, epoch: int) -> None:
    insert_if_absent(connection, BudgetRow, epoch=epoch, spent=0)
    connection.execute(update(BudgetRow).where(BudgetRow.epoch == epoch).values(spent=BudgetRow.spent + 1))
