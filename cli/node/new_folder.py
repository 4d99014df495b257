"""Creates a node's folder completely or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Context manager that creates a folder completely or not at all.

    It yields a temporary folder beside `folder`, and renames it to `folder` at the end. After an error it removes the temporary
    folder. Raises `ConfigurationError` if `folder` exists, or if the operating system refuses a step, also a step inside the
    block. An existing folder may have keys, which must never be overwritten.
    """
    if folder.exists():
        raise ConfigurationError(str(folder), "exists; keys in it are never overwritten: name a new folder")
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise ConfigurationError(str(folder), error.strerror or "cannot be made") from None
    try:
        yield draft
        os.rename(draft, folder)
    except OSError as error:
        raise ConfigurationError(str(folder), f"{error.strerror}: nothing was made") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
