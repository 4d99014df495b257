"""Makes and verifies exports of a journal: entries with proofs to a signed checkpoint. Verifying needs no database.

An export is RFC 8785 JSON of `JournalExport`. It shows that these entries, with these numbers, are in the journal that the
checkpoint covers. It also shows that this journal continues the earlier checkpoints in the export.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature

from bytewise.crypto.checkpoint import JournalKeys, SignedCheckpoint, entry_digest, parse_checkpoint, signed_by
from bytewise.crypto.tree_hash import consistency_proof, is_consistent, leaf_hash, range_proof, root_of_range
from bytewise.protocol import encoding
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import MAX_SAFE_INTEGER, Blob, Digest
from bytewise.storage.journal import Journal, JournalEntry

FORMAT = "bytewise/journal-export/v1"
MAX_ENTRIES = 100_000
"""Most entries in one export. A longer journal is exported in several parts."""


class ExportFailure(enum.StrEnum):
    """The reasons why an export is refused, in the order of the checks."""

    MALFORMED = "export.malformed"
    """The bytes are no export of this version."""
    KEYS = "journal.keys"
    """The keys in the export are not the keys that the reader expects, or not the keys that its checkpoint names."""
    CHECKPOINT = "journal.checkpoint"
    """The checkpoint has no valid Ed25519 signature."""
    POST_QUANTUM = "journal.pq"
    """The checkpoint has no valid ML-DSA-65 signature."""
    ENTRY = "journal.entry"
    """An entry has no valid signature."""
    CHAIN = "journal.chain"
    """An entry does not follow the one before it."""
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
    """Format of the export, always `FORMAT`."""
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
    if not 0 <= first < end <= min(size, len(leaves)) or end - first > MAX_ENTRIES:
        raise MalformedValue("range", f"entries {first} to {end - 1} of {size} in the checkpoint, at most {MAX_ENTRIES}")
    leaves, entries = leaves[:size], journal.entries(first, end - first)
    before = sorted({each.checkpoint.size: each for each in earlier}.items())
    export = JournalExport(
        format=FORMAT, keys=keys, checkpoint=signed.note.encode(), first=first, previous=entries[0].previous,
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
    if export.format != FORMAT:
        raise ExportRejected(ExportFailure.MALFORMED, f"format {export.format[:60]!r}, this program reads {FORMAT}")
    if not 0 <= export.first <= MAX_SAFE_INTEGER - MAX_ENTRIES or not 0 < len(export.entries) <= MAX_ENTRIES:
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
