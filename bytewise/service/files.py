"""Reads files that other people put into a folder, writes files, and replaces files atomically.

`service.secret` writes key files, `kms.storage.files` the files of a shard.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain


def read_regular_file(path: Path, most: int) -> bytes:
    """Returns the first `most + 1` bytes of a regular file, so that the caller sees whether the file has more than `most`. If
    `path` is a link, reads the file that it points to.

    Never waits, because a pipe, a device or a folder is not read. Raises `OSError` for these, and if the file cannot be read.
    """
    # With O_NONBLOCK, opening a pipe does not wait for a writer.
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "is no regular file")
        with open(opened, "rb", closefd=False) as file:
            return file.read(most + 1)
    finally:
        os.close(opened)


def replace_file(path: Path, data: bytes) -> None:
    """Replaces a file atomically. If the process or the machine stops, either the old file or the new file is there.

    When the function returns, the new file is on the disk and has the mode of the old file. If `path` is a link, the file that it
    points to is replaced. If two processes write, the last write stays. Raises `ConfigurationError` if the file cannot be
    written. A killed writer leaves at most a hidden file (`.NAME.….new`).
    """
    try:
        whole = Path(os.path.realpath(path))
        draft = _write_draft(whole, data)
        try:
            draft.replace(whole)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        folder = os.open(whole.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise ConfigurationError(str(path), f"{error.strerror}: name a file in a folder that can be written") from None


def create_file(path: Path, data: bytes) -> None:
    """Writes a new file. Raises `ConfigurationError` if the file exists or cannot be written."""
    try:
        with path.open("xb") as file:
            file.write(data)
    except OSError as error:
        raise ConfigurationError(shown_name(path), f"{error.strerror}: name a new file in a folder that can be written") from None


@contextmanager
def retry_folder(folder: Path) -> Iterator[None]:
    """Context manager that raises `TryAgain` if a file in the folder cannot be read or written.

    Use it for work that is done again later, because disks and mounts come back.
    """
    try:
        yield
    except (OSError, ConfigurationError) as error:
        raise TryAgain(shown_name(folder), str(error)) from error


def shown_name(path: Path) -> str:
    """Returns the name of a file for error messages. For a path without a name, such as `.` or `/`, it returns the path."""
    return path.name or str(path)


def _write_draft(whole: Path, data: bytes) -> Path:
    """Writes a new file beside the target, which only this writer uses, and returns its path."""
    draft = whole.with_name(f".{whole.name}.{secrets.token_hex(8)}.new")
    mode = stat.S_IMODE(whole.stat().st_mode) if whole.exists() else None
    # A user who may not read the old file cannot open the new one, not even before its mode is set.
    opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode & 0o600)
    try:
        with os.fdopen(opened, "wb") as file:
            if mode is not None:
                os.fchmod(opened, mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft
