"""A shard's account at rest: the key with which it signs, sealed under the folder's storage key as its shares are (ADR-040).

Who has a folder and not its storage key must not be the shard: the heir of a repair gets a share for its signature alone.
The address is public and stands beside the sealed key, so that who needs only that opens nothing.
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

SEALED_KEY, OPEN_KEY = "signing.sealed", "signing.key"
"""The key sealed; and as hex, as folders of before ADR-040 have it, and backups of them."""


@dataclass(frozen=True, slots=True)
class SealedAccount:
    """`signing.sealed`."""

    address: Address
    """Whose key it is; it opens for this address only."""
    sealed: Blob
    """The key, 32 bytes, as the folder's sealer sealed it."""


def draw_account(folder: Path, sealer: Sealer, rng: Rng) -> None:
    """Draws the folder's signing key; one that is there is kept, also one that lies open, which every tool refuses."""
    if not (folder / SEALED_KEY).exists() and not (folder / OPEN_KEY).exists():
        _store(folder, Secret(rng(KEY_BYTES)), sealer)


def address_of(folder: Path) -> Address:
    """The account of a folder as its file says it; that the folder can sign for it only `signer` shows. Errors as there."""
    if (folder / OPEN_KEY).exists():
        do = "lies open in the folder, and who copies that could be this shard: stop the shard and run `bytewise shard wrap`"
        raise ConfigurationError(OPEN_KEY, f"{do}, which seals it")
    return _read(folder).address


def signer(folder: Path, sealer: Sealer | None = None) -> LocalSigner:
    """The account that signs for this shard; by default under the folder's own `storage.key`.

    `ConfigurationError` if it is missing, lies open in the folder, was altered, or was sealed under another storage key.
    """
    address_of(folder)
    return _opened(folder, sealer or open_sealer(folder))


def seal_account(folder: Path, sealer: Sealer) -> bool:
    """Seals a signing key that lies open in the folder, and wipes its file; whether there was one.

    The same call goes on after a crash. `ConfigurationError` if the sealed key is another; then nothing is changed.
    """
    path = folder / OPEN_KEY
    if not path.exists() or ((folder / SEALED_KEY).exists() and is_wiped(path)):
        _opened(folder, sealer)
        path.unlink(missing_ok=True)
        return False
    key = Secret(read_key(path))
    _address(key)
    if not (folder / SEALED_KEY).exists():
        _store(folder, key, sealer)
    if Secret(_opened(folder, sealer).secret) != key:
        raise ConfigurationError(OPEN_KEY, f"is another key than {SEALED_KEY} has; one of them is of another folder")
    wipe(path)
    return True


def _store(folder: Path, key: Secret, sealer: Sealer) -> None:
    address = _address(key)
    write_whole(folder / SEALED_KEY, encode(SealedAccount(address, Blob(sealer.seal(key.reveal(), _bound(address))))))


def _address(key: Secret) -> Address:
    try:
        return LocalSigner(key.reveal()).address
    except ValueError as error:
        raise ConfigurationError(OPEN_KEY, f"{error}: restore a backup") from None


def _opened(folder: Path, sealer: Sealer) -> LocalSigner:
    stored = _read(folder)
    try:
        return LocalSigner(sealer.open(stored.sealed, _bound(stored.address)).reveal())
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


def _bound(address: Address) -> Digest:
    return digests.labelled(Label.ACCOUNT_AT_REST, bytes.fromhex(address[2:]))
