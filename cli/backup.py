"""`bytewise backup`: writes one file with everything of a node that must not be lost, and restores a node from such a file."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bytewise.protocol import encoding
from bytewise.protocol.errors.actors import ConfigurationError, OlderBackup, StoreCorrupt
from cli.node.new_folder import new_folder
from cli.options import SETTINGS, NodeConfigOption
from cli.output import OutputFormat, OutputOption, emit, moment

if TYPE_CHECKING:
    from bytewise.storage.backups.backup import BackupSource, RestoredDatabase
    from bytewise.storage.backups.backup_file import BackupManifest
    from serving.settings import OperatorSettings
    from verifier.settings import NodeSettings

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")]
FolderArgument = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="New folder, or an empty one that is no mount point; its parent must be writable."),
]


def make(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New file.")],
    config: NodeConfigOption = Path(SETTINGS),
    with_password: Annotated[
        bool, typer.Option("--with-password", help="Put the password of the keystore into the file too: who has it can sign.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Write keys, votes, journal, database and settings of a node to one new file that only you can read; it may be running.

    The file has the settings, the keys and other files in the node's folder, the database with votes, journal and transactions,
    and a second copy of the protection table. The password of the keystore is not in the file: keep a copy elsewhere. Folders
    are not in it: copy the folders of capsules and checkpoints yourself, because they cannot be made again. Files outside the
    node's folder are not in it either. The command prints the names of these folders and files.

    Exit codes: 0 written, 64 wrong input, for example a file that exists.

    Example: bytewise backup make node.tar --config bytewise-member/bytewise.toml
    """
    from bytewise.service.clock import SystemClock
    from bytewise.storage.backups.backup import make_backup
    from bytewise.storage.backups.backup_file import folders_of

    source = _source(config)
    manifest = make_backup(source, out, SystemClock(), with_password)
    folders = sorted({each for settings in source.settings for each in folders_of(settings)})
    emit(output, _document(manifest) | {"folders": folders}, lambda: _print(out, manifest, folders))


def verify(file: FileArgument, output: OutputOption = OutputFormat.TABLE) -> None:
    """Check a backup: every hash, the database, the protection table and the chain of the journal.

    The command restores nothing, and removes what it unpacked. Of a dump of PostgreSQL it checks only the hash and the first
    bytes. It checks the journal only if the backup has the journal's key.

    Exit codes: 0 sound, 6 its votes contradict each other, 64 no backup, damaged, altered, truncated, or of another version.

    Example: bytewise backup verify node.tar
    """
    with tempfile.TemporaryDirectory() as name:
        manifest = _unpacked(file, Path(name))
    emit(output, _document(manifest), lambda: _print(file, manifest))


