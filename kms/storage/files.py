"""Files of a shard's folder: read only where nobody else can, written whole or not at all, wiped before they go."""

import os
from pathlib import Path
from typing import BinaryIO

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.service.secret import read_secret

KEY_BYTES = 32
DRAFT = ".draft"
"""Suffix of a file that is being written."""


def read_key(path: Path) -> bytes:
    """A key of 32 bytes in a file of hex that only its owner can read; else `ConfigurationError`."""
    text = read_secret(path).reveal()
    try:
        value = bytes.fromhex(text.decode("ascii"))
    except (UnicodeDecodeError, ValueError):
        value = b""
    if len(value) != KEY_BYTES:
        raise ConfigurationError(path.name, f"not {KEY_BYTES} bytes of hex")
    return value


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file that only the owner can read: on the disk with all its bytes, or not there.

    `ConfigurationError` if it exists, `TryAgain` if its draft was wiped meanwhile (`wipe_draft`).
    """
    draft = _draft(path, data)
    try:
        # A link never replaces another.
        os.link(draft, path)
    except FileExistsError:
        raise ConfigurationError(path.name, "exists; it is never overwritten") from None
    except FileNotFoundError:
        raise TryAgain(path.name, "not written: its draft was erased meanwhile") from None
    finally:
        draft.unlink(missing_ok=True)
    _keep_names(path.parent)


def create(path: Path, data: bytes) -> None:
    """Writes a file that only the owner can read, under a name that nothing has, also outside the shard's folder.

    `ConfigurationError` if something has the name, or the file cannot be written; then nothing of it is left. A crash may leave a
    part of it.
    """
    try:
        file = _open_new(path)
    except FileExistsError:
        raise ConfigurationError(
            str(path), "exists; no secret is overwritten, or shared by two shards: name a new file"
        ) from None
    except OSError as error:
        raise ConfigurationError(str(path), f"{error.strerror}: name a file in a folder that is there") from None
    try:
        _fill(file, data)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise ConfigurationError(str(path), f"{error.strerror}: it was not written") from None
    _keep_names(path.parent)


def replace_whole(path: Path, data: bytes) -> None:
    """The same in place of what may be there: whenever the machine stops, the file is the old one or the new one."""
    _draft(path, data).replace(path)
    _keep_names(path.parent)


def wipe(path: Path) -> None:
    """Overwrites and removes a file. What the file system keeps elsewhere stays."""
    with path.open("r+b") as file:
        _overwrite(file)
    path.unlink()


def is_wiped(path: Path) -> bool:
    """Whether a wipe overwrote the file, which a crash may have left with zeros only, or removed it."""
    return not path.exists() or not any(path.read_bytes())


def wipe_draft(draft: Path) -> bool:
    """Removes and overwrites what a `write_whole` that died left; whether there was something. Safe while another one runs.

    That one either has its file, which is not touched, or is told that it has none.
    """
    try:
        with draft.open("r+b") as file:
            draft.unlink()
            # Its name is gone, so nobody links it any more: who did so before has whole bytes in a file.
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
    _fill(_open_new(draft), data)
    return draft


def _open_new(path: Path) -> BinaryIO:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _fill(file: BinaryIO, data: bytes) -> None:
    with file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _keep_names(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
