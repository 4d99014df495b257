"""The file of a backup: a tar archive with a manifest, then the files that the manifest names, then the SHA-256 of the manifest.

The manifest has the SHA-256 of every file in the archive, so damage and truncation are found. The file proves nothing about its
origin: a person must restore only files of their own.
"""

import dataclasses
import hashlib
import io
import os
import re
import secrets
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bytewise.protocol import encoding
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.units import U64, U256, Address, Digest
from bytewise.service.files import shown_name
from bytewise.service.settings import paths_of

FORMAT = "bytewise-backup-1"
FILES = "files/"
"""Prefix of the names of files that belong into the node's folder."""
MANIFEST, END = "manifest.json", "manifest.sha256"
_MANIFEST_BYTES = 1 << 20
_CHUNK = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._ +@=-]*(/[A-Za-z0-9_][A-Za-z0-9._ +@=-]*)*")


@dataclass(frozen=True, slots=True)
class BackupMember:
    """One file in a backup."""

    name: str
    """Name of the file in the archive. After the prefix `files/` it is the path in the node's folder."""
    size: U64
    """Size in bytes."""
    sha256: Digest
    """SHA-256 of the file's content."""


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """The manifest of a backup: the node, its database, and the files in the archive."""

    format: str
    """Format of the backup, always `bytewise-backup-1`."""
    role: str
    """Role of the node."""
    chain_id: U256
    """Chain id of the node's network."""
    registry: Address
    """Address of the contract `Registry` of the node's network."""
    account: Address
    """Account of the node."""
    revision: str
    """Schema revision of the database."""
    database: str
    """Kind of the database: `sqlite` or `postgresql`."""
    made_at: U64
    """Unix second at which the database was copied."""
    was_running: bool
    """Whether a process of the account ran while the backup was made."""
    has_password: bool
    """Whether the backup has the password of the keystore."""
    key_file: str
    """Path of the account key, or of the client key for a remote signer, on the machine of the node."""
    settings: str
    """Name of the settings file in the node's folder."""
    votes: U64
    """Number of votes in the protection table."""
    members: tuple[BackupMember, ...]
    """All files in the archive, in their order."""
    outside: tuple[str, ...]
    """Paths of files that the settings name outside the node's folder. They are not in the backup."""


def write_backup(out: Path, manifest: BackupManifest, content: Mapping[str, Path]) -> BackupManifest:
    """Writes a new backup file that only its owner can read, whole or not at all.

    Returns the manifest with the list of its files. `content` maps each name in the archive to the file with its content. Raises
    `ConfigurationError` if `out` exists or cannot be written.
    """
    if out.exists() or out.is_symlink():
        raise ConfigurationError(shown_name(out), "exists, and a backup is never overwritten: name a new file")
    draft = out.with_name(f".{out.name}.{secrets.token_hex(8)}.new")
    try:
        members = tuple(BackupMember(name, U64(path.stat().st_size), _hash_of(path)) for name, path in content.items())
        whole = dataclasses.replace(manifest, members=members)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            _write_tar(file, whole, content)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, out)  # unlike a rename it replaces nothing
    except FileExistsError:
        raise ConfigurationError(shown_name(out), "exists, and a backup is never overwritten: name a new file") from None
    except OSError as error:
        raise ConfigurationError(shown_name(out), f"{error.strerror}: no backup was made") from None
    finally:
        draft.unlink(missing_ok=True)
    _sync(out.parent)
    return whole


def _write_tar(file: IO[bytes], manifest: BackupManifest, content: Mapping[str, Path]) -> None:
    raw = encoding.encode(manifest)
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, MANIFEST, io.BytesIO(raw), len(raw), manifest.made_at)
        for member in manifest.members:
            with content[member.name].open("rb") as source:
                _add(archive, member.name, source, member.size, manifest.made_at)
        end = hashlib.sha256(raw).hexdigest().encode()
        _add(archive, END, io.BytesIO(end), len(end), manifest.made_at)


