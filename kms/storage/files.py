"""Functions for the files of a shard's folder: readable by their owner only, written completely or not at all, wiped before they
are removed."""

import os
from pathlib import Path
from typing import BinaryIO

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.service.secret import read_secret

KEY_BYTES = 32
DRAFT = ".draft"
"""Suffix of a draft: a file that is being written."""


def read_key(path: Path) -> bytes:
    """Reads a key of 32 bytes, written as hex, from a file that only its owner can read. Raises `ConfigurationError` if the file
    has other content or may be read by others."""
    text = read_secret(path).reveal()
    try:
        value = bytes.fromhex(text.decode("ascii"))
    except (UnicodeDecodeError, ValueError):
        value = b""
    if len(value) != KEY_BYTES:
        raise ConfigurationError(path.name, f"not {KEY_BYTES} bytes of hex")
    return value


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file that only its owner can read. The file appears with all its bytes, or not at all.

    Raises `ConfigurationError` if the file exists, and `TryAgain` if another process wiped its draft meanwhile (`wipe_draft`).
    """
    draft = _draft(path, data)
    try:
        # A link never replaces an existing file.
        os.link(draft, path)
    except FileExistsError:
        raise ConfigurationError(path.name, "exists; it is never overwritten") from None
    except FileNotFoundError:
        raise TryAgain(path.name, "not written: its draft was erased meanwhile") from None
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)


def create_file(path: Path, data: bytes) -> None:
    """Writes a file that only its owner can read, under a new name, even outside the shard's folder.

    Raises `ConfigurationError` if the name exists, or if the file cannot be written; a part that was written is then removed. A
    crash may leave a part of the file.
    """
    try:
        file = _open_new(path)
    except FileExistsError:
        raise ConfigurationError(
            str(path), "exists. A secret is never overwritten or shared by two shards: name a new file"
        ) from None
    except OSError as error:
        raise ConfigurationError(str(path), f"{error.strerror}: name a file in a folder that is there") from None
    try:
        _write_synced(file, data)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise ConfigurationError(str(path), f"{error.strerror}: it was not written") from None
    _sync_folder(path.parent)


def replace_whole(path: Path, data: bytes) -> None:
    """Writes a file like `write_whole`, but in place of an existing file. After a crash at any moment the file is the old one or
    the new one."""
    _draft(path, data).replace(path)
    _sync_folder(path.parent)


def wipe(path: Path) -> None:
    """Overwrites a file with zeros and removes it. Copies that the file system keeps elsewhere stay."""
    with path.open("r+b") as file:
        _overwrite(file)
    path.unlink()


def is_wiped(path: Path) -> bool:
    """Returns whether the file was wiped: it does not exist, or a crash left it with zeros only."""
    return not path.exists() or not any(path.read_bytes())


def wipe_draft(draft: Path) -> bool:
    """Overwrites and removes a draft that an interrupted `write_whole` left. Returns whether there was one.

    Another process may run `write_whole` at the same time. If it has already finished its file, the file stays complete.
    Otherwise its `write_whole` raises `TryAgain`.
    """
    try:
        with draft.open("r+b") as file:
            draft.unlink()
            # The draft has no name now, so no process can link it. A process that linked it before has a complete file.
            if os.fstat(file.fileno()).st_nlink == 0:
                _overwrite(file)
    except FileNotFoundError:
        return False
    return True


def _overwrite(file: BinaryIO) -> None:
    file.write(bytes(os.fstat(file.fileno()).st_size))
    file.flush()
    os.fsync(file.fileno())


def _draft(path: Path, data: bytes) -> Path:
    draft = path.with_suffix(DRAFT)
    wipe_draft(draft)
    _write_synced(_open_new(draft), data)
    return draft


def _open_new(path: Path) -> BinaryIO:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _write_synced(file: BinaryIO, data: bytes) -> None:
    with file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
