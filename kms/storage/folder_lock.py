"""Locks of a shard's folder: one for the process that serves from it, one for a process that erases, restores or wraps in it.

A statement that shares are erased is true only if no process has them in memory any more. The serving process therefore writes
into its lock file which share it has in memory. The locks are kernel locks: they end with their process, however it ends.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bytewise.protocol import digests
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import ZERO_DIGEST, Digest
from bytewise.service import telemetry

LOCK = "serving.lock"
"""Name of the file in the folder that the serving process locks. It contains the digest of the share that this process has in
memory, as hex."""

CHANGING = "changing.lock"
"""Name of the file in the folder that a process locks while it erases, restores or wraps."""

ShareReporter = Callable[[bytes], None]
"""Function that a process calls with the concatenated commitments of the share in its memory once it has no other share there.
The process calls it with b"" while it has several shares."""


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
