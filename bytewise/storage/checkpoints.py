"""Makes, stores and compares signed checkpoints of a journal.

Checkpoints are files, so a copy of their folder is a copy of the evidence.
"""

import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Engine

from bytewise.crypto.checkpoint import MAX_NOTE_BYTES, CheckpointKeys, JournalKeys, SignedCheckpoint, parse_checkpoint, signed_by
from bytewise.crypto.tree_hash import range_proof, root_of, roots_at
from bytewise.ports import Clock
from bytewise.protocol.errors.actors import StoreCorrupt
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Digest
from bytewise.service import metrics, telemetry
from bytewise.service.files import replace_file, retry_folder
from bytewise.service.readiness import Check, ReadinessRegistry
from bytewise.service.schedule import PeriodicJob
from bytewise.service.sections import CheckpointSettings
from bytewise.storage.journal import Journal, JournalEntry, journal_key

SUFFIX = ".checkpoint"


class CheckpointFolder:
    """The folder with the checkpoints of one journal. Each checkpoint is one file."""

    def __init__(self, folder: Path, keys: JournalKeys) -> None:
        self._folder, self._keys = folder, keys

    def newest(self) -> SignedCheckpoint | None:
        """Returns the checkpoint that covers the most entries, or None if there is none.

        Raises `StoreCorrupt` if the file is invalid.
        """
        files = self._files()
        return self._read(files[-1]) if files else None

    def all(self) -> list[SignedCheckpoint]:
        """Returns all checkpoints, the one with the fewest entries first.

        Raises `StoreCorrupt` if a file is no valid checkpoint of this journal.
        """
        return [self._read(file) for file in self._files()]

    def add(self, signed: SignedCheckpoint, most: int) -> None:
        """Stores a checkpoint, and deletes all checkpoints except the `most` newest."""
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_file(self._folder / f"{signed.checkpoint.size:016d}{SUFFIX}", signed.note.encode().encode())
        for file in self._files()[:-most]:
            file.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(each for each in self._folder.glob(f"[0-9]*{SUFFIX}") if each.is_file())

    def _read(self, file: Path) -> SignedCheckpoint:
        try:
            found = _parsed(file)
            valid = all(signed_by(self._keys, found)) and file.stem == f"{found.checkpoint.size:016d}"
        except MalformedValue as error:
            raise StoreCorrupt("checkpoints", f"{file.name} is no checkpoint: {error}") from None
        if not valid:
            raise StoreCorrupt("checkpoints", f"{file.name} is not signed by this journal, or was renamed")
        return found


class ProvenEntries(NamedTuple):
    """Entries of a journal, each with a proof that the checkpoint covers it."""

    keys: JournalKeys
    checkpoint: SignedCheckpoint
    entries: tuple[JournalEntry, ...]
    proofs: tuple[tuple[Digest, ...], ...]
    """One range proof for each entry, in the order of the entries (`bytewise.crypto.tree_hash.range_proof`)."""


