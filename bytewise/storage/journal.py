"""The hash-chained, append-only journal: the intent is recorded and signed before the action executes (design section 10).

digest = H(journal label, number, at, kind, subject, canonical body, previous digest), signed with the node's Ed25519 key.
The leaves of the journal's tree (`bytewise.crypto.tree_hash`) are these digests.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from sqlalchemy import Connection, Engine, Row, insert, select

from bytewise.crypto.checkpoint import entry_digest
from bytewise.crypto.tree_hash import leaf_hash
from bytewise.ports import Clock
from bytewise.protocol import encoding
from bytewise.protocol.errors.actors import StoreCorrupt
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.units import ZERO_DIGEST, Digest
from bytewise.service.secret import read_secret, write_secret
from bytewise.storage.engine import lock_name, read_transaction, write_transaction
from bytewise.storage.tables import JournalRow


class JournalEntry(NamedTuple):
    """One journal entry; `body` is plain JSON data."""

    number: int
    at: int
    kind: str
    subject: bytes
    body: Any
    previous: Digest
    digest: Digest
    signature: bytes


class VerifiedJournal(NamedTuple):
    """A journal whose chain and signatures hold."""

    entries: int
    """How many it has."""
    head: Digest
    """Digest of the newest entry; zero before the first."""
    newest_at: int
    """Unix second of the newest entry; 0 before the first."""


class Journal:
    """Appends to and checks the journal of one process."""

    def __init__(self, engine: Engine, key: Ed25519PrivateKey, clock: Clock) -> None:
        self._engine = engine
        self._key = key
        self._clock = clock

    def append(self, kind: str, subject: bytes, body: dict[str, Any]) -> Digest:
        """Records and signs one intent or event; returns its digest once it is durable. `body` is plain JSON data."""
        with write_transaction(self._engine) as connection:
            return self.append_in(connection, kind, subject, body)

    def append_in(self, connection: Connection, kind: str, subject: bytes, body: dict[str, Any]) -> Digest:
        """As `append`, inside a transaction of another repository, so that both are stored or neither."""
        lock_name(connection, "journal")
        last = connection.execute(
            select(JournalRow.number, JournalRow.digest).order_by(JournalRow.number.desc()).limit(1)
        ).one_or_none()
        number, previous = (0, ZERO_DIGEST) if last is None else (last[0] + 1, Digest(last[1]))
        raw, now = encoding.encode(body), self._clock.now()
        digest = entry_digest(number, now, kind, subject, raw, previous)
        connection.execute(
            insert(JournalRow).values(
                number=number, recorded_at=now, kind=kind, subject=subject, body=raw, previous_digest=previous, digest=digest,
                signature=self._key.sign(digest),
            )
        )  # fmt: skip
        return digest

    def verify_journal(self, expected_head: Digest | None = None) -> Digest:
        """Checks the whole journal and returns its head. `StoreCorrupt` names the first entry that breaks the chain or lacks our
        signature.

        A cut tail is found only if the caller kept the head elsewhere and gives it as `expected_head`.
        """
        head = self.verified().head
        if expected_head is not None and head != expected_head:
            raise StoreCorrupt("journal", "ends before the expected head")
        return head

    def verified(self, kept_head: Digest | None = None) -> VerifiedJournal:
        """Checks the whole journal. `StoreCorrupt` names the first entry that breaks the chain or lacks our signature.

        With `kept_head`, which somebody kept, also if the journal does not contain that: its tail was cut, or it was replaced.
        """
        head, count, newest_at = ZERO_DIGEST, 0, 0
        public, has_kept = self._key.public_key(), kept_head in (None, ZERO_DIGEST)
        with read_transaction(self._engine) as connection:
            for row in connection.execute(select(*JournalRow.__table__.columns).order_by(JournalRow.number)):
                head, newest_at = _verify_row(row, count, head, public), row.recorded_at
                count, has_kept = count + 1, has_kept or head == kept_head
        if not has_kept:
            raise StoreCorrupt("journal", "does not contain the head that was kept: its end was cut off, or it was replaced")
        return VerifiedJournal(count, head, newest_at)

    def leaves(self) -> list[Digest]:
        """Leaf hashes of all entries in order. Nothing is verified."""
        with read_transaction(self._engine) as connection:
            found = connection.execute(select(JournalRow.digest).order_by(JournalRow.number)).scalars()
            return [leaf_hash(each) for each in found]

    def entries(self, from_number: int = 0, limit: int = 1000) -> tuple[JournalEntry, ...]:
        """Entries in order, from a number."""
        query = select(*JournalRow.__table__.columns).where(JournalRow.number >= from_number)
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query.order_by(JournalRow.number).limit(limit)).all()
        return tuple(map(_entry, rows))

    def about(self, subjects: Collection[bytes], end: int) -> tuple[JournalEntry, ...]:
        """Entries about these subjects before number `end`, in order. `StoreCorrupt` names one that was altered."""
        query = select(*JournalRow.__table__.columns).where(JournalRow.subject.in_(subjects), JournalRow.number < end)
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query.order_by(JournalRow.number)).all()
        for row in rows:
            _verify_row(row, row.number, Digest(row.previous_digest), self._key.public_key())
        return tuple(map(_entry, rows))


def journal_key(path: Path) -> Ed25519PrivateKey:
    """Reads the node's journal key from its file. A missing file is created with a new key."""
    if not path.exists():
        write_secret(path, os.urandom(32).hex().encode())
    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(read_secret(path).reveal().decode()))
    except ValueError:
        raise StoreCorrupt("journal", f"{path.name} holds no Ed25519 key") from None


def _entry(row: Row[Any]) -> JournalEntry:
    return JournalEntry(
        row.number, row.recorded_at, row.kind, row.subject, encoding.parse(row.body), Digest(row.previous_digest),
        Digest(row.digest), row.signature,
    )  # fmt: skip


def _verify_row(row: Row[Any], number: int, previous: Digest, public: Ed25519PublicKey) -> Digest:
    try:
        encoding.parse(row.body)
        public.verify(row.signature, row.digest)
    except (Fault, InvalidSignature) as error:
        raise StoreCorrupt("journal", f"entry {number}: {type(error).__name__}") from None
    if row.number != number or row.previous_digest != previous:
        raise StoreCorrupt("journal", f"entry {number} does not follow its predecessor")
    if row.digest != entry_digest(row.number, row.recorded_at, row.kind, row.subject, row.body, previous):
        raise StoreCorrupt("journal", f"entry {number} was altered")
    return Digest(row.digest)
