"""Seals a shard's secrets at rest with AES-256-GCM under the folder's storage key.

The storage key is in a file, or it is wrapped (`storage.wrapped`), so that only a command in the settings returns it. Such a
command may use a key service, a PKCS#11 token or a TPM (ADR-041). It reads bytes from stdin and prints bytes to stdout.
"""

import base64
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bytewise.crypto.curve import Rng
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.units import Blob, Digest
from bytewise.service.secret import Secret
from bytewise.service.settings import child_environment
from kms.storage.files import KEY_BYTES, create_file, is_wiped, read_key, wipe, write_whole

MAX_OUTPUT_BYTES = 16_384
"""Most bytes of a command's output: far more than any key service returns for 32 wrapped bytes."""
_BY_HAND = "run it by hand to see why (its stderr is dropped here, because it may contain the key)"


def run_key_command(setting: str, command: Sequence[str], given: bytes, limit_s: float) -> bytes:
    """Runs a command with these bytes as stdin and returns its output. `setting` names the command in errors.

    Raises `TryAgain` if the command fails, or has not ended after `limit_s` seconds; it is then killed with the processes that it
    started. Raises `ConfigurationError` if the command cannot be started, or prints nothing or too much.
    """
    out, code = _run(setting, command, given, limit_s)
    if code:
        raise TryAgain(_named(setting, command), f"it ended with exit code {code}; {_BY_HAND}")
    if not out:
        raise ConfigurationError(
            _named(setting, command), "it exited with 0 and printed nothing; it must print its result on stdout"
        )
    if len(out) > MAX_OUTPUT_BYTES:
        raise ConfigurationError(
            _named(setting, command), f"it printed {len(out)} bytes; a wrapped key has {MAX_OUTPUT_BYTES} at most"
        )
    return out


def _run(setting: str, command: Sequence[str], given: bytes, limit_s: float) -> tuple[bytes, int]:
    try:
        process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=child_environment(),
            start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        why = (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
        raise ConfigurationError(_named(setting, command), f"it cannot be started: {why}") from None
    with process:
        try:
            out, _ = process.communicate(given, limit_s)
        except subprocess.TimeoutExpired:
            # The whole process group is killed: a process that a shell started would keep the pipe, and the key, open.
            os.killpg(process.pid, signal.SIGKILL)
            why = f"it had not ended after {limit_s:g} s and was killed: check the key service, or raise `wrap_limit_s`"
            raise TryAgain(_named(setting, command), why) from None
    return out, process.returncode


def _named(setting: str, command: Sequence[str]) -> str:
    return f"{setting} ({command[0]})"


STORAGE_KEY, WRAPPED_KEY = "storage.key", "storage.wrapped"
LIMIT_S, MAX_LIMIT_S = 30.0, 600.0
"""Seconds that a command may take: the default, and the highest value of the setting."""
_NONCE_BYTES = 12


class Sealer(Protocol):
    """An object that seals short secrets. Each sealed secret is bound to a context, which names its purpose."""

    def seal(self, plain: bytes, context: Digest) -> bytes:
        """Seals a secret and returns the sealed form, which opens for the same context only."""
        ...

    def open(self, sealed: bytes, context: Digest) -> Secret:
        """Opens a sealed secret. Raises `ConfigurationError` if it was altered, or sealed under another key or for another
        context."""
        ...


class StorageKey:
    """A sealer that uses AES-256-GCM under one key, with the context as associated data. The sealed form is 12 bytes of nonce and
    the ciphertext. Implements `Sealer`."""

    __slots__ = ("_aead", "_name")

    def __init__(self, key: Secret, name: str) -> None:
        self._aead = AESGCM(key.reveal())
        self._name = name

    def seal(self, plain: bytes, context: Digest) -> bytes:
        """Seals a secret for a context (`Sealer`)."""
        nonce = token_bytes(_NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, plain, context)

    def open(self, sealed: bytes, context: Digest) -> Secret:
        """Opens a secret for a context (`Sealer`). Raises `ConfigurationError` if it does not open."""
        try:
            return Secret(self._aead.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], context))
        except (InvalidTag, ValueError):
            raise ConfigurationError(self._name, "does not open what it sealed") from None


@dataclass(frozen=True, slots=True)
class StorageKeySource:
    """Place of a folder's storage key, by default the folder's `storage.key`."""

    key_file: Path | None = None
    """File with the key: 32 bytes as hex."""
    wrap: tuple[str, ...] = ()
    """Program and arguments that read the key from stdin and print it wrapped."""
    unwrap: tuple[str, ...] = ()
    """Program and arguments that read what `wrap` printed and print the key."""
    limit_s: float = LIMIT_S
    """Most seconds that either command may take."""

    def __post_init__(self) -> None:
        if bool(self.wrap) != bool(self.unwrap):
            raise ConfigurationError("wrap_command", "set without unwrap_command or the reverse: set both or neither")
        if self.wrap and self.key_file is not None:
            raise ConfigurationError(
                "storage_key_file", "set together with wrap_command: set one of them, which keeps the storage key"
            )
        if not 0 < self.limit_s <= MAX_LIMIT_S:
            raise ConfigurationError("wrap_limit_s", f"{self.limit_s:g} is not above 0 and at most {MAX_LIMIT_S:g}")


