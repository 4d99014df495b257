"""Who uses a shard's folder: the process that serves from it, which says what share it has in memory, or one that erases,
restores or wraps.

A word that shares are erased is true only if no process has them any more. The lock is the kernel's: it ends with the process
that has it, however that ends.
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
"""In the folder: locked while somebody uses it, with the digest of what who serves has, as hex."""

CHANGING = "changing.lock"
"""In the folder: locked while somebody erases, restores or wraps in it."""

Held = Callable[[bytes], None]
"""Told the commitments of the share that a process has in memory, one after the other, as soon as it has no other; b"" while it
has others, too."""


def unsaid(_commitments: bytes) -> None:
    """`Held` where nobody asks."""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Held]:
    """For a process that serves: from before it reads a share until it has none. The call is to be told what it has.

    `ConfigurationError` if another process serves from the folder, or erases, restores or wraps in it.
    """
    with _opened(folder / LOCK) as lock:
        _begin(folder, lock)

        def held(commitments: bytes) -> None:
            try:
                said = digests.keccak256(commitments) if commitments else ZERO_DIGEST
                os.pwrite(lock, said.hex().encode(), 0)
            except OSError as error:
                # Who erases then finds what was said before, and refuses.
                telemetry.log("kms.tenancy_unsaid", why=error.strerror)

        yield held


def _begin(folder: Path, lock: int) -> None:
    """Takes the lock, and says nothing yet; not while somebody erases who saw another process serve, or nobody."""
    with _opened(folder / CHANGING) as changing:
        if not (_locked(changing, folder / CHANGING) and _locked(lock, folder / LOCK)):
            who = "another process serves from it, or erases, restores or wraps in it"
            raise ConfigurationError(str(folder), f"{who}: stop that one first")
        try:
            os.pwrite(lock, ZERO_DIGEST.hex().encode(), 0)
        except OSError as error:
            raise ConfigurationError(str(folder / LOCK), error.strerror) from None


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[Digest | None]:
    """For a process that erases, restores or wraps, beside which no other does and none begins to serve: None if none serves.

    While one serves, keccak256 of the commitments of the one share that it has in memory; zero if it did not say.
    `ConfigurationError` if another process erases, restores or wraps in the folder.
    """
    # Beside who serves, the lock of that one keeps nobody apart.
    with _opened(folder / CHANGING) as changing:
        if not _locked(changing, folder / CHANGING):
            who = "another process erases, restores or wraps in it"
            raise ConfigurationError(str(folder), f"{who}: run this again when that ended")
        with _opened(folder / LOCK) as lock:
            yield None if _locked(lock, folder / LOCK) else _said(lock)


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


def _said(lock: int) -> Digest:
    try:
        return Digest(bytes.fromhex(os.pread(lock, 2 * len(ZERO_DIGEST), 0).decode("ascii")))
    except ValueError:
        return ZERO_DIGEST