class CheckpointKeeper:
    """Makes the checkpoints of a running node, and proves that entries are in them. Several threads may use one keeper."""

    def __init__(self, journal: Journal, keys: CheckpointKeys, settings: CheckpointSettings, clock: Clock) -> None:
        self._journal, self._keys, self._settings, self._clock = journal, keys, settings, clock
        self._folder = CheckpointFolder(settings.folder, keys.public)
        self._lock = threading.Lock()
        self._flaw = ""

    def add_check(self, readiness: ReadinessRegistry) -> None:
        """Adds the readiness check `journal`."""
        readiness.add("journal", self.check)

    def check(self) -> Check:
        """Returns the readiness check `journal`.

        It fails if the last run of the job found that the journal contradicts its checkpoints.
        """
        do = "Stop the node and run `bytewise journal verify`: see the runbook BytewiseLogVerifyFailed."
        return Check("journal", not self._flaw, self._flaw or "no contradiction found", "continues its signed checkpoints", do)

    def job(self) -> PeriodicJob:
        """Returns the periodic job that makes checkpoints. `run_ticks` runs it."""
        return PeriodicJob("checkpoints", self.run, self._settings.every_s)

    def run(self) -> None:
        """Makes a checkpoint, if there are new entries.

        If the journal contradicts its newest checkpoint, writes an error to the log and makes no checkpoint; the node goes on.
        Raises `TryAgain` if the folder cannot be used.
        """
        try:
            with retry_folder(self._settings.folder):
                made = self.make()
        except StoreCorrupt as error:
            self._note_flaw(str(error))
            telemetry.log_error("checkpoint.refused", error)
            return
        self._note_flaw("")
        if made is not None:
            telemetry.log("checkpoint.signed", entries=made.checkpoint.size, root=made.checkpoint.root)

    def _note_flaw(self, flaw: str) -> None:
        self._flaw = flaw
        metrics.JOURNAL_CONTINUED.set(not flaw)

    def make(self) -> SignedCheckpoint | None:
        """Makes a checkpoint of all entries and returns it. Returns None if there are no new entries.

        Raises `StoreCorrupt` if the journal does not continue its newest checkpoint. Raises `OSError` or `ConfigurationError` if
        the folder cannot be used.
        """
        with self._lock:
            leaves, newest = self._journal.leaves(), self._folder.newest()
            if newest is not None:
                verify_continued(leaves, [newest])
                metrics.CHECKPOINT_TIME.set(newest.checkpoint.at)
                if newest.checkpoint.size == len(leaves):
                    return None
            if not leaves:
                return None
            signed = self._keys.sign(len(leaves), root_of(leaves), self._clock.now())
            self._folder.add(signed, self._settings.most)
            metrics.CHECKPOINT_TIME.set(signed.checkpoint.at)
            return signed

    def newest(self) -> SignedCheckpoint | None:
        """Returns a checkpoint of all entries, and makes it if needed. Returns None if the journal is empty.

        Raises the errors of `make`.
        """
        return self.make() or self._folder.newest()

    def proven(self, subjects: Collection[bytes]) -> ProvenEntries | None:
        """Returns all entries about these subjects, with proofs to the newest checkpoint.

        Returns None if there are no such entries. Raises `StoreCorrupt` if one of the entries was altered, and the errors of
        `make`.
        """
        signed = self.newest()
        found = () if signed is None else self._journal.about(subjects, signed.checkpoint.size)
        if signed is None or not found:
            return None
        leaves = self._journal.leaves()[: signed.checkpoint.size]
        proofs = tuple(range_proof(leaves, each.number, each.number + 1) for each in found)
        return ProvenEntries(self._keys.public, signed, found, proofs)


def checkpoint_keeper(
    engine: Engine, journal_key_file: Path, settings: CheckpointSettings | None, clock: Clock
) -> CheckpointKeeper | None:
    """Returns the checkpoint keeper of a node. Returns None if the node's settings have no section for checkpoints."""
    if settings is None:
        return None
    key = journal_key(journal_key_file)
    return CheckpointKeeper(Journal(engine, key, clock), CheckpointKeys(key), settings, clock)


def verify_continued(leaves: Sequence[Digest], checkpoints: Sequence[SignedCheckpoint]) -> None:
    """Raises `StoreCorrupt` if the journal with these leaves does not begin with the entries that each checkpoint covers."""
    roots = roots_at(leaves, {each.checkpoint.size for each in checkpoints})
    for each in checkpoints:
        size = each.checkpoint.size
        if size not in roots:
            raise StoreCorrupt("journal", f"has {len(leaves)} entries, but signed a checkpoint of {size}: its end was cut off")
        if roots[size] != each.checkpoint.root:
            raise StoreCorrupt("journal", f"its first {size} entries are not those of its checkpoint: it was rewritten")


def read_checkpoint(file: Path) -> SignedCheckpoint:
    """Reads the checkpoint in a file and does not verify its signatures.

    Raises `MalformedValue` if the file cannot be read or is not a checkpoint.
    """
    try:
        return _parsed(file)
    except OSError as error:
        raise MalformedValue(file.name, f"{error.strerror}") from None


def _parsed(file: Path) -> SignedCheckpoint:
    with file.open("rb") as opened:
        note = opened.read(MAX_NOTE_BYTES + 1)
    try:
        return parse_checkpoint(note.decode())
    except UnicodeDecodeError:
        raise MalformedValue(file.name, "not UTF-8") from None
