"""The lock on the key file of an account.

On one machine, only one process at a time may sign with the key in the file. The nonce lease has the same purpose for processes
that share a database. The lock also stops a second process that uses another database: without it, the two could make two votes
for one round. The kernel releases the lock when its process ends, even if the process is killed. The lock does not protect
against a copy of the key file, or against a process on another machine.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError, KeyInUse
from bytewise.service import telemetry
from bytewise.service.files import shown_name

_LOCKS = Path("/proc/locks")


@contextmanager
def hold_key(key_file: Path) -> Iterator[None]:
    """Context manager that holds the lock of a key file inside the block.

    Raises `KeyInUse` at once if another process has the lock, and `ConfigurationError` if the file cannot be opened. On a file
    system that has no such lock, the block runs without the lock, and a log line says so.
    """
    try:
        opened = os.open(key_file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigurationError(shown_name(key_file), error.strerror) from None
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise KeyInUse(str(key_file), _holder(opened)) from None
            # Some network file systems have no such lock, and the nonce lease still works.
            telemetry.log("key_lock.missing", file=key_file.name, error=error.strerror)
        yield
    finally:
        os.close(opened)


def verify_unused(key_file: Path) -> None:
    """Raises `KeyInUse` if a process of this machine has the lock of a key file.

    Does nothing if the file is missing or this process may not read it.
    """
    if key_file.is_file() and os.access(key_file, os.R_OK):
        with hold_key(key_file):
            pass


def _holder(opened: int) -> str:
    """Returns the id of the process that has the lock.

    The kernel lists it as `1: FLOCK ADVISORY WRITE pid major:minor:inode 0 EOF`.
    """
    inode = os.fstat(opened).st_ino
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        lines = []
    for fields in map(str.split, lines):
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
            return fields[4]
    return "unknown"
