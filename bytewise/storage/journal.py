"""The hash-chained, append-only journal, and exports of it. A node records and signs an intent before it carries out the action
(design section 10).

Digest of an entry = H(journal label, number, at, kind, subject, canonical body, digest of the previous entry). The node's
Ed25519 key signs it. The leaves of the journal's tree (`bytewise.crypto.tree_hash`) are made from these digests.

An export is RFC 8785 JSON of `JournalExport`: entries with proofs to a signed checkpoint. It shows that these entries, with these
numbers, are in the journal that the checkpoint covers. It also shows that this journal continues the earlier checkpoints in the
export. A reader verifies an export without a database.
"""

import enum
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from sqlalchemy import Connection, Engine, Row, insert, select

from bytewise.crypto.checkpoint import JournalKeys, SignedCheckpoint, entry_digest, parse_checkpoint, signed_by
from bytewise.crypto.tree_hash import consistency_proof, is_consistent, leaf_hash, range_proof, root_of_range
from bytewise.ports import Clock
from bytewise.protocol import encoding
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, StoreCorrupt
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import MAX_SAFE_INTEGER, ZERO_DIGEST, Blob, Digest
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


EXPORT_FORMAT = "bytewise/journal-export/v1"
MAX_EXPORTED = 100_000
"""Most entries in one export. A longer journal is exported in several parts."""


class ExportFailure(enum.StrEnum):
    """The reasons why an export is refused."""

    MALFORMED = "export.malformed"
    """The bytes are no export of this version."""
    KEYS = "journal.keys"
    """The keys in the export are not the keys that the reader expects, or not the keys that its checkpoint names."""
    CHECKPOINT = "journal.checkpoint"
    """The checkpoint has no valid Ed25519 signature."""
    POST_QUANTUM = "journal.pq"
    """The checkpoint has no valid ML-DSA-65 signature."""
    ENTRY = "journal.entry"
    """An entry has no valid signature: the entry or the one before it was altered."""
    CHAIN = "journal.chain"
    """The export begins with entry 0 and names an entry before it."""
    INCLUSION = "journal.inclusion"
    """The checkpoint covers other entries at these numbers."""
    CONSISTENCY = "journal.consistency"
    """The journal does not continue an earlier checkpoint: its history was rewritten."""
    OLDER = "journal.older"
    """The export ends before a checkpoint that the reader stored."""
    UNPROVEN = "journal.unproven"
    """The export has no proof from a checkpoint that the reader stored."""


class ExportRejected(Exception):
    """An export does not verify. The first value is an `ExportFailure`, the second says why."""


@dataclass(frozen=True, slots=True)
class ExportedEntry:
    """One journal entry in an export."""

    at: int
    """Unix second at which the entry was recorded."""
    kind: str
    """Kind of the intent or event, for example `vote.protected`."""
    subject: Blob
    """Identifier of the thing that the entry is about, for example a dispute or batch."""
    body: str
    """Content of the entry, in canonical JSON."""
    signature: Blob
    """Ed25519 signature of the entry's digest."""


@dataclass(frozen=True, slots=True)
class EarlierCheckpoint:
    """An earlier checkpoint of the same journal, with the proof that the journal continues it."""

    checkpoint: str
    """The signed note of this checkpoint, as text."""
    proof: tuple[Digest, ...]
    """Consistency proof from this checkpoint to the checkpoint of the export."""


@dataclass(frozen=True, slots=True)
class JournalExport:
    """Content of an export file."""

    format: str
    """Format of the export, always `EXPORT_FORMAT`."""
    keys: JournalKeys
    """Public keys of the journal."""
    checkpoint: str
    """The signed note of the checkpoint that every entry is proven against, as text."""
    first: int
    """Number of the first entry."""
    previous: Digest
    """Digest of the entry before the first one. It is zero if `first` is 0."""
    entries: tuple[ExportedEntry, ...]
    """Consecutive entries, at least one."""
    proof: tuple[Digest, ...]
    """Range proof of the entries (`bytewise.crypto.tree_hash.range_proof`)."""
    earlier: tuple[EarlierCheckpoint, ...]
    """Earlier checkpoints, ascending by size."""


