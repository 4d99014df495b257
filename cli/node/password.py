"""The password of a keystore for which the settings name no file (`bytewise init --prompt`): a person types it at a terminal."""

import getpass
import sys
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.secret import Secret


def needs_password(key_file: Path | None, password_file: str | Path | None) -> bool:
    """Whether a key file is a keystore, and no file has its password."""
    if key_file is None or password_file or not key_file.is_file():
        return False
    return key_file.read_bytes().lstrip().startswith(b"{")


def asked_password(key_file: Path | None, password_file: str | Path | None) -> Secret | None:
    """The password that a person types; None if none is needed. `ConfigurationError` without a terminal."""
    if key_file is None or not needs_password(key_file, password_file):
        return None
    if not sys.stdin.isatty():
        raise ConfigurationError(
            "signer.password_file", f"missing: {key_file.name} is a keystore, and there is no terminal to ask for its password"
        )
    return Secret(getpass.getpass(f"Password of {key_file}: ").encode())
