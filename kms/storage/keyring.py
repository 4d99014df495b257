"""A shard's keys at rest: a folder with a storage key, a signing key, a TLS key and certificate, and sealed shares.

`signing.sealed` contains the address and the signing key of the shard's account, and `tls.key` and `tls.pem` contain PEM.
`share-<epoch>.json` contains the share, sealed (`kms.storage.sealing`) and bound to epoch and index. A ceremony stores its share
as `share-<epoch>-<ceremony>.json`. In a hybrid epoch, `kem-<epoch>-<ceremony>.sealed` contains the ML-KEM-768 key of that share,
sealed in the same way.

The signing key is sealed under the folder's storage key like shares (ADR-041). A copy of the folder without its storage key must
not be enough to sign for the shard, because a repair gives a share to whoever can sign with the shard's key. The address is
public and is stored beside the sealed key, so reading it opens nothing.

A function that is called without `sealer` uses the folder's own `storage.key`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bytewise.crypto import hpke
from bytewise.crypto.curve import POINT_BYTES, Rng, decode_point, decode_scalar, encode_scalar
from bytewise.crypto.shares import verify_share
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.keys.ceremony import ShardContact
from bytewise.protocol.keys.epochs import EpochDocument, SealedShare
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U64, Address, Blob, Digest
from bytewise.service.node_files.certificates import make_certificate
from bytewise.service.secret import Secret
from kms.storage.files import DRAFT, KEY_BYTES, is_wiped, read_key, wipe, wipe_draft, write_whole
from kms.storage.sealing import IN_FOLDER, Sealer, StorageKeySource, draw_key, open_sealer

SEALED_KEY, PLAIN_KEY = "signing.sealed", "signing.key"
"""Names of the file with the sealed key, and of the file with the plain key as hex. The plain key exists only in folders from
before ADR-041 and in their backups."""
_NO_SHARE = (
    "is epoch_file the document of this shard's epoch? If the share is lost, restore a backup (`bytewise shard restore`); or "
    "move epoch_file away, start the shard, have the others repair it (`bytewise key repair`), and put epoch_file back"
)
_HEAD_BYTES = 12
"""Bytes of a sealed share that are stored in a field of their own: the nonce."""
TLS_KEY, TLS_CERTIFICATE = "tls.key", "tls.pem"
ENTRY = "entry.json"
"""Name of the file with the public description of the shard, which `bytewise shard init` wrote."""
SHARE_SUFFIX, KEM_SUFFIX = ".json", ".sealed"
RESTORING = ".restoring"
"""Name of the folder inside the shard's folder where a restore keeps its files until it knows which of them are in force."""
POLICY_HISTORY = "policy-history.json"
"""Name of the file with the newest appraisal policy that the shard accepted, and with the delays of the policy's additions. It is
kept, backed up and restored with the share."""


