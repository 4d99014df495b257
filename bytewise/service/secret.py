"""A secret value that appears in no repr, log line or pickle, and is compared in constant time."""

import hmac
import stat
import weakref
from pathlib import Path
from typing import NoReturn

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.files import shown_name

_LIVE: "weakref.WeakSet[Secret]" = weakref.WeakSet()
_SHORTEST_SCRUBBED = 8
"""Shorter values would remove ordinary words from log lines."""


class Secret:
    """Bytes that only `reveal` returns."""

    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: bytes) -> None:
        self._value = bytes(value)
        _LIVE.add(self)

    def reveal(self) -> bytes:
        """The value, for the one call that needs it."""
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
        """Texts in which the value could appear: as UTF-8 and as hex."""
        if len(self._value) < _SHORTEST_SCRUBBED:
            return ()
        text = self._value.decode("utf-8", "ignore").strip()
        return tuple(form for form in (text, self._value.hex()) if len(form) >= _SHORTEST_SCRUBBED)


def read_secret(path: Path) -> Secret:
    """The content of a key file, without the final newline. `ConfigurationError` if others may read it."""
    try:
        mode = path.stat().st_mode
        value = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(shown_name(path), error.strerror) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationError(path.name, f"mode {stat.S_IMODE(mode):o}: only the owner may read a secret (chmod 600)")
    return Secret(value.removesuffix(b"\n"))


def write_secret(path: Path, value: bytes) -> None:
    """Creates a key file that only its owner can read. `ConfigurationError` if it exists."""
    path.touch(mode=0o600, exist_ok=True)
    if path.stat().st_size:
        raise ConfigurationError(path.name, "exists, and a key is never overwritten: name another file")
    path.chmod(0o600)
    path.write_bytes(value)


def scrub(text: str) -> str:
    """The text without any live secret."""
    for secret in list(_LIVE):
        for form in secret.forms():
            text = text.replace(form, "[redacted]")
    return text
