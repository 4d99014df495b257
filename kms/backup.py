"""Backup of a shard's keys and shares as one sealed file, and its restore.

A restore returns only shares that are in force on the chain, because an older share in an old backup must never be used again. A
restore refuses if the shard's release log is older than the backup. With such a log, the shard could sign records that contradict
its earlier records. The file does not contain the database with the log, which needs a backup of its own.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bytewise.crypto.curve import Rng
from bytewise.ports import Clock
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, StaleBackup
from bytewise.protocol.errors.branches import BytewiseError, Fault
from bytewise.protocol.keys.epochs import EpochOnChain, EpochState
from bytewise.protocol.units import U64, Address, Blob
from bytewise.storage.releases import ReleaseRecords
from kms.ceremony.authority import CeremonyView, is_epoch_over
from kms.storage import files, keyring
from kms.storage.files import create_file, wipe, write_whole
from kms.storage.log_position import LogPosition, read_positions, verify_positions
from kms.storage.sealing import IN_FOLDER, STORAGE_KEY, WRAPPED_KEY, Sealer, StorageKeySource, open_sealer

NONCE_BYTES = 12
_SHARE = re.compile(r"share-(\d+)(?:-[0-9a-f]+)?\.json|kem-(\d+)(?:-[0-9a-f]+)?\.sealed")
FILE_NAMES = (
    STORAGE_KEY,
    WRAPPED_KEY,
    keyring.SEALED_KEY,
    keyring.TLS_KEY,
    keyring.TLS_CERTIFICATE,
    keyring.POLICY_HISTORY,
    keyring.ENTRY,
)
"""Names of files that a backup contains if the folder has them. A backup also contains the shares and the erasure statements."""


@dataclass(frozen=True, slots=True)
class BackupFile:
    """One file of the shard's folder."""

    name: str
    """Name of the file in the folder."""
    content: Blob = field(repr=False)
    """Content of the file."""


@dataclass(frozen=True, slots=True)
class Backup:
    """Content of the sealed backup file."""

    shard: Address
    """Account of the shard."""
    made_at: U64
    """Time of the backup in Unix seconds, by the shard's clock."""
    files: tuple[BackupFile, ...]
    """The shard's files: keys, sealed shares, erasure statements, the newest appraisal policy, the public entry."""
    logs: tuple[LogPosition, ...]
    """Position of the release log in every key epoch with a record."""


class RestoreResult(NamedTuple):
    """Result of a restore."""

    backup: Backup
    """Whole content of the backup."""
    written: tuple[str, ...]
    """Names of the files that the restore put into the folder."""
    dropped: tuple[str, ...]
    """Names of the share files that were not restored, because their shares are not in force or the chain was not asked."""


def back_up(folder: Path, out: Path, key: bytes, records: ReleaseRecords, clock: Clock, rng: Rng) -> Backup:
    """Writes the sealed file, which must not exist yet, and returns its content. The shard may be running. `key` has 32 bytes.

    Raises `StaleBackup` if the database lacks records that the shard signed. A backup made from such a database would not name
    the lost records, so a restore could not notice that they are missing.
    """
    verify_positions(read_positions(folder), records)
    shard, logs = keyring.address_of(folder), tuple(_positions(records))
    files = tuple(BackupFile(path.name, Blob(path.read_bytes())) for path in _files(folder))
    made = Backup(shard, U64(clock.now()), files, logs)
    nonce = rng(NONCE_BYTES)
    create_file(out, nonce + AESGCM(key).encrypt(nonce, encode(made), _LABEL))
    return made


def open_backup(file: Path, key: bytes) -> Backup:
    """Opens a sealed file and returns its content. Raises `ConfigurationError` if the file was altered or sealed with another
    key."""
    try:
        sealed = file.read_bytes()
        return decode(Backup, AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _LABEL))
    except (InvalidTag, ValueError):
        raise ConfigurationError(file.name, "was altered, or sealed with another key") from None
    except (OSError, Fault) as error:
        raise ConfigurationError(file.name, str(error)) from None


def restore(
    file: Path,
    key: bytes,
    folder: Path,
    records: ReleaseRecords,
    view: CeremonyView | None,
    sealing: StorageKeySource = IN_FOLDER,
) -> RestoreResult:
    """Restores the keys, and the shares that are in force, into a folder that has none. After a crash, the same call continues.

    If `view` is None, this restores no share; a repair by the other shards must then give the shard its share again
    (`CeremonyPurpose.REPAIR`). Raises `StaleBackup` if the release log is older than the backup, or if the backup has only other
    shares of an epoch than the one in force that the chain assigns to this shard. Raises `StoreCorrupt` if the release log was
    altered. Raises `ConfigurationError` if the folder has other keys or is in use, or if a storage key outside the folder does
    not open the share. After each of these errors nothing was written.
    """
    backup = open_backup(file, key)
    verify_logs(backup, records)
    verify_positions(read_positions(folder), records)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with files.lock_for_change(folder) as served, _staging_folder(folder / keyring.RESTORING) as draft:
        if served is not None:
            raise ConfigurationError(str(folder), "a process serves from it: stop it first. Nothing was written")
        for each in backup.files:
            write_whole(draft / Path(each.name).name, each.content)
        dropped = tuple(sorted(drop_stale_shares(draft, backup.shard, view, sealing)))
        written = tuple(sorted(path.name for path in draft.iterdir()))
        _verify_vacant(draft, folder, written)
        for name in written:
            (draft / name).replace(folder / name)
    return RestoreResult(backup, written, dropped)


