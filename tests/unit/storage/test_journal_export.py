"""Exports of a journal: every range with its proofs verifies without a database, and each lie in each field is found."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from bytewise.crypto.checkpoint import CheckpointKeys, SignedCheckpoint
from bytewise.crypto.tree_hash import consistency_proof, range_proof, root_of
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import ZERO_DIGEST, Blob, Digest
from bytewise.storage.engine import open_database
from bytewise.storage.journal import (
    EarlierCheckpoint,
    ExportedEntry,
    ExportFailure,
    ExportRejected,
    Journal,
    JournalExport,
    make_export,
    verify_export,
)
from tests.fixtures.storage.children import JOURNAL_KEY
from tests.fixtures.storage.databases import SqliteFiles
from tests.fixtures.storage.hand_clock import HandClock

KEYS = CheckpointKeys(JOURNAL_KEY)
OTHER = CheckpointKeys(Ed25519PrivateKey.from_private_bytes(b"o" * 32))
SIZE, AT = 9, 1_800_000_000


class Written(NamedTuple):
    """A journal of `SIZE` entries, and checkpoints of some of its states."""

    journal: Journal
    points: dict[int, SignedCheckpoint]

    def export(self, first: int = 2, end: int = 6, since: tuple[int, ...] = (3, 7), size: int = SIZE) -> JournalExport:
        earlier = [self.points[each] for each in since]
        return decode(JournalExport, make_export(self.journal, KEYS.public, self.points[size], first, end, earlier))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    files = SqliteFiles(tmp_path_factory.mktemp("journal"))
    journal = Journal(open_database(files.create()), JOURNAL_KEY, HandClock(AT))
    for number in range(SIZE):
        journal.append("intent", b"subject", {"number": number, "text": "é"})
    leaves = journal.leaves()
    return Written(journal, {size: KEYS.sign(size, root_of(leaves[:size]), AT + size) for size in range(1, SIZE + 1)})


def failure_of(export: JournalExport, **reader: Any) -> ExportFailure:
    with pytest.raises(ExportRejected) as caught:
        verify_export(encode(export), **reader)
    failure = caught.value.args[0]
    assert isinstance(failure, ExportFailure)
    return failure


def test_every_range_verifies_without_a_database(written: Written) -> None:
    for first in range(SIZE):
        for end in range(first + 1, SIZE + 1):
            data = make_export(written.journal, KEYS.public, written.points[SIZE], first, end)
            found = verify_export(data, KEYS.public.fingerprint)
            assert found.entries == written.journal.entries(first, end - first)


def test_export_continues_every_checkpoint_that_a_reader_kept(written: Written) -> None:
    kept = [written.points[size] for size in range(1, SIZE + 1)]
    export = written.export(since=tuple(range(1, SIZE)))
    found = verify_export(encode(export), KEYS.public.fingerprint, kept)
    assert [each.checkpoint.size for each in found.earlier] == list(range(1, SIZE))
    assert failure_of(written.export(since=()), kept=[written.points[5]]) is ExportFailure.UNPROVEN


def test_export_of_an_older_checkpoint_is_found(written: Written) -> None:
    assert failure_of(written.export(since=(3,), size=7), kept=[written.points[8]]) is ExportFailure.OLDER


def test_range_that_the_checkpoint_does_not_cover_is_not_exported(written: Written) -> None:
    for first, end, size in ((0, 0, SIZE), (3, 2, SIZE), (0, SIZE + 1, SIZE), (5, 8, 7), (-1, 2, SIZE)):
        with pytest.raises(MalformedValue, match="range"):
            written.export(first, end, (), size)
    with pytest.raises(MalformedValue):
        written.export(0, 1, (8,), 7)


def entry(export: JournalExport, place: int, **values: Any) -> JournalExport:
    entries = list(export.entries)
    entries[place] = dataclasses.replace(entries[place], **values)
    return dataclasses.replace(export, entries=tuple(entries))


def earlier(export: JournalExport, place: int, **values: Any) -> JournalExport:
    found = list(export.earlier)
    found[place] = dataclasses.replace(found[place], **values)
    return dataclasses.replace(export, earlier=tuple(found))


def signed(size: int, root: Digest, keys: CheckpointKeys = KEYS) -> str:
    return keys.sign(size, root, AT).note.encode()


def without_line(note: str, place: int) -> str:
    text, _, lines = note.rpartition("\n\n")
    kept = [line for number, line in enumerate(lines.splitlines()) if number != place]
    return text + "\n\n" + "".join(line + "\n" for line in kept)


Lie = Callable[[JournalExport], JournalExport]
LIES: dict[str, tuple[Lie, ExportFailure]] = {
    "format": (lambda e: dataclasses.replace(e, format="bytewise/journal-export/v2"), ExportFailure.MALFORMED),
    "no entries": (lambda e: dataclasses.replace(e, entries=()), ExportFailure.MALFORMED),
    "negative first": (lambda e: dataclasses.replace(e, first=-1), ExportFailure.MALFORMED),
    "other Ed25519 key": (
        lambda e: dataclasses.replace(e, keys=dataclasses.replace(e.keys, ed25519=OTHER.public.ed25519)), ExportFailure.KEYS),
    "other ML-DSA-65 key": (
        lambda e: dataclasses.replace(e, keys=dataclasses.replace(e.keys, ml_dsa_65=OTHER.public.ml_dsa_65)), ExportFailure.KEYS),
    "short key": (lambda e: dataclasses.replace(e, keys=dataclasses.replace(e.keys, ed25519=Blob(b"x"))), ExportFailure.KEYS),
    "checkpoint of other keys": (
        lambda e: dataclasses.replace(e, checkpoint=signed(SIZE, ZERO_DIGEST, OTHER)), ExportFailure.KEYS),
    "checkpoint is a text": (lambda e: dataclasses.replace(e, checkpoint="text"), ExportFailure.MALFORMED),
    "checkpoint time": (
        lambda e: dataclasses.replace(e, checkpoint=e.checkpoint.replace("time 1", "time 2")), ExportFailure.CHECKPOINT),
    "checkpoint size": (
        lambda e: dataclasses.replace(e, checkpoint=e.checkpoint.replace(f"\n{SIZE}\n", "\n8\n")), ExportFailure.CHECKPOINT),
    "no Ed25519 signature": (
        lambda e: dataclasses.replace(e, checkpoint=without_line(e.checkpoint, 0)), ExportFailure.CHECKPOINT),
    "no ML-DSA-65 signature": (
        lambda e: dataclasses.replace(e, checkpoint=without_line(e.checkpoint, 1)), ExportFailure.POST_QUANTUM),
    "checkpoint of another root": (
        lambda e: dataclasses.replace(e, checkpoint=signed(SIZE, ZERO_DIGEST)), ExportFailure.INCLUSION),
    "first number": (lambda e: dataclasses.replace(e, first=e.first + 1), ExportFailure.ENTRY),
    "entry 0 with a predecessor": (lambda e: dataclasses.replace(e, first=0), ExportFailure.CHAIN),
    "previous": (lambda e: dataclasses.replace(e, previous=ZERO_DIGEST), ExportFailure.ENTRY),
    "entry time": (lambda e: entry(e, 1, at=e.entries[1].at + 1), ExportFailure.ENTRY),
    "negative time": (lambda e: entry(e, 1, at=-1), ExportFailure.ENTRY),
    "entry kind": (lambda e: entry(e, 1, kind="other"), ExportFailure.ENTRY),
    "entry subject": (lambda e: entry(e, 1, subject=Blob(b"x")), ExportFailure.ENTRY),
    "entry body": (lambda e: entry(e, 1, body='{"number":9}'), ExportFailure.ENTRY),
    "entry body is no JSON": (lambda e: entry(e, 1, body="{"), ExportFailure.ENTRY),
    "entry signature": (lambda e: entry(e, 1, signature=Blob(bytes(64))), ExportFailure.ENTRY),
    "entry left out": (lambda e: dataclasses.replace(e, entries=e.entries[:1] + e.entries[2:]), ExportFailure.ENTRY),
    "entries swapped": (lambda e: dataclasses.replace(e, entries=tuple(reversed(e.entries))), ExportFailure.ENTRY),
    "tail cut": (lambda e: dataclasses.replace(e, entries=e.entries[:-1]), ExportFailure.INCLUSION),
    "proof swapped": (lambda e: dataclasses.replace(e, proof=tuple(reversed(e.proof))), ExportFailure.INCLUSION),
    "proof longer": (lambda e: dataclasses.replace(e, proof=(*e.proof, ZERO_DIGEST)), ExportFailure.INCLUSION),
    "proof empty": (lambda e: dataclasses.replace(e, proof=()), ExportFailure.INCLUSION),
    "earlier checkpoint of other keys": (
        lambda e: earlier(e, 0, checkpoint=signed(3, ZERO_DIGEST, OTHER)), ExportFailure.KEYS),
    "earlier checkpoint unsigned": (
        lambda e: earlier(e, 0, checkpoint=without_line(e.earlier[0].checkpoint, 1)), ExportFailure.POST_QUANTUM),
    "earlier history rewritten": (lambda e: earlier(e, 0, checkpoint=signed(3, ZERO_DIGEST)), ExportFailure.CONSISTENCY),
    "consistency proofs swapped": (lambda e: earlier(e, 0, proof=e.earlier[1].proof), ExportFailure.CONSISTENCY),
    "consistency proof cut": (lambda e: earlier(e, 0, proof=e.earlier[0].proof[:-1]), ExportFailure.CONSISTENCY),
    "earlier doubled": (lambda e: dataclasses.replace(e, earlier=(e.earlier[0], e.earlier[0])), ExportFailure.MALFORMED),
    "earlier descending": (lambda e: dataclasses.replace(e, earlier=tuple(reversed(e.earlier))), ExportFailure.MALFORMED),
    "earlier newer": (lambda e: earlier(e, 1, checkpoint=signed(SIZE + 1, ZERO_DIGEST)), ExportFailure.CONSISTENCY),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_lie_in_an_export_is_found(written: Written, name: str) -> None:
    lie, failure = LIES[name]
    export = written.export()
    verify_export(encode(export), KEYS.public.fingerprint)
    changed = lie(export)
    assert changed != export and failure_of(changed) is failure


def test_every_field_of_an_export_has_a_lie(written: Written) -> None:
    export = written.export()
    fields = {field.name for field in dataclasses.fields(JournalExport)}
    changed = {name for lie, _ in LIES.values() for name in fields if getattr(lie(export), name) != getattr(export, name)}
    assert changed == fields
    for kind, place in ((ExportedEntry, "entries"), (EarlierCheckpoint, "earlier")):
        names = {field.name for field in dataclasses.fields(kind)}
        pairs = [
            (a, b) for lie, _ in LIES.values() for a, b in zip(getattr(lie(export), place), getattr(export, place), strict=False)
        ]
        assert {name for name in names for a, b in pairs if getattr(a, name) != getattr(b, name)} == names


def test_export_of_another_journal_is_found(written: Written) -> None:
    export = written.export()
    assert failure_of(export, fingerprint=OTHER.public.fingerprint) is ExportFailure.KEYS
    other = OTHER.sign(3, ZERO_DIGEST, AT)
    assert failure_of(export, kept=[other]) is ExportFailure.KEYS


def test_history_that_its_owner_rewrote_and_signed_again_is_found(written: Written, tmp_path_factory: Any) -> None:
    files = SqliteFiles(tmp_path_factory.mktemp("rewritten"))
    journal = Journal(open_database(files.create()), JOURNAL_KEY, HandClock(AT))
    for number in range(SIZE):
        journal.append("intent", b"subject", {"number": number if number != 1 else 99, "text": "é"})
    leaves = journal.leaves()
    point, kept = KEYS.sign(SIZE, root_of(leaves), AT), written.points[3]
    whole = verify_export(make_export(journal, KEYS.public, point, 0, SIZE), KEYS.public.fingerprint)
    assert whole.entries[1].body["number"] == 99, "alone it holds: its owner has the keys"
    honest_note = decode(JournalExport, make_export(journal, KEYS.public, point, 0, SIZE, [kept]))
    assert failure_of(honest_note, kept=[kept]) is ExportFailure.CONSISTENCY
    own_note = decode(JournalExport, make_export(journal, KEYS.public, point, 0, SIZE, [KEYS.sign(3, root_of(leaves[:3]), AT)]))
    assert failure_of(own_note, kept=[kept]) is ExportFailure.CONSISTENCY
    assert failure_of(own_note, kept=[written.points[SIZE]]) is ExportFailure.CONSISTENCY


@given(data=st.data())
def test_any_changed_byte_is_refused(written: Written, data: st.DataObject) -> None:
    raw = bytearray(encode(written.export()))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ExportRejected):
        verify_export(bytes(raw), KEYS.public.fingerprint)


@given(st.binary(max_size=300))
def test_bytes_that_are_no_export_are_refused(raw: bytes) -> None:
    with pytest.raises(ExportRejected) as caught:
        verify_export(raw)
    assert caught.value.args[0] is ExportFailure.MALFORMED


@pytest.mark.parametrize(
    "spoil",
    [lambda raw: raw[:-1], lambda raw: raw[:-1] + b',"x":1}', lambda raw: raw + b" ", lambda _: b"[" * 10**5,
     lambda raw: raw + bytes(100 * 10**6), lambda raw: raw.replace(b'"first":2', b'"first":2,"first":2')],
    ids=["truncated", "unknown member", "not canonical", "nested", "100 MB", "doubled key"],
)  # fmt: skip
def test_spoilt_files_are_no_exports(written: Written, spoil: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ExportRejected) as caught:
        verify_export(spoil(encode(written.export())))
    assert caught.value.args[0] is ExportFailure.MALFORMED


def test_export_comes_back_from_its_bytes(written: Written) -> None:
    export, leaves = written.export(), written.journal.leaves()
    assert decode(JournalExport, encode(export)) == export
    assert export.proof == range_proof(leaves, 2, 6) and export.earlier[1].proof == consistency_proof(leaves, 7)
