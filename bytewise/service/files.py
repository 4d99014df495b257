"""Files that are no secret: written whole or not at all, for others read them meanwhile. Secret ones: `kms.storage.files`."""

import os
import secrets
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file in place of what may be there: whenever the process or the machine stops, it is the old one or the new one.

    It is on the disk afterwards; a link stays, and what it names is replaced. `ConfigurationError` if it cannot be written. Of
    two writers at once the last one's file is there, whole. Who dies leaves a hidden draft (`.NAME.….new`) beside it at most.
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


def shown_name(path: Path) -> str:
    """What an error calls a file that a person named: its name, or the path if that has none, as `.` and `/`."""
    return path.name or str(path)


def _write_draft(whole: Path, data: bytes) -> Path:
    """A file of this writer alone, beside the one that it is for."""
    draft = whole.with_name(f".{whole.name}.{secrets.token_hex(8)}.new")
    try:
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft
