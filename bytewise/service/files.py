"""Files that are no secret: written whole or not at all, for others read them meanwhile. Secret ones: `kms.files`."""

import os
from pathlib import Path

from bytewise.protocol.errors import ConfigurationError


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file in place of what may be there: whenever the process or the machine stops, it is the old one or the new one.

    It is on the disk afterwards. `ConfigurationError` if it cannot be written. Who dies leaves a hidden draft beside it at most,
    which the next one writes over.
    """
    draft = path.with_name(f".{path.name}.new")
    try:
        try:
            with draft.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise ConfigurationError(str(path), f"{error.strerror}: name a file in a folder that can be written") from None