@contextmanager
def _staging_folder(draft: Path) -> Iterator[Path]:
    """Context manager for a folder that is empty at first, even after a crash, and is removed at the end."""

    def clear() -> None:
        for path in draft.iterdir():
            wipe(path)

    draft.mkdir(parents=True, exist_ok=True, mode=0o700)
    clear()
    try:
        yield draft
    finally:
        clear()
        draft.rmdir()


def _verify_vacant(draft: Path, folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        there = folder / name
        if there.exists() and there.read_bytes() != (draft / name).read_bytes():
            raise ConfigurationError(str(there), "exists and differs: a restore replaces nothing. Restore into an empty folder")
    return folder


def verify_logs(backup: Backup, records: ReleaseRecords) -> Backup:
    """Returns the backup if the release log has every record that the backup names. Raises `StaleBackup` or `StoreCorrupt`
    otherwise."""
    for mark in backup.logs:
        records.verify_chain(mark.epoch)
    verify_positions(backup.logs, records)
    return backup


def drop_stale_shares(draft: Path, shard: Address, view: CeremonyView | None, sealing: StorageKeySource) -> Iterator[str]:
    """Removes the shares that are not in force from the folder `draft`, and yields the names of their files. Shares of an epoch
    that the chain does not have yet stay. Raises `StaleBackup` if `draft` has shares of an epoch, but not the share that the
    chain assigns to this shard."""
    by_epoch: dict[int, list[Path]] = {}
    for path in draft.iterdir():
        if named := _SHARE.fullmatch(path.name):
            by_epoch.setdefault(int(named[1] or named[2]), []).append(path)
    for epoch, paths in by_epoch.items():
        on_chain = view.key_epoch(epoch) if view else None
        if view is None or on_chain is None or is_epoch_over(view, epoch, on_chain):
            keyring.erase_all(draft, epoch)
        elif on_chain.state is not EpochState.NONE:
            _keep_share_in_force(draft, epoch, shard, on_chain, sealing)
        yield from (path.name for path in paths if not path.exists())


def _keep_share_in_force(draft: Path, epoch: int, shard: Address, on_chain: EpochOnChain, sealing: StorageKeySource) -> None:
    if shard not in on_chain.shards:
        keyring.erase_all(draft, epoch)
        return
    sealer = _sealer(draft, sealing)
    try:
        keyring.erase_others(draft, epoch, keyring.split_commitments(on_chain.commitments), sealer)
    except ConfigurationError:
        raise _why_no_share(draft, epoch, on_chain, sealer, sealing) from None


def _sealer(draft: Path, sealing: StorageKeySource) -> Sealer:
    # A backup of a folder with an unwrapped storage key contains that key. After the restore, `bytewise shard wrap` wraps the
    # key.
    if (draft / STORAGE_KEY).exists():
        return open_sealer(draft)
    if sealing.key_file is None and not sealing.wrap:
        raise ConfigurationError("storage_key_file", "missing: the backup contains no storage key; name the file that has it")
    return open_sealer(draft, sealing)


def _why_no_share(draft: Path, epoch: int, on_chain: EpochOnChain, sealer: Sealer, sealing: StorageKeySource) -> BytewiseError:
    """Returns the error for a backup in which no share in force could be opened: the share is missing, or the storage key does
    not open it."""
    locked = ", ".join(keyring.unopened_shares(draft, epoch, sealer))
    if not locked:
        return StaleBackup("file", f"it has no share of version {on_chain.version} of key epoch {epoch}, which is in force")
    if sealing.key_file is None or (draft / STORAGE_KEY).exists():
        return StaleBackup("file", f"its {locked} does not open under the storage key that is in it: altered before the backup")
    why = (
        f"does not open {locked} of the backup: another key sealed it. Nothing was written. Name that key's file in "
        "storage_key_file; if that is lost, so is the account: make another (`bytewise shard init`), "
        "and give it a share (`bytewise key reshare`)"
    )
    return ConfigurationError(str(sealing.key_file), why)


def _positions(records: ReleaseRecords) -> Iterator[LogPosition]:
    for epoch in records.epochs():
        head = records.verify_chain(epoch)
        yield LogPosition(U64(epoch), U64(head.next_index - 1), head.digest)


def _files(folder: Path) -> list[Path]:
    named = [folder / name for name in FILE_NAMES if (folder / name).exists()]
    kept = (each for pattern in ("share-*.json", "kem-*.sealed", "erasure-*.json") for each in sorted(folder.glob(pattern)))
    return [*named, *kept]


_LABEL = digests.labelled(Label.SHARD_BACKUP)