class VerifiedExport(NamedTuple):
    """An export whose signatures and proofs are valid, with its content in decoded form."""

    export: JournalExport
    checkpoint: SignedCheckpoint
    entries: tuple[JournalEntry, ...]
    earlier: tuple[SignedCheckpoint, ...]


def make_export(
    journal: Journal, keys: JournalKeys, signed: SignedCheckpoint, first: int, end: int, earlier: Sequence[SignedCheckpoint] = ()
) -> bytes:
    """Makes an export of the entries `first` to `end - 1`, with proofs to a checkpoint and from `earlier` checkpoints.

    Returns its bytes. Raises `MalformedValue` if the range is empty, too long, or not covered by the checkpoint, or if an
    earlier checkpoint is newer. It verifies nothing else, so the caller verifies the returned bytes.
    """
    size, leaves = signed.checkpoint.size, journal.leaves()
    if not 0 <= first < end <= min(size, len(leaves)) or end - first > MAX_EXPORTED:
        raise MalformedValue("range", f"entries {first} to {end - 1} of {size} in the checkpoint, at most {MAX_EXPORTED}")
    leaves, entries = leaves[:size], journal.entries(first, end - first)
    before = sorted({each.checkpoint.size: each for each in earlier}.items())
    export = JournalExport(
        format=EXPORT_FORMAT, keys=keys, checkpoint=signed.note.encode(), first=first, previous=entries[0].previous,
        entries=tuple(
            ExportedEntry(e.at, e.kind, Blob(e.subject), encode(e.body).decode(), Blob(e.signature)) for e in entries
        ),
        proof=range_proof(leaves, first, end),
        earlier=tuple(EarlierCheckpoint(each.note.encode(), consistency_proof(leaves, at)) for at, each in before),
    )  # fmt: skip
    return encode(export)


def verify_export(
    data: bytes, fingerprint: Digest | None = None, kept: Sequence[SignedCheckpoint] = ()
) -> VerifiedExport:  # fmt: skip
    """Verifies an export and returns it. Raises `ExportRejected` with the reason of the first check that fails.

    `fingerprint` identifies the keys of the journal that the reader expects. If it is None, the keys in the export are used.
    `kept` are checkpoints that the reader stored. The export must be of the same journal and must continue each of them.
    """
    export = _decoded(data)
    if fingerprint is not None and export.keys.fingerprint != fingerprint:
        raise ExportRejected(ExportFailure.KEYS, f"the export is of the keys 0x{export.keys.fingerprint.hex()}")
    signed = _checkpoint(export.keys, export.checkpoint)
    entries = _entries(export)
    _verify_inclusion(export, signed, entries)
    earlier = _earlier(export, signed)
    for each in kept:
        _verify_kept(export, each, signed, earlier)
    return VerifiedExport(export, signed, entries, earlier)


def _decoded(data: bytes) -> JournalExport:
    try:
        export = decode(JournalExport, data)
    except Fault as error:
        raise ExportRejected(ExportFailure.MALFORMED, str(error)) from None
    if export.format != EXPORT_FORMAT:
        raise ExportRejected(ExportFailure.MALFORMED, f"format {export.format[:60]!r}, this program reads {EXPORT_FORMAT}")
    if not 0 <= export.first <= MAX_SAFE_INTEGER - MAX_EXPORTED or not 0 < len(export.entries) <= MAX_EXPORTED:
        raise ExportRejected(ExportFailure.MALFORMED, f"{len(export.entries)} entries from {export.first} on")
    return export


