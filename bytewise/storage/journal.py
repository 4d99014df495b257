"""The hash-chained, append-only journal. An intent is recorded and signed before the action is carried out (design section 10).

Digest of an entry = H(journal label, number, at, kind, subject, canonical body, digest of the previous entry). The node's
Ed25519 key signs it. The leaves of the journal's tree (`bytewise.crypto.tree_hash`) are made from these digests.
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
from bytewise.protocol.errors.actors import ConfigurationError, StoreCorrupt
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.units import ZERO_DIGEST, Digest
from bytewise.service.secret import read_secret, write_secret
from bytewise.storage.engine import lock_name, read_transaction, write_transaction
from bytewise.storage.tables import JournalRow


class JournalEntry(NamedTuple):
    """One journal entry. `at` is in Unix seconds, `body` is plain JSON data, and `previous` is the digest of the entry
    before."""

    number: int
    at: int
    kind: str
    subject: bytes
    body: Any
    previous: Digest
    digest: Digest
    signature: bytes


class VerifiedJournal(NamedTuple):
    """Result of checking a journal whose hash chain and signatures are valid."""

    entries: int
    """Number of entries."""
    head: Digest
    """Digest of the newest entry. It is zero if there is no entry."""
    newest_at: int
    """Unix second of the newest entry. It is 0 if there is no entry."""


class Journal:
    """Database store of the journal of one process. It appends entries and checks them."""

    def __init__(self, engine: Engine, key: Ed25519PrivateKey, clock: Clock) -> None:
        self._engine = engine
        self._key = key
        self._clock = clock

    def append(self, kind: str, subject: bytes, body: dict[str, Any]) -> Digest:
        """Records and signs one intent or event, and returns its digest once it is durable. `body` is plain JSON data."""
        with write_transaction(self._engine) as connection:
            return self.append_in(connection, kind, subject, body)

    def append_in(self, connection: Connection, kind: str, subject: bytes, body: dict[str, Any]) -> Digest:
        """Records and signs one intent or event inside the transaction of another database store. Either both are stored or
        neither is.

        Returns the digest of the entry.
        """
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
        """Checks the whole journal and returns the digest of its newest entry.

        Raises `StoreCorrupt` for the first entry that breaks the chain or lacks this node's signature. `expected_head` is the
        digest of the newest entry as the caller stored it elsewhere; if the journal has another newest entry, raises
        `StoreCorrupt`. Without `expected_head`, a missing end of the journal is not found.
        """
        head = self.verified().head
        if expected_head is not None and head != expected_head:
            raise StoreCorrupt("journal", "ends before the expected head")
        return head

    def verified(self, kept_head: Digest | None = None) -> VerifiedJournal:
        """Checks the whole journal.

        Raises `StoreCorrupt` for the first entry that breaks the chain or lacks this node's signature. `kept_head` is the digest
        of an entry that the caller stored elsewhere. If the journal does not contain it, raises `StoreCorrupt`: the end of the
        journal was cut off, or the journal was replaced.
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
        """Returns the leaf hashes of all entries in order. It verifies nothing."""
        with read_transaction(self._engine) as connection:
            found = connection.execute(select(JournalRow.digest).order_by(JournalRow.number)).scalars()
            return [leaf_hash(each) for each in found]

    def entries(self, from_number: int = 0, limit: int = 1000) -> tuple[JournalEntry, ...]:
        """Returns up to `limit` entries in order, from number `from_number` on."""
        query = select(*JournalRow.__table__.columns).where(JournalRow.number >= from_number)
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query.order_by(JournalRow.number).limit(limit)).all()
        return tuple(map(_entry, rows))

    def about(self, subjects: Collection[bytes], end: int) -> tuple[JournalEntry, ...]:
        """Returns the entries about these subjects in order. Only entries with a number below `end` are returned.

        Raises `StoreCorrupt` if one of them was altered.
        """
        query = select(*JournalRow.__table__.columns).where(JournalRow.subject.in_(subjects), JournalRow.number < end)
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query.order_by(JournalRow.number)).all()
        for row in rows:
            _verify_row(row, row.number, Digest(row.previous_digest), self._key.public_key())
        return tuple(map(_entry, rows))


def journal_key(path: Path) -> Ed25519PrivateKey:
    """Reads the node's journal key from its file. Creates the file with a new key if it is missing. Raises `ConfigurationError`
    if the file cannot be read or written, or has no such key."""
    if not path.exists():
        write_secret(path, os.urandom(32).hex().encode())
    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(read_secret(path).reveal().decode()))
    except ValueError:
        why = "is no key of a journal, which is 32 bytes in hex: name or restore the right file"
        raise ConfigurationError(path.name, why) from None


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