def create_keys(folder: Path, url: str, rng: Rng, sealing: StorageKeySource = IN_FOLDER) -> None:
    """Draws the keys that a shard's folder lacks: storage, signing and TLS keys. Existing keys are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    draw_key(folder, sealing, rng)
    draw_account(folder, open_sealer(folder, sealing), rng)
    if not (folder / TLS_KEY).exists():
        host = urlsplit(url).hostname or ""
        make_certificate(folder / TLS_CERTIFICATE, folder / TLS_KEY, host, "bytewise key shard")


def certificate(folder: Path) -> str:
    """Returns the TLS certificate that clients pin, as PEM."""
    return _text(folder / TLS_CERTIFICATE)


def shard_entry(folder: Path, url: str, channel: str) -> ShardContact:
    """Returns the shard's public entry, which other participants need before a ceremony. `url` is its HTTPS address, `channel`
    the `host:port` of its attested channels."""
    return ShardContact(address_of(folder), url, channel, certificate(folder))


def seal_share(folder: Path, epoch: int, index: int, share: int, suffix: str = "", sealer: Sealer | None = None) -> Path:
    """Seals and writes a share, and returns the path of its file. `suffix` is the part of the file name that follows the epoch.
    Raises `ConfigurationError` if the file exists."""
    path = folder / f"share-{epoch}{suffix}{SHARE_SUFFIX}"
    sealed = (sealer or open_sealer(folder)).seal(encode_scalar(share), share_context(epoch, index))
    write_whole(path, encode(SealedShare(U64(epoch), index, Blob(sealed[:_HEAD_BYTES]), Blob(sealed[_HEAD_BYTES:]))))
    return path


def seal_kem(folder: Path, epoch: int, index: int, seed: bytes, suffix: str = "", sealer: Sealer | None = None) -> Path:
    """Seals and writes the ML-KEM-768 key that belongs to the share with the same `suffix` in its file name. Returns the path of
    its file. Raises `ConfigurationError` if the file exists."""
    path = folder / f"kem-{epoch}{suffix}{KEM_SUFFIX}"
    write_whole(path, (sealer or open_sealer(folder)).seal(seed, kem_context(epoch, index)))
    return path


def find_kem(folder: Path, epoch: int, index: int, key: Blob, sealer: Sealer | None = None) -> Secret:
    """Returns the seed of the folder's ML-KEM-768 key that has this public key. Raises `ConfigurationError` if the folder has no
    such key."""
    sealer = sealer or open_sealer(folder)
    for path in _named(folder, "kem", epoch, KEM_SUFFIX):
        try:
            seed = sealer.open(path.read_bytes(), kem_context(epoch, index))
        except ConfigurationError:
            continue
        if hpke.kem_key(seed.reveal()) == key:
            return seed
    raise ConfigurationError(f"kem-{epoch}.sealed", "the folder has no ML-KEM-768 key that the epoch names for this shard")


def open_share(folder: Path, document: EpochDocument, sealer: Sealer | None = None) -> "OpenedShare":
    """Opens this folder's share of an epoch and checks it against the public commitments. Raises `ConfigurationError` if there is
    no such share."""
    record, what = document.record, f"share-{document.record.epoch}.json"
    if not document.commitments or document.commitments[0] != record.public_key:
        raise ConfigurationError(what, "commitments are not of the epoch's public key")
    sealer = sealer or open_sealer(folder)
    held = find_share(folder, record.epoch, document.commitments, sealer)
    if record.hybrid is None:
        return held
    key = record.hybrid.keys[held.index - 1]
    kem = find_kem(folder, record.epoch, held.index, key, sealer)
    return OpenedShare(held.index, Secret(encode_scalar(held.scalar())), kem)


def find_share(folder: Path, epoch: int, commitments: Sequence[Blob], sealer: Sealer | None = None) -> "OpenedShare":
    """Returns the share in the folder that fits these commitments. Raises `ConfigurationError` if there is none.

    The folder may also have older shares, for example from a backup. They do not fit, because each version of the shares has its
    own commitments.
    """
    erased = [path.name for path in folder.glob(f"erasure-{epoch}-v*-none.json")]
    why = f"it was erased ({erased[0]}) and cannot be restored" if erased else _NO_SHARE
    problem = ConfigurationError(f"share of key epoch {epoch}", f"the folder has none: {why}")
    sealer = sealer or open_sealer(folder)
    for path in _share_files(folder, epoch):
        try:
            return _fitting(sealer, epoch, path, commitments)
        except (OSError, Fault) as error:
            problem = ConfigurationError(path.name, type(error).__name__)
        except ConfigurationError as error:
            problem = error
    raise problem


def unopened_shares(folder: Path, epoch: int, sealer: Sealer) -> tuple[str, ...]:
    """Returns the names of the share files of an epoch that the sealer does not open, because they were altered or sealed under
    another key."""
    return tuple(path.name for path in _share_files(folder, epoch) if _is_locked(sealer, epoch, path))


def erase_others(folder: Path, epoch: int, commitments: Sequence[Blob], sealer: Sealer | None = None) -> int:
    """Overwrites and removes every share of an epoch that does not fit these commitments. Returns the number of erased shares.

    Raises `ConfigurationError` and erases nothing if no share fits. Copies that a file system or a backup keeps elsewhere stay,
    sealed.
    """
    sealer = sealer or open_sealer(folder)
    find_share(folder, epoch, commitments, sealer)
    return _erase(folder, epoch, {path for path in _share_files(folder, epoch) if _fits(sealer, epoch, path, commitments)})


def erase_all(folder: Path, epoch: int) -> int:
    """Overwrites and removes every share of an epoch. Returns the number of erased shares."""
    return _erase(folder, epoch, set())


def _erase(folder: Path, epoch: int, kept: set[Path]) -> int:
    """Removes every share of the epoch, every draft of a share and every ML-KEM key, except the shares in `kept` with their keys.
    Returns the number of erased shares."""
    erased = 0
    # Left-overs of a crash may contain any share: a renamed draft opens, and so does the copy of a restore.
    for kind, suffix in (("kem", KEM_SUFFIX), ("share", SHARE_SUFFIX)):
        left = [wipe_draft(path) for path in _named(folder, kind, epoch, DRAFT)]
        for ending in (DRAFT, suffix):
            left += [wipe_draft(path) for path in _named(folder / RESTORING, kind, epoch, ending)]
        erased += sum(left) if kind == "share" else 0
    # The ML-KEM keys are erased first. Without its key, a share of a hybrid epoch opens nothing. After a crash in between, the
    # next run still finds the share.
    kept_kems = {_kem_of(share) for share in kept}
    for path in _named(folder, "kem", epoch, KEM_SUFFIX):
        if path not in kept_kems:
            wipe(path)
    for path in _share_files(folder, epoch):
        if path not in kept:
            wipe(path)
            erased += 1
    return erased


def _kem_of(share: Path) -> Path:
    return share.with_name(share.name.replace("share-", "kem-", 1)).with_suffix(KEM_SUFFIX)


def split_commitments(commitments: bytes) -> tuple[Blob, ...]:
    """Splits bytes that contain commitments one after the other."""
    return tuple(Blob(commitments[at : at + POINT_BYTES]) for at in range(0, len(commitments), POINT_BYTES))


def load_document(path: Path) -> EpochDocument:
    """Reads a public epoch document. Raises `ConfigurationError` if the file cannot be read or is malformed."""
    try:
        return decode(EpochDocument, path.read_bytes())
    except (OSError, Fault) as error:
        raise ConfigurationError(path.name, str(error)[:200]) from None


class OpenedShare:
    """An opened share of one epoch. The secrets in it can be read only through the methods, and are never printed."""

    __slots__ = ("_kem", "_secret", "index")

    def __init__(self, index: int, secret: Secret, kem: Secret | None = None) -> None:
        self.index = index
        self._secret = secret
        self._kem = kem

    def scalar(self) -> int:
        """Returns the scalar f(index) of the share."""
        return decode_scalar(self._secret.reveal())

    def kem_seed(self) -> bytes:
        """Returns the seed of the ML-KEM-768 key. Raises `ConfigurationError` if the share has no such key."""
        if self._kem is None:
            raise ConfigurationError(f"share {self.index}", "has no ML-KEM-768 key")
        return self._kem.reveal()


def _share_files(folder: Path, epoch: int) -> list[Path]:
    return _named(folder, "share", epoch, SHARE_SUFFIX)


def _named(folder: Path, kind: str, epoch: int, suffix: str) -> list[Path]:
    """Returns the files of an epoch and kind: first the file without a ceremony in its name, then the files of ceremonies."""
    return [path for of in (f"{kind}-{epoch}", f"{kind}-{epoch}-*") for path in sorted(folder.glob(of + suffix))]


def _fits(sealer: Sealer, epoch: int, path: Path, commitments: Sequence[Blob]) -> bool:
    try:
        _fitting(sealer, epoch, path, commitments)
    except (OSError, Fault, ConfigurationError):
        return False
    return True


def _is_locked(sealer: Sealer, epoch: int, path: Path) -> bool:
    try:
        _opened(sealer, epoch, path)
    except ConfigurationError:
        return True
    except Fault:
        return False  # a malformed file is damaged, not locked
    return False


def _fitting(sealer: Sealer, epoch: int, path: Path, commitments: Sequence[Blob]) -> OpenedShare:
    held = _opened(sealer, epoch, path)
    verify_share(held.index, held.scalar(), [decode_point(each) for each in commitments])
    return held


def _opened(sealer: Sealer, epoch: int, path: Path) -> OpenedShare:
    stored = decode(SealedShare, path.read_bytes())
    try:
        return OpenedShare(stored.index, sealer.open(stored.nonce + stored.ciphertext, share_context(epoch, stored.index)))
    except ConfigurationError:
        why = "does not open: it was altered, or sealed under another storage key, epoch or index"
        raise ConfigurationError(path.name, why) from None


def share_context(epoch: int, index: int) -> Digest:
    """Returns the associated data of a sealed share, which binds the share to its epoch and index."""
    return digests.labelled(Label.SHARE_AT_REST, epoch, index)


def kem_context(epoch: int, index: int) -> Digest:
    """Returns the associated data of a sealed ML-KEM key, which binds the key to its epoch and index."""
    return digests.labelled(Label.KEM_AT_REST, epoch, index)


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(path.name, type(error).__name__) from None


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
        _store_account(folder, Secret(rng(KEY_BYTES)), sealer)


def address_of(folder: Path) -> Address:
    """Returns the account that a folder's file names. Only `open_account` proves that the folder can sign for it. Raises
    `ConfigurationError` if the account is missing, malformed or stored in plain."""
    if (folder / PLAIN_KEY).exists():
        do = "is not sealed, so that any copy of the folder can sign for this shard: stop the shard and run `bytewise shard wrap`"
        raise ConfigurationError(PLAIN_KEY, f"{do}, which seals it")
    return _read_account(folder).address


def open_account(folder: Path, sealer: Sealer | None = None) -> LocalSigner:
    """Opens the account that signs for this shard, by default with the storage key in the folder's `storage.key`.

    Raises `ConfigurationError` if the account is missing, stored in plain, altered, or sealed under another storage key.
    """
    address_of(folder)
    return _opened_account(folder, sealer or open_sealer(folder))


def seal_account(folder: Path, sealer: Sealer) -> bool:
    """Seals a plain signing key and wipes its file. Returns whether there was a plain key.

    The same call continues after a crash. Raises `ConfigurationError` and changes nothing if the folder has another sealed key.
    """
    path = folder / PLAIN_KEY
    if not path.exists() or ((folder / SEALED_KEY).exists() and is_wiped(path)):
        _opened_account(folder, sealer)
        path.unlink(missing_ok=True)
        return False
    key = Secret(read_key(path))
    _account_of(key)
    if not (folder / SEALED_KEY).exists():
        _store_account(folder, key, sealer)
    if Secret(_opened_account(folder, sealer).secret) != key:
        raise ConfigurationError(PLAIN_KEY, f"is another key than {SEALED_KEY} has; one of them is of another folder")
    wipe(path)
    return True


def _store_account(folder: Path, key: Secret, sealer: Sealer) -> None:
    address = _account_of(key)
    write_whole(folder / SEALED_KEY, encode(SealedAccount(address, Blob(sealer.seal(key.reveal(), account_context(address))))))


def _account_of(key: Secret) -> Address:
    try:
        return LocalSigner(key.reveal()).address
    except ValueError as error:
        raise ConfigurationError(PLAIN_KEY, f"{error}: restore a backup") from None


def _opened_account(folder: Path, sealer: Sealer) -> LocalSigner:
    stored = _read_account(folder)
    try:
        return LocalSigner(sealer.open(stored.sealed, account_context(stored.address)).reveal())
    except ConfigurationError:
        why = "does not open under the storage key of the settings: another key sealed it, or it was altered"
        do = "name the key that sealed this folder (storage_key_file, wrap_command); if that is lost, so is the account"
        raise ConfigurationError(SEALED_KEY, f"{why}; {do}") from None


def _read_account(folder: Path) -> SealedAccount:
    try:
        return decode(SealedAccount, (folder / SEALED_KEY).read_bytes())
    except OSError as error:
        raise ConfigurationError(SEALED_KEY, f"{error.strerror}: the shard's account is missing; restore a backup") from None
    except Fault as error:
        raise ConfigurationError(SEALED_KEY, str(error)[:200]) from None


def account_context(address: Address) -> Digest:
    """Returns the associated data of a sealed account key, which binds the key to its account."""
    return digests.labelled(Label.ACCOUNT_AT_REST, bytes.fromhex(address[2:]))
