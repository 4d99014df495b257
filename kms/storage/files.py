"""Files of a shard's folder, and the locks of that folder.

Files are readable by their owner only. They are written completely or not at all (except by `create_file`), and files with
secrets are wiped before they are removed.

There are two locks: one for the process that serves from the folder, and one for a process that erases, restores or wraps in it.
A statement that shares are erased is true only if no process has them in memory any more. The serving process therefore writes
into its lock file which share it has in memory. The locks are kernel locks: they end with their process, however it ends.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from bytewise.protocol import digests
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.units import ZERO_DIGEST, Digest
from bytewise.service import telemetry
from bytewise.service.secret import read_secret

KEY_BYTES = 32
DRAFT = ".draft"
"""Suffix of a draft: a file that is being written."""
LOCK = "serving.lock"
"""Name of the file in the folder that the serving process locks. It contains the digest of the share that this process has in
memory, as hex."""
CHANGING = "changing.lock"
"""Name of the file in the folder that a process locks while it erases, restores or wraps."""
ShareReporter = Callable[[bytes], None]
"""Function by which a process reports the share in its memory. The argument is the concatenated commitments of the share, once
the process has no other share in memory. The argument is b"" while the process has several shares."""


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

    Raises `ConfigurationError` if the file exists. Raises `TryAgain` if another process wiped the draft of this file meanwhile
    (`wipe_draft`).
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


def ignore_share(_commitments: bytes) -> None:
    """Does nothing. It is the `ShareReporter` of processes without a lock."""


@contextlib.contextmanager
def lock_for_serving(folder: Path) -> Iterator[ShareReporter]:
    """Context manager that locks the folder for a serving process, from before it reads a share until it has none. Yields the
    function that reports its share.

    Raises `ConfigurationError` if another process serves from the folder, or erases, restores or wraps in it.
    """
    with _opened(folder / LOCK) as lock:
        _acquire(folder, lock)

        def report(commitments: bytes) -> None:
            try:
                said = digests.keccak256(commitments) if commitments else ZERO_DIGEST
                os.pwrite(lock, said.hex().encode(), 0)
            except OSError as error:
                # An erasing process then reads the earlier digest and refuses.
                telemetry.log("folder_lock.write_failed", why=error.strerror)

        yield report


def _acquire(folder: Path, lock: int) -> None:
    """Takes the lock and writes that no share is reported yet. Raises `ConfigurationError` while another process changes the
    folder, because that process may have found no serving process."""
    with _opened(folder / CHANGING) as changing:
        if not (_locked(changing, folder / CHANGING) and _locked(lock, folder / LOCK)):
            who = "another process serves from it, or erases, restores or wraps in it"
            raise ConfigurationError(str(folder), f"{who}: stop it first")
        try:
            os.pwrite(lock, ZERO_DIGEST.hex().encode(), 0)
        except OSError as error:
            raise ConfigurationError(str(folder / LOCK), error.strerror) from None


@contextlib.contextmanager
def lock_for_change(folder: Path) -> Iterator[Digest | None]:
    """Context manager that locks the folder for a process that erases, restores or wraps. No other process may do so or start to
    serve meanwhile.

    Yields None if no process serves. Otherwise yields keccak256 of the commitments of the one share that the serving process has
    in memory, or zero if it has several or did not report. Raises `ConfigurationError` if another process erases, restores or
    wraps in the folder.
    """
    # While a process serves, the lock of that process does not exclude a second change.
    with _opened(folder / CHANGING) as changing:
        if not _locked(changing, folder / CHANGING):
            who = "another process erases, restores or wraps in it"
            raise ConfigurationError(str(folder), f"{who}: run this again when that ended")
        with _opened(folder / LOCK) as lock:
            yield None if _locked(lock, folder / LOCK) else _reported_share(lock)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except PermissionError as error:
        do = "run this as its owner; where another user's command left it there, change its owner to the shard's user"
        raise ConfigurationError(str(path), f"{error.strerror}: {do}") from None
    except OSError as error:
        raise ConfigurationError(str(path), error.strerror) from None
    try:
        yield lock
    finally:
        os.close(lock)


def _locked(lock: int, path: Path) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        do = "the shard's folder must be on a file system that locks files (flock): move it to a local disk"
        raise ConfigurationError(str(path), f"{error.strerror}: {do}") from None
    return True


def _reported_share(lock: int) -> Digest:
    try:
        return Digest(bytes.fromhex(os.pread(lock, 2 * len(ZERO_DIGEST), 0).decode("ascii")))
    except ValueError:
        return ZERO_DIGEST
