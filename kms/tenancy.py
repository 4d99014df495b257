"""Who uses a shard's folder: the process that serves from it, which says what share it has in memory, or one that erases.

A word that shares are erased is true only if no process has them any more. The lock is the kernel's: it ends with the process
that has it, however that ends.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bytewise.protocol import digests
from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.units import ZERO_DIGEST, Digest
from bytewise.service import telemetry

LOCK = "serving.lock"
"""In the folder: locked while somebody uses it, with the digest of what who serves has, as hex."""

Held = Callable[[bytes], None]
"""Told the commitments of the share that a process has in memory, one after the other, as soon as it has no other."""


def unsaid(_commitments: bytes) -> None:
    """`Held` where nobody asks."""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Held]:
    """For a process that serves: from before it reads a share until it has none. The call is to be told what it has.

    `ConfigurationError` if another process serves from the folder, or erases in it.
    """
    with _opened(folder) as lock:
        if not _locked(lock):
            raise ConfigurationError(str(folder), "another process serves from it or erases in it: stop that one first")
        try:
            os.pwrite(lock, ZERO_DIGEST.hex().encode(), 0)
        except OSError as error:
            raise ConfigurationError(str(folder / LOCK), error.strerror) from None

        def held(commitments: bytes) -> None:
            try:
                os.pwrite(lock, digests.keccak256(commitments).hex().encode(), 0)
            except OSError as error:
                # Who erases then finds what was said before, and refuses.
                telemetry.log("kms.tenancy_unsaid", why=error.strerror)

        yield held


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[Digest | None]:
    """For a process that erases, beside which none begins to serve: None if none does.

    While one serves, keccak256 of the commitments of the one share that it has in memory; zero if it did not say.
    """
    with _opened(folder) as lock:
        yield None if _locked(lock) else _said(lock)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigurationError(str(folder / LOCK), error.strerror) from None
    try:
        yield lock
    finally:
        os.close(lock)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _said(lock: int) -> Digest:
    try:
        return Digest(bytes.fromhex(os.pread(lock, 2 * len(ZERO_DIGEST), 0).decode("ascii")))
    except ValueError:
        return ZERO_DIGEST