def _add(archive: tarfile.TarFile, name: str, source: IO[bytes], size: int, at: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, 0o600, at
    archive.addfile(entry, source)


def read_manifest(file: Path) -> BackupManifest:
    """Reads the manifest of a backup and does not check the other files. Raises `ConfigurationError` if the file is no
    backup."""
    with _opened(file) as archive:
        return _manifest_of(file, archive.next(), archive)[0]


def unpack_backup(file: Path, into: Path) -> BackupManifest:
    """Checks the whole backup, writes its files below the empty folder `into`, and returns the manifest.

    Only the owner can read the files. Raises `ConfigurationError` if the file is no backup, is damaged or truncated, or contains
    a file that the manifest does not name or that is not a plain file inside the folder.
    """
    with _opened(file) as archive:
        manifest, digest = _manifest_of(file, archive.next(), archive)
        for member in manifest.members:
            entry = archive.next()
            _verify_entry(file, member, entry)
            assert entry is not None
            _unpack(file, archive, entry, member, into)
        end = archive.next()
        if end is None or end.name != END or not _is_plain(end) or end.size != len(digest) or _read(archive, end) != digest:
            raise _damaged(file, "its end is missing")
        if archive.next() is not None:
            raise _damaged(file, "something follows its end")
    return manifest


_UNREADABLE = (tarfile.TarError, ValueError, OverflowError, RecursionError, MemoryError)
"""Exceptions that `tarfile` raises for bytes that are no sound archive. The last four come from lengths, numbers and nesting of
headers that it does not check."""


@contextmanager
def _opened(file: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(file, "r:") as archive:
            yield archive
    except _UNREADABLE as error:
        raise _damaged(file, ascii(str(error) or type(error).__name__)[1:-1][:80]) from None
    except OSError as error:
        raise ConfigurationError(shown_name(file), error.strerror or "cannot be read") from None


def _manifest_of(file: Path, entry: tarfile.TarInfo | None, archive: tarfile.TarFile) -> tuple[BackupManifest, bytes]:
    if entry is None or entry.name != MANIFEST or not _is_plain(entry) or entry.size > _MANIFEST_BYTES:
        raise ConfigurationError(shown_name(file), f"is no backup: it does not begin with {MANIFEST}")
    raw = _read(archive, entry)
    try:
        manifest = encoding.decode(BackupManifest, raw)
    except Fault as error:
        raise _damaged(file, f"manifest: {error}") from None
    if manifest.format != FORMAT:
        raise ConfigurationError(shown_name(file), f"has format {manifest.format[:40]}, and this program reads {FORMAT}")
    return manifest, hashlib.sha256(raw).hexdigest().encode()


def _verify_entry(file: Path, member: BackupMember, entry: tarfile.TarInfo | None) -> None:
    if not _NAME.fullmatch(member.name) or len(member.name) > 200:
        raise _damaged(file, f"a member has the name {member.name[:60]!r}, which is none of a backup")
    if entry is None or entry.name != member.name or entry.size != member.size:
        raise _damaged(file, f"{member.name} is not where the manifest has it")
    if not _is_plain(entry):
        raise _damaged(file, f"{member.name} is no plain file")


def _is_plain(entry: tarfile.TarInfo) -> bool:
    return entry.type == tarfile.REGTYPE  # no link, device, folder or sparse file


def _unpack(file: Path, archive: tarfile.TarFile, entry: tarfile.TarInfo, member: BackupMember, into: Path) -> None:
    source = archive.extractfile(entry)
    assert source is not None, "a plain file"
    path, digest = into / member.name, hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            target.write(chunk)
        target.flush()
        os.fsync(target.fileno())
    if digest.digest() != member.sha256:
        raise _damaged(file, f"{member.name} has another hash than the manifest says")


def _read(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    source = archive.extractfile(entry)
    assert source is not None, "a plain file"
    return source.read()


def _damaged(file: Path, why: str) -> ConfigurationError:
    return ConfigurationError(shown_name(file), f"is damaged or truncated: {why}. Take another backup")


def _hash_of(path: Path) -> Digest:
    with path.open("rb") as file:
        return Digest(hashlib.file_digest(file, "sha256").digest())


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


_LEFT_OUT = ("password_file", "ready_file")
"""Names of settings whose files are not put into a backup. The password file is put in if the caller asks for it."""


def files_of(settings: Any, folder: Path, with_password: bool) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Returns the files that a settings object names: those inside the node's folder, and the paths of those outside it.

    The keys of the first result are the paths in the folder. A file counts as outside if an archive cannot have its name. The
    result does not have sockets, folders (`folders_of` lists them) and the ready file. It has the password file only with
    `with_password`.
    """
    inside: dict[str, Path] = {}
    outside: list[str] = []
    top = os.path.abspath(folder)
    for name, path in paths_of(settings):
        if not path.is_file() or (name in _LEFT_OUT and not (with_password and name == "password_file")):
            continue
        place = os.path.relpath(os.path.abspath(path), top)
        if place.startswith("..") or not _NAME.fullmatch(place):
            outside.append(os.path.abspath(path))
        else:
            inside[place] = path
    return inside, tuple(sorted(set(outside)))


def folders_of(settings: Any) -> tuple[str, ...]:
    """Returns the paths of the folders that a settings object names and that exist. They are not in the backup."""
    return tuple(sorted({os.path.abspath(path) for _, path in paths_of(settings) if path.is_dir()}))
