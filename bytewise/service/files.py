"""Atomic writes of files that are not secret. For secret files see `kms.storage.files`."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain


def replace_file(path: Path, data: bytes) -> None:
    """Replaces a file atomically. Whenever process or machine stop, the old file or the new one is there.

    The file is on the disk when the function returns, with the mode of the old one. A link stays, and its target is
    replaced. Of two writers the last one wins. `ConfigurationError` if the file cannot be written. A killed writer leaves at most
    a hidden draft (`.NAME.….new`).
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


@contextmanager
def retry_folder(folder: Path) -> Iterator[None]:
    """For work that is done again: a file that cannot be read or written is `TryAgain`, because disks and mounts come back."""
    try:
        yield
    except (OSError, ConfigurationError) as error:
        raise TryAgain(shown_name(folder), str(error)) from error


def shown_name(path: Path) -> str:
    """Name of a file for errors: its name, or its path if it has none, like `.` and `/`."""
    return path.name or str(path)


def _write_draft(whole: Path, data: bytes) -> Path:
    """A new file beside the target, used by this writer only."""
    draft = whole.with_name(f".{whole.name}.{secrets.token_hex(8)}.new")
    mode = stat.S_IMODE(whole.stat().st_mode) if whole.exists() else None
    # Nobody who may not read the old file can open the new one, not even before its mode is set.
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