def restore(
    file: FileArgument,
    folder: FolderArgument,
    votes: Annotated[
        Path | None, typer.Option("--votes", help="Export with newer votes (`bytewise member export-votes`); they are added.")
    ] = None,
    network: Annotated[Path | None, typer.Option("--network", help="Address book that the backup must be of.")] = None,
    not_run_since: Annotated[
        bool, typer.Option("--not-run-since", help="The node was stopped for this backup and did not run since: no fence.")
    ] = False,
    older: Annotated[
        bool, typer.Option("--older", help="Restore it although its folder has a newer backup of the node.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Make the folder of a node from its backup, and set the fence that keeps it from voting twice.

    The lost database may have votes that the backup lacks. The restored node therefore makes no vote in a round whose members
    were drawn before the node first reads the chain. It still reveals votes that the backup has. A restored operator signs no
    receipts: use another account to serve. With --not-run-since there is no fence. Never start the old node again.

    A backup of PostgreSQL goes into the empty database that the settings name.

    Exit codes: 0 restored, 6 refused: a newer backup is known, a vote contradicts, or a process uses the key, 64 wrong input: no
    backup, damaged, altered, of another version or network, or the folder is not empty or cannot be made.

    Example: bytewise backup restore node.tar bytewise-member
    """
    _verify_empty(folder)
    exports = _export(votes)
    with _draft_beside(folder) as name:
        manifest = _unpacked(file, Path(name))
        _verify_network(manifest, network)
        _verify_newest(file, manifest, older)
        if not_run_since and manifest.was_running:
            raise ConfigurationError("--not-run-since", f"{file.name} was made while the node ran, so it did run since")
        done = _placed(Path(name), folder, manifest, exports, not_run_since)
    found = _document(manifest) | {"votes": done.votes, "votes_added": done.added, "fenced": not not_run_since}
    emit(output, found, lambda: _tell_restored(folder, manifest, done, not_run_since))


def _placed(
    staged: Path, folder: Path, manifest: "BackupManifest", exports: dict[str, bytes], is_newest: bool
) -> "RestoredDatabase":
    """Makes the node's folder from the unpacked backup in `staged`, completely or not at all, and restores the database.

    `exports` are further exports of votes by file name. `is_newest` means that the node did not run since the backup.
    """
    from bytewise.service.clock import SystemClock
    from bytewise.service.node_files.key_lock import verify_unused
    from bytewise.storage.backups.backup import restore_database
    from bytewise.storage.backups.backup_file import FILES

    verify_unused(Path(manifest.key_file))
    with new_folder(folder) as draft:
        shutil.copytree(staged / FILES, draft, dirs_exist_ok=True)
        copy = next(staged.glob("database.*"))
        return restore_database(copy, exports, _database_in(draft, manifest), manifest, SystemClock(), is_newest)


def _source(config: Path) -> "BackupSource":
    from bytewise.storage.backups.backup import BackupSource
    from cli.node.roles import NodeRole
    from cli.node.view import NodeView

    view = NodeView(config)
    if view.role is NodeRole.SHARD:
        raise ConfigurationError("role", "a key shard has a backup of its own kind: `bytewise shard backup`")
    signer = view.signer_settings
    if signer is None:
        raise ConfigurationError("role", "a monitor makes its index again: copy its folder of release logs, which it cannot")
    settings = (view.settings,) if view.enclave is None else (view.settings, view.enclave)
    return BackupSource(config, view.role.value, settings, view.network, view.account, signer.lock_file, view.database)


def _unpacked(file: Path, into: Path) -> "BackupManifest":
    """Unpacks a backup into a folder, checks all of it, and returns its manifest."""
    from bytewise.storage.backups.backup import verify_backup
    from bytewise.storage.backups.backup_file import FILES, unpack_backup

    manifest = unpack_backup(file, into)
    config = into / FILES / manifest.settings
    if f"{FILES}{manifest.settings}" not in {each.name for each in manifest.members}:
        raise ConfigurationError(file.name, f"lacks {manifest.settings}, the settings of its node")
    settings = _node_settings(config)
    try:
        verify_backup(into, manifest, settings.db.journal_key_file)
    except StoreCorrupt as error:
        raise ConfigurationError(file.name, f"{error}: take an older backup") from None
    _verify_key(file, settings.signer.key_file, manifest)
    return manifest


def _node_settings(config: Path) -> "OperatorSettings | NodeSettings":
    from cli.node.view import NodeView
    from dashboard.monitor.settings import MonitorSettings
    from kms.settings import ShardSettings

    settings = NodeView(config).settings
    assert not isinstance(settings, ShardSettings | MonitorSettings), "neither makes such a backup"
    return settings


def _verify_key(file: Path, key: Path | None, manifest: "BackupManifest") -> None:
    """Raises `ConfigurationError` if the key file is of another account than the manifest. The keystore names its account, so no
    password is needed."""
    from chain.sending.keys import load_signer

    if key is None or not key.is_file():
        return
    content = key.read_bytes().lstrip()
    account = f"0x{json.loads(content)['address'].lower()}" if content.startswith(b"{") else load_signer(key).address
    if account != manifest.account:
        raise ConfigurationError(file.name, f"has the key of {account[:42]}, and its manifest names {manifest.account}")


_CANNOT_BE_MADE = "name a new folder in a folder where you can write"


def _verify_empty(folder: Path) -> None:
    try:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()  # `new_folder` makes it, whole or not at all
            return
    except OSError as error:
        raise ConfigurationError(str(folder), f"{error.strerror}: {_CANNOT_BE_MADE}") from None
    if folder.exists():
        advice = "name a new folder; votes of what is in it can be added with --votes"
        raise ConfigurationError(str(folder), f"is not empty, and nothing in it is overwritten: {advice}")


def _draft_beside(folder: Path) -> "tempfile.TemporaryDirectory[str]":
    """Makes a temporary folder beside the node's folder, into which the backup is unpacked."""
    parent = folder.absolute().parent
    if not parent.is_dir():
        raise ConfigurationError(str(folder), f"{parent} is no folder: make it first")
    try:
        return tempfile.TemporaryDirectory(dir=parent, prefix=f".{folder.name}-")
    except OSError as error:
        raise ConfigurationError(str(folder), f"{error.strerror}: {_CANNOT_BE_MADE}") from None


def _export(votes: Path | None) -> dict[str, bytes]:
    if votes is None:
        return {}
    try:
        return {votes.name: votes.read_bytes()}
    except OSError as error:
        raise ConfigurationError(votes.name, error.strerror) from None


def _verify_network(manifest: "BackupManifest", network: Path | None) -> None:
    from chain.client.address_book import read_network

    if network is None:
        return
    book = read_network(network)
    if (book.chain_id, book.addresses.registry) != (manifest.chain_id, manifest.registry):
        theirs, ours = f"{manifest.registry} on chain {manifest.chain_id}", f"{book.addresses.registry} on chain {book.chain_id}"
        raise ConfigurationError(network.name, f"is the network of registry {ours}, and the backup is of {theirs}")


def _verify_newest(file: Path, manifest: "BackupManifest", older: bool) -> None:
    from bytewise.storage.backups.backup import backups_in

    newest = max(backups_in(file.absolute().parent, manifest.account), default=None)
    if newest is not None and newest[0] > manifest.made_at and not older:
        raise OlderBackup(file.name, newest[1].name)


def _database_in(draft: Path, manifest: "BackupManifest") -> str:
    """Returns the URL of the database in the settings of the restored folder. Raises `ConfigurationError` if it is a SQLite file
    outside that folder."""
    url = _node_settings(draft / manifest.settings).db.location
    scheme, slashes, name = url.partition(":///")
    inside = Path(name).resolve().is_relative_to(draft.resolve())
    if scheme.startswith("sqlite") and (not slashes or not inside):
        raise ConfigurationError("db.url", f"{name[:80]} is outside the node's folder: a backup writes nothing there")
    return url


def _document(manifest: "BackupManifest") -> dict[str, Any]:
    return encoding.to_json(manifest)


def _print(file: Path, manifest: "BackupManifest", folders: Sequence[str] = ()) -> None:
    print(f"{manifest.role} {manifest.account} on chain {manifest.chain_id} in {file}")
    print(f"made {moment(manifest.made_at)}{' while it ran' if manifest.was_running else ''}, {len(manifest.members)} files, "
          f"{manifest.votes} votes, database {manifest.database}, revision {manifest.revision}")  # fmt: skip
    print("the password of its keystore is in it" if manifest.has_password else
          "the password of its keystore is not in it: keep a copy elsewhere")  # fmt: skip
    for name in manifest.outside:
        print(f"not in it, because it is outside the node's folder: {name}")
    for name in folders:
        print(f"not in it, because it is a folder: {name}")


def _tell_restored(folder: Path, manifest: "BackupManifest", done: "RestoredDatabase", is_newest: bool) -> None:
    print(f"{manifest.role} {manifest.account} restored to {folder}: {done.votes} votes, {done.added} of them from exports")
    if not is_newest:
        print("it makes no vote in rounds that were drawn before its first look at the chain, because it may have voted there")
        if manifest.role == "operator":
            print("it signs no receipt any more: use another account to serve")
    if not manifest.has_password:
        print("put the password of the keystore back before you start it")
    for name in manifest.outside:
        print(f"put back before you start it: {name}")
    print(f"never start the old node again; start this one: bytewise run --config {folder / manifest.settings}")
