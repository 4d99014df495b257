"""A shard's account at rest: the signing key, which is sealed under the folder's storage key like shares (ADR-041).

A copy of the folder without its storage key must not be enough to sign for the shard, because a repair gives a share to whoever
can sign with the shard's key. The address is public and is stored beside the sealed key, so reading it opens nothing.
"""

from dataclasses import dataclass
from pathlib import Path

from bytewise.crypto.curve import Rng
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Address, Blob, Digest
from bytewise.service.secret import Secret
from kms.storage.files import KEY_BYTES, is_wiped, read_key, wipe, write_whole
from kms.storage.sealing import Sealer, open_sealer

SEALED_KEY, PLAIN_KEY = "signing.sealed", "signing.key"
"""Names of the file with the sealed key, and of the file with the plain key as hex. The plain key exists only in folders from
before ADR-041 and in their backups."""


@dataclass(frozen=True, slots=True)
class SealedAccount:
    """Content of `signing.sealed`."""

    address: Address
    """Account of the key. The key opens for this address only."""
    sealed: Blob
    """The key of 32 bytes, sealed by the folder's sealer."""


def draw_account(folder: Path, sealer: Sealer, rng: Rng) -> None:
    """Draws the folder's signing key if there is none. An existing key stays, even an unsealed one, although `open_account`
    refuses an unsealed key."""
    if not (folder / SEALED_KEY).exists() and not (folder / PLAIN_KEY).exists():
        _store(folder, Secret(rng(KEY_BYTES)), sealer)


def address_of(folder: Path) -> Address:
    """Returns the account that a folder's file names. Only `open_account` proves that the folder can sign for it. Raises
    `ConfigurationError` if the account is missing, malformed or stored in plain."""
    if (folder / PLAIN_KEY).exists():
        do = "is not sealed, so that any copy of the folder can sign for this shard: stop the shard and run `bytewise shard wrap`"
        raise ConfigurationError(PLAIN_KEY, f"{do}, which seals it")
    return _read(folder).address


def open_account(folder: Path, sealer: Sealer | None = None) -> LocalSigner:
    """Opens the account that signs for this shard, by default with the storage key in the folder's `storage.key`.

    Raises `ConfigurationError` if the account is missing, stored in plain, altered, or sealed under another storage key.
    """
    address_of(folder)
    return _opened(folder, sealer or open_sealer(folder))


def seal_account(folder: Path, sealer: Sealer) -> bool:
    """Seals a plain signing key and wipes its file. Returns whether there was a plain key.

    The same call continues after a crash. Raises `ConfigurationError` and changes nothing if the folder has another sealed key.
    """
    path = folder / PLAIN_KEY
    if not path.exists() or ((folder / SEALED_KEY).exists() and is_wiped(path)):
        _opened(folder, sealer)
        path.unlink(missing_ok=True)
        return False
    key = Secret(read_key(path))
    _address(key)
    if not (folder / SEALED_KEY).exists():
        _store(folder, key, sealer)
    if Secret(_opened(folder, sealer).secret) != key:
        raise ConfigurationError(PLAIN_KEY, f"is another key than {SEALED_KEY} has; one of them is of another folder")
    wipe(path)
    return True


def _store(folder: Path, key: Secret, sealer: Sealer) -> None:
    address = _address(key)
    write_whole(folder / SEALED_KEY, encode(SealedAccount(address, Blob(sealer.seal(key.reveal(), account_context(address))))))


def _address(key: Secret) -> Address:
    try:
        return LocalSigner(key.reveal()).address
    except ValueError as error:
        raise ConfigurationError(PLAIN_KEY, f"{error}: restore a backup") from None


def _opened(folder: Path, sealer: Sealer) -> LocalSigner:
    stored = _read(folder)
    try:
        return LocalSigner(sealer.open(stored.sealed, account_context(stored.address)).reveal())
    except ConfigurationError:
        why = "does not open under the storage key of the settings: another key sealed it, or it was altered"
        do = "name the key that sealed this folder (storage_key_file, wrap_command); if that is lost, so is the account"
        raise ConfigurationError(SEALED_KEY, f"{why}; {do}") from None


def _read(folder: Path) -> SealedAccount:
    try:
        return decode(SealedAccount, (folder / SEALED_KEY).read_bytes())
    except OSError as error:
        raise ConfigurationError(SEALED_KEY, f"{error.strerror}: the shard's account is missing; restore a backup") from None
    except Fault as error:
        raise ConfigurationError(SEALED_KEY, str(error)[:200]) from None


def account_context(address: Address) -> Digest:
    """Returns the associated data of a sealed account key, which binds the key to its account."""
    return digests.labelled(Label.ACCOUNT_AT_REST, bytes.fromhex(address[2:]))
