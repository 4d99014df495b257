"""Secret values that appear in no repr, log line or pickle, and are compared in constant time.

Also reads and writes their files.
"""

import hmac
import stat
import weakref
from pathlib import Path
from typing import NoReturn

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.files import shown_name

_LIVE: "weakref.WeakSet[Secret]" = weakref.WeakSet()
_SHORTEST_SCRUBBED = 8
"""Least characters of a secret text that is removed from log lines. Without this limit, ordinary words would be removed too."""


class Secret:
    """Secret bytes. Only `reveal` returns them."""

    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: bytes) -> None:
        self._value = bytes(value)
        _LIVE.add(self)

    def reveal(self) -> bytes:
        """Returns the secret bytes, for the one call that needs them."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(redacted)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value, other._value)

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> NoReturn:
        raise ConfigurationError("secret", "cannot be pickled")

    def forms(self) -> tuple[str, ...]:
        """Returns the texts in which the secret could appear: as UTF-8 and as hex. Short texts are left out."""
        if len(self._value) < _SHORTEST_SCRUBBED:
            return ()
        text = self._value.decode("utf-8", "ignore").strip()
        return tuple(form for form in (text, self._value.hex()) if len(form) >= _SHORTEST_SCRUBBED)


def read_secret(path: Path) -> Secret:
    """Reads a key file, without its final newline.

    Raises `ConfigurationError` if the file cannot be read, or if other users may access it.
    """
    try:
        mode = path.stat().st_mode
        value = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(shown_name(path), error.strerror) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationError(path.name, f"mode {stat.S_IMODE(mode):o}: only the owner may read a secret (chmod 600)")
    return Secret(value.removesuffix(b"\n"))


def write_secret(path: Path, value: bytes) -> None:
    """Writes a key file that only its owner can read. Raises `ConfigurationError` if the file exists and is not empty, or cannot
    be created."""
    try:
        path.touch(mode=0o600, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(str(path), f"{error.strerror}: name a file in a folder that can be written") from None
    if path.stat().st_size:
        raise ConfigurationError(path.name, "exists, and a key is never overwritten: name another file")
    path.chmod(0o600)
    path.write_bytes(value)


def scrub(text: str) -> str:
    """Returns the text with every secret of this process replaced by `[redacted]`."""
    for secret in list(_LIVE):
        for form in secret.forms():
            text = text.replace(form, "[redacted]")
    return text
