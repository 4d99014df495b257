"""Creation of a folder, completely or not at all, with one writer at a time. If a writer is killed, the next writer removes its
files."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError


@contextlib.contextmanager
def staging_dir(out: Path) -> Iterator[Path]:
    """Context manager that gives an empty folder beside `out`. On success that folder becomes `out`, and its files are safely
    on disk. On an error the folder is removed.

    Raises `ConfigurationError` if `out` exists, if another process is writing it, or if it cannot be written. A writer locks
    the folder itself. The system releases the lock when the writer's process dies.
    """
    partial = out.with_name(out.name + ".partial")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _lock(partial, out)
        try:
            _verify_free(out, partial)
            try:
                _empty(partial)
                yield partial
                _publish(partial, out)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigurationError(out.name, f"cannot be written: {error.strerror or error}") from None


def _lock(partial: Path, out: Path) -> int:
    while True:
        if partial.is_symlink():
            # Emptying a link would empty another folder, and renaming it would publish a link.
            raise ConfigurationError(partial.name, "is a link, a folder is made there")
        partial.mkdir(exist_ok=True)
        descriptor = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ConfigurationError(out.name, "is being made by another process") from None
        # The previous holder of the lock may have renamed or removed the folder that we opened.
        with contextlib.suppress(FileNotFoundError):
            if os.fstat(descriptor).st_ino == partial.lstat().st_ino:
                return descriptor
        os.close(descriptor)


def _verify_free(out: Path, partial: Path) -> None:
    # A link that leads nowhere counts too: no folder can take its name.
    if os.path.lexists(out):
        shutil.rmtree(partial)
        raise ConfigurationError(out.name, "already exists")


def _empty(partial: Path) -> None:
    for path in partial.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _publish(partial: Path, out: Path) -> None:
    for path in partial.iterdir():
        _sync(path)
    _sync(partial)
    partial.rename(out)
    _sync(out.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
