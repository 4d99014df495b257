"""Asks a person at a terminal for the password of a keystore, if the settings name no file with it (`bytewise init --prompt`)."""

import getpass
import sys
from pathlib import Path

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.secret import Secret


def needs_password(key_file: Path | None, password_file: str | Path | None) -> bool:
    """Tells whether a person must type a password: the key file is a keystore, and no file with its password is named. Raises
    `ConfigurationError` if the key file cannot be read."""
    if key_file is None or password_file:
        return False
    try:
        return key_file.is_file() and key_file.read_bytes().lstrip().startswith(b"{")
    except OSError as error:
        raise ConfigurationError(str(key_file), f"{error.strerror}: run this as the user of the key file") from None


def asked_password(
    key_file: Path | None, password_file: str | Path | None, option: str = "signer.password_file"
) -> Secret | None:
    """Asks a person for the password of a keystore. Returns None if no password is needed. Raises `ConfigurationError` if there
    is no terminal; it names `option`, the setting or option that names the password file."""
    if key_file is None or not needs_password(key_file, password_file):
        return None
    if not sys.stdin.isatty():
        raise ConfigurationError(
            option, f"missing: {key_file.name} is a keystore, and there is no terminal to ask for its password"
        )
    return Secret(getpass.getpass(f"Password of {key_file}: ").encode())