IN_FOLDER = StorageKeySource()


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """Content of the file `storage.wrapped`: the wrapped storage key of a shard."""

    wrapped: Blob
    """The wrapped key, as the wrap command printed it."""
    check: Blob
    """An empty message that is sealed under the key, to recognise the key."""


def open_sealer(folder: Path, sealing: StorageKeySource = IN_FOLDER) -> Sealer:
    """Returns the sealer of a folder, with its key loaded. The unwrap command, if set, runs once.

    Raises `ConfigurationError` if a file or command is invalid, and `TryAgain` if the command fails or is too slow.
    """
    if not sealing.wrap:
        path = sealing.key_file or folder / STORAGE_KEY
        return StorageKey(Secret(read_key(path)), path.name)
    if (folder / STORAGE_KEY).exists():
        raise ConfigurationError(STORAGE_KEY, "is in the folder, and the settings have a wrap_command: run `bytewise shard wrap`")
    return StorageKey(_unwrapped(_read(folder), sealing), WRAPPED_KEY)


def verify_same_key(folder: Path, sealing: StorageKeySource) -> None:
    """Raises `ConfigurationError` if the settings name a key file while the folder has a different storage key."""
    own = folder / STORAGE_KEY
    if sealing.key_file and own.exists() and read_key(own) != read_key(sealing.key_file):
        raise ConfigurationError(
            "storage_key_file",
            f"{sealing.key_file.name} is another key than {STORAGE_KEY} in the folder, which sealed its shares: name that one",
        )


def draw_key(folder: Path, sealing: StorageKeySource, rng: Rng) -> None:
    """Draws the folder's storage key at the place that the settings name, unless there is one.

    Raises the errors of `open_sealer`. An existing key file must be one that `open_sealer` would accept, so that shares are never
    sealed under an invalid key.
    """
    if sealing.wrap:
        if not (folder / WRAPPED_KEY).exists():
            _store(folder, Secret(rng(KEY_BYTES)), sealing)
        return
    path = sealing.key_file or folder / STORAGE_KEY
    if path.exists():
        read_key(path)
    else:
        create_file(path, rng(KEY_BYTES).hex().encode())


def wrap_folder(folder: Path, sealing: StorageKeySource) -> None:
    """Moves the storage key of a folder from its file, which is wiped, into wrapped form. Shares stay as they are.

    The same call continues after a crash. The file stays until the command has returned the same key. Raises the errors of
    `open_sealer`.
    """
    if not sealing.wrap:
        raise ConfigurationError("wrap_command", "missing: name the program that wraps the storage key")
    if (folder / WRAPPED_KEY).exists() and is_wiped(folder / STORAGE_KEY):
        _unwrapped(_read(folder), sealing)
        (folder / STORAGE_KEY).unlink(missing_ok=True)
        return
    key = Secret(read_key(folder / STORAGE_KEY))
    if not (folder / WRAPPED_KEY).exists():
        _store(folder, key, sealing)
    if _unwrapped(_read(folder), sealing) != key:
        raise ConfigurationError(STORAGE_KEY, f"is another key than {WRAPPED_KEY} has; one of them is of another folder")
    wipe(folder / STORAGE_KEY)


def _store(folder: Path, key: Secret, sealing: StorageKeySource) -> None:
    wrapped = run_key_command("wrap_command", sealing.wrap, key.reveal(), sealing.limit_s)
    shown = (key.reveal(), key.reveal().hex().encode(), key.reveal().hex().upper().encode(), base64.b64encode(key.reveal())[:-1])
    if any(form in wrapped for form in shown):
        raise ConfigurationError(f"wrap_command ({sealing.wrap[0]})", "its output contains the key: it does not wrap it")
    stored = WrappedKey(Blob(wrapped), Blob(StorageKey(key, WRAPPED_KEY).seal(b"", _CHECK)))
    _unwrapped(stored, sealing)  # must work before anything depends on it
    write_whole(folder / WRAPPED_KEY, encode(stored))


def _unwrapped(stored: WrappedKey, sealing: StorageKeySource) -> Secret:
    key = Secret(run_key_command("unwrap_command", sealing.unwrap, stored.wrapped, sealing.limit_s))
    named = f"unwrap_command ({sealing.unwrap[0]})"
    if len(key.reveal()) != KEY_BYTES:
        raise ConfigurationError(
            named, f"it printed {len(key.reveal())} bytes and not the {KEY_BYTES} of the key that was wrapped"
        )
    try:
        StorageKey(key, WRAPPED_KEY).open(stored.check, _CHECK)
    except ConfigurationError:
        raise ConfigurationError(named, "it printed another key than was wrapped: does it use the key that wrapped it?") from None
    return key


def _read(folder: Path) -> WrappedKey:
    try:
        return decode(WrappedKey, (folder / WRAPPED_KEY).read_bytes())
    except OSError as error:
        raise ConfigurationError(WRAPPED_KEY, f"{error.strerror}: the storage key of this folder was never wrapped") from None
    except Fault as error:
        raise ConfigurationError(WRAPPED_KEY, str(error)[:200]) from None


_CHECK = digests.labelled(Label.STORAGE_KEY)