def _checkpoint(keys: JournalKeys, text: str) -> SignedCheckpoint:
    try:
        signed = parse_checkpoint(text)
        ed25519, mldsa = signed_by(keys, signed)
    except MalformedValue as error:
        raise ExportRejected(ExportFailure.MALFORMED, str(error)) from None
    where = f"the checkpoint of {signed.checkpoint.size} entries"
    if signed.checkpoint.origin != keys.origin:
        raise ExportRejected(ExportFailure.KEYS, f"{where} is of another journal")
    if not ed25519:
        raise ExportRejected(ExportFailure.CHECKPOINT, f"{where} has no valid Ed25519 signature")
    if not mldsa:
        raise ExportRejected(ExportFailure.POST_QUANTUM, f"{where} has no valid ML-DSA-65 signature")
    return signed


def _entries(export: JournalExport) -> tuple[JournalEntry, ...]:
    """Returns the entries with their digests, and checks the signature of each entry."""
    found, previous = list[JournalEntry](), export.previous
    if export.first == 0 and any(previous):
        raise ExportRejected(ExportFailure.CHAIN, "entry 0 follows another entry")
    for number, each in enumerate(export.entries, export.first):
        raw = each.body.encode()
        try:
            digest, body = entry_digest(number, each.at, each.kind, each.subject, raw, previous), encoding.parse(raw)
            export.keys.verify_entry(each.signature, digest)
        except (InvalidSignature, ValueError, OverflowError, Fault):
            raise ExportRejected(
                ExportFailure.ENTRY, f"entry {number} is not signed: it was altered, or its predecessor"
            ) from None
        found.append(JournalEntry(number, each.at, each.kind, each.subject, body, previous, digest, each.signature))
        previous = digest
    return tuple(found)


def _verify_inclusion(export: JournalExport, signed: SignedCheckpoint, entries: Sequence[JournalEntry]) -> None:
    leaves = [leaf_hash(each.digest) for each in entries]
    try:
        root = root_of_range(leaves, export.first, signed.checkpoint.size, export.proof)
    except MalformedValue as error:
        raise ExportRejected(ExportFailure.INCLUSION, str(error)) from None
    if root != signed.checkpoint.root:
        raise ExportRejected(ExportFailure.INCLUSION, "the proof leads to another root than the checkpoint's")


def _earlier(export: JournalExport, signed: SignedCheckpoint) -> tuple[SignedCheckpoint, ...]:
    found = tuple(_checkpoint(export.keys, each.checkpoint) for each in export.earlier)
    sizes = [each.checkpoint.size for each in found]
    if sizes != sorted(set(sizes)):
        raise ExportRejected(ExportFailure.MALFORMED, "earlier checkpoints are not ascending")
    for before, each in zip(found, export.earlier, strict=True):
        old, new = before.checkpoint, signed.checkpoint
        if not is_consistent(old.size, old.root, new.size, new.root, each.proof):
            raise ExportRejected(ExportFailure.CONSISTENCY, f"the journal does not continue its checkpoint of {old.size} entries")
    return found


def _verify_kept(
    export: JournalExport, kept: SignedCheckpoint, signed: SignedCheckpoint, earlier: Sequence[SignedCheckpoint]
) -> None:
    _checkpoint(export.keys, kept.note.encode())
    size = kept.checkpoint.size
    if size > signed.checkpoint.size:
        raise ExportRejected(
            ExportFailure.OLDER, f"it ends with {signed.checkpoint.size} entries; you kept a checkpoint of {size}"
        )
    same = [each for each in (signed, *earlier) if each.checkpoint.size == size]
    if any(each.checkpoint.root != kept.checkpoint.root for each in same):
        raise ExportRejected(ExportFailure.CONSISTENCY, f"its first {size} entries are not those of the checkpoint that you kept")
    if not same:
        raise ExportRejected(
            ExportFailure.UNPROVEN, f"no proof from your checkpoint of {size}: ask for an export --since that file"
        )
