"""Files of a shard's folder: read only where nobody else can, written whole or not at all, wiped before they go."""

import os
from pathlib import Path

from bytewise.protocol.errors import ConfigurationError
from bytewise.service.secret import read_secret

KEY_BYTES = 32


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

    `ConfigurationError` if it exists.
    """
    # A link never replaces another.
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        raise ConfigurationError(path.name, "exists; it is never overwritten") from None
    finally:
        draft.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def wipe(path: Path) -> None:
    """Overwrites and removes a file. What the file system keeps elsewhere stays."""
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
