"""The file of a backup: a tar archive with a manifest first, then the files that the manifest names, then the manifest's digest.

The manifest has the SHA-256 of every member, and the last member has that of the manifest, so a damaged or truncated file is
found. The file proves nothing about its origin: a person restores only files of their own.
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

FORMAT = "bytewise-backup-1"
FILES = "files/"
"""Prefix of members that belong into the node's folder."""
MANIFEST, END = "manifest.json", "manifest.sha256"
_MANIFEST_BYTES = 1 << 20
_CHUNK = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._ +@=-]*(/[A-Za-z0-9_][A-Za-z0-9._ +@=-]*)*")


@dataclass(frozen=True, slots=True)
class BackupMember:
    """One file of a backup."""

    name: str
    """Its name in the archive; `files/…` is its place in the node's folder."""
    size: U64
    """Bytes."""
    sha256: Digest
    """Hash of its content."""


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """What a backup says of itself."""

    format: str
    """`bytewise-backup-1`."""
    role: str
    """Role of the node."""
    chain_id: U256
    """Chain of its network."""
    registry: Address
    """Contract `Registry` of its network."""
    account: Address
    """Account of the node."""
    revision: str
    """Schema revision of the database."""
    database: str
    """`sqlite` or `postgresql`."""
    made_at: U64
    """Unix seconds at which the database was copied."""
    was_running: bool
    """Whether a process of the account ran meanwhile."""
    has_password: bool
    """Whether the password of the keystore is in it."""
    key_file: str
    """Where the account key, or the client key for a remote signer, was on the machine of the node."""
    settings: str
    """Name of the settings file in the node's folder."""
    votes: U64
    """Votes in the protection table."""
    members: tuple[BackupMember, ...]
    """All files, in their order."""
    outside: tuple[str, ...]
    """Files that the settings name outside the node's folder; they are not in the backup."""


def write_backup(out: Path, manifest: BackupManifest, content: Mapping[str, Path]) -> BackupManifest:
    """Writes a new file that only its owner can read, whole or not at all; returns the manifest with its members.

    `content` has the file of each member by name. `ConfigurationError` if `out` exists or cannot be written.
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
    """The manifest alone, whose members are not checked. `ConfigurationError` if the file is no backup."""
    with _opened(file) as archive:
        return _manifest_of(file, archive.next(), archive)[0]


def unpack_backup(file: Path, into: Path) -> BackupManifest:
    """Checks the whole file and writes its members below an empty folder that only its owner can read.

    `ConfigurationError` if the file is no backup, is damaged or truncated, or has a member that the manifest does not name or
    that is no plain file inside the folder.
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


@contextmanager
def _opened(file: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(file, "r:") as archive:
            yield archive
    except tarfile.TarError as error:
        raise _damaged(file, str(error)[:80]) from None
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
"""Settings whose files are no part of a backup unless they are asked for."""


def files_of(settings: Any, folder: Path, with_password: bool) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Files that a settings object names: those inside the node's folder by their place in it, and the paths of those outside.

    Folders and sockets are left out: they can be made or fetched again. So is the password file unless `with_password`.
    """
    inside: dict[str, Path] = {}
    outside: list[str] = []
    top = os.path.abspath(folder)
    for name, path in _paths(settings):
        if not path.is_file() or (name in _LEFT_OUT and not (with_password and name == "password_file")):
            continue
        place = os.path.relpath(os.path.abspath(path), top)
        if place.startswith("..") or not _NAME.fullmatch(place):
            outside.append(os.path.abspath(path))
        else:
            inside[place] = path
    return inside, tuple(sorted(set(outside)))


def _paths(value: Any) -> Iterator[tuple[str, Path]]:
    for field in dataclasses.fields(value):
        found = getattr(value, field.name)
        if isinstance(found, Path):
            yield field.name, found
        elif dataclasses.is_dataclass(found):
            yield from _paths(found)
