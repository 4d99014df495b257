"""`bytewise shard`: makes the folder of a new key shard, with commented settings, and makes and restores backups of a shard."""

import json
import os
import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import typer

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import ZERO_ADDRESS, Address, address
from bytewise.service.settings import load_settings
from cli.node.new_folder import new_folder
from cli.options import NETWORK_FILE, RPC_URLS, SETTINGS, NetworkOption

if TYPE_CHECKING:
    from bytewise.protocol.address_book import Network
    from bytewise.storage.releases import ReleaseRecords
    from kms.settings import ShardSettings
    from kms.storage.sealing import StorageKeySource


ShardOption = Annotated[Path, typer.Option("--config", help="Settings of the shard (`bytewise shard run`).")]
KeyOption = Annotated[Path, typer.Option("--key", help="Key of the backup: a file with 32 bytes as hex, kept elsewhere than it.")]


def backup(config: ShardOption, key: KeyOption, out: Annotated[Path, typer.Argument(metavar="OUT", help="New file.")]) -> None:
    """Write keys, shares and the position of the release log to one sealed file.

    The shard may be running.

    Make the key of the backup once, by `openssl rand -hex 32 > backup.key; chmod 600 backup.key`, and keep it away from the
    backup. The backup lacks the shard's database, bytewise.toml, the epoch document and the policy: keep copies of these files.
    Replicate the database with its own tools, because a restore needs the release log in it. Make a backup after every ceremony.

    Exit codes: 0 written, 6 the database lacks records that the shard signed, 64 wrong input.
    """
    from bytewise.service.clock import SystemClock
    from chain.client.address_book import read_network
    from kms.backup import back_up
    from kms.settings import ShardSettings
    from kms.storage.files import read_key

    settings = load_settings(ShardSettings, config, "shard")
    records = _records(settings, read_network(settings.network_file))
    made = back_up(settings.folder, out, read_key(key), records, SystemClock(), secrets.token_bytes)
    print(f"{len(made.files)} files of shard {made.shard} in {out}")


def restore(
    config: ShardOption,
    key: KeyOption,
    file: Annotated[Path, typer.Argument(metavar="IN", help="A backup.")],
    without: Annotated[bool, typer.Option("--without-shares", help="Only the keys: the others repair the share.")] = False,
) -> None:
    """Put keys and shares back into the folder of a shard that lost them.

    First bring back the settings file, and the newest copy of the shard's database to the place that `database_url` names.

    The command writes nothing if the backup lacks the shares in force, because it was made before a refresh or reshare. It also
    writes nothing if the database is older than the backup. It overwrites no file in the folder, and does not restore shares that
    are no longer in force.

    Exit codes: 0 restored, 2 the release log in the database was altered, 5 the node does not answer, 6 the file or the database
    is stale, 64 wrong input (for example, the shares are sealed under another key than that of `storage_key_file`).
    """
    from chain.client.access import open_chain
    from chain.client.address_book import read_network, verify_code
    from chain.reads.reader import SnapshotReader
    from kms.backup import restore as restore_file
    from kms.settings import ShardSettings
    from kms.shard.chain_view import ChainCeremonyView
    from kms.storage.files import read_key

    settings = load_settings(ShardSettings, config, "shard")
    book = read_network(settings.network_file)
    client = open_chain(*settings.rpc, book.chain_id)
    view = ChainCeremonyView(SnapshotReader(client, verify_code(client, book), settings.finality))
    records, shown = _records(settings, book), None if without else view
    done = restore_file(file, read_key(key), settings.folder, records, shown, settings.sealing)
    print(f"{len(done.written)} files of shard {done.backup.shard} in {settings.folder}")
    for name in done.dropped:
        print(f"{name} stays out" + ("" if without else ": the chain means it no more"))


def _records(settings: "ShardSettings", book: "Network") -> "ReleaseRecords":
    from bytewise.storage.engine import check_revision, open_database
    from bytewise.storage.releases import ReleaseRecords

    engine = open_database(settings.database_url)
    check_revision(engine)
    return ReleaseRecords(engine, book.epochs_domain)


DATABASE = "shard.sqlite"
"""Name of the database in a new shard's folder."""
AUDITS_PER_EPOCH = 1000
"""Default of `audits_per_epoch`: the light audits that a new shard serves in one key epoch. Each audit costs one proven
partial."""

_TEMPLATE = """\
# Settings of the key shard at {url}, made by `bytewise shard init`.
# Start the shard with `bytewise run --config` and the path of this file. Relative paths below start at this file's folder.
role = "shard"

[shard]

# Addresses on which the shard listens. Port `port` serves HTTPS: the public release log and key ceremonies. Port `channel_port`
# serves attested channels, and partials leave only through these. Others use the addresses in entry.json; behind a proxy those
# are different.
host = {host}
port = {port}
channel_port = {channel_port}

# Folder with the keys, the sealed shares and the newest accepted policy. After every ceremony, back it up with
# `bytewise shard backup`.
folder = "."
# The storage key seals shares and account key in that folder. There are two ways to keep it:
# - As a file: storage.key in the folder, or the file that `storage_key_file` names.
# - Wrapped by a key service, a token or a TPM (docs/guide/run-a-key-shard.md). `wrap_command` reads the key from stdin and prints
#   it wrapped, for the file storage.wrapped. `unwrap_command` does the reverse at every start. Each is a program with its
#   arguments, run without a shell. `bytewise shard wrap` changes from a file to these commands.
{sealing}
# Database with the release log. Never restore an older state of it: others would see two histories. So do not keep it in the
# backups of the folder, but replicate it. PostgreSQL works too: write its URL here without the password (the password is in
# `~/.pgpass`), and run `python -m bytewise.storage migrate --url URL` once.
database_url = {database_url}

# Document of the key epoch that the shard serves. A ceremony makes it (`bytewise key dkg`). Before that, the shard only takes
# part in ceremonies. After it, put the document here and restart.
epoch_file = "epoch.json"
# Appraisal policy: which enclaves get keys. The governors below sign it. Needed as soon as there is an epoch.
policy_file = "policy.json"
# Address book: contracts and key epochs of the network.
network_file = {network_file}

# Chain node, preferably your own. For several nodes set rpc_urls and rpc_quorum in place of rpc_url. The shard then acts only on
# answers that at least `rpc_quorum` nodes agree on.
{rpc}
# rpc_quorum = 2
# Blocks that decide a release: "finalized", or "latest" on a chain without finality.
finality = "finalized"

# Account that runs key ceremonies. The shard takes part in no others.
coordinator = {coordinator}
# Digests of the plans that may give shares of its keys to other shards. Read a plan first: `bytewise key plan FILE`.
# approved_plans = ["0x..."]
# Days after which the shard reminds you to have the shares dealt again (`bytewise key reshare`). 0 means never.
# refresh_days = 180

# Accounts that approve appraisal policies, and how many of them are needed.
{governance}

# Whether the shard takes part in key epochs with numbers from 3 * 2^32 on. In these, enclaves get its share itself and rebuild
# the key (ADR-040).
# release_shares = true

# How the shard is attested to enclaves: "tdx" or "snp", with a folder of collateral or certificates. Keep that folder current.
# Needed as soon as there is an epoch.
{attestation}

# Largest number of light audits that the shard serves in one epoch. Seats of disputes do not count and are never refused.
audits_per_epoch = {audits}
# true: refuse simulated evidence, policies and epochs, and blocks that are not final.
production = {production}

# Where it serves /metrics, /livez, /readyz and /version.
[shard.metrics]
# host = "127.0.0.1"
# port = 9464
"""


_HARDWARE = """\
# evidence = "tdx"
# endorsements = "endorsements\""""

_SIMULATED = """\
# Here it is simulated: `python -m bytewise.tee_simulated issue` makes the platform file.
evidence = "simulated"
platform_file = "platform.pem"
insecure_accept_simulated = true"""


class ShardFolderChoices(NamedTuple):
    """The choices of the person who makes a shard, from the options of `bytewise shard init`."""

    url: str
    """HTTPS address at which other programs will reach the shard."""
    channel: str
    """`host:port` at which enclaves will reach the shard's attested channels."""
    coordinator: str
    """Account of the coordinator of key ceremonies."""
    network_file: Path
    """File of the address book."""
    rpc: list[str]
    """URLs of chain nodes."""
    governors: list[str]
    """Accounts that approve appraisal policies. The list may be empty only if `simulated` is true."""
    needed: int
    """How many of the governors must approve a policy."""
    simulated: bool
    """True for a shard of a test network, which accepts simulated evidence."""
    sealing: "StorageKeySource"
    """Where the storage key is, under which the shard's shares are sealed."""


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder; what it holds is secret.")],
    url: Annotated[str, typer.Option("--url", help="Address at which others will reach this shard: https://host:port.")],
    channel: Annotated[str, typer.Option("--channel", help="Where they will reach its attested channels: host:port.")],
    coordinator: Annotated[str, typer.Option("--coordinator", help="Account that runs key ceremonies (`bytewise key dkg`).")],
    network: NetworkOption = NETWORK_FILE,
    rpc: Annotated[list[str], typer.Option("--rpc", help="URL of a node; repeat it to ask several.")] = RPC_URLS,
    governor: Annotated[list[str] | None, typer.Option("--governor", help="Account that approves policies; repeat it.")] = None,
    needed: Annotated[
        int | None, typer.Option("--governors-needed", min=1, help="How many must sign a policy; by default more than half.")
    ] = None,
    simulated: Annotated[bool, typer.Option("--simulated", help="A shard of a test network: simulated enclaves count.")] = False,
    key: Annotated[
        Path | None, typer.Option("--storage-key", help="New file for the key that seals shares, outside FOLDER.")
    ] = None,
    wrap: Annotated[str, typer.Option("--wrap", help="Command that wraps that key instead: stdin to stdout, no shell.")] = "",
    unwrap: Annotated[str, typer.Option("--unwrap", help="Command that gives it back, run at every start.")] = "",
) -> None:
    """Make the folder of a new key shard: keys, database and settings.

    Each setting has a comment.

    Then give FOLDER/entry.json, which is public, to the coordinator of the ceremony. Start the shard with `bytewise run
    --config FOLDER/bytewise.toml`. When the ceremony is done, put its epoch document into FOLDER/epoch.json and restart.

    Every other file in FOLDER is secret. Share and account are sealed under FOLDER/storage.key, so anybody with a copy of the
    folder can act as the shard. To avoid that, put the key elsewhere with `--storage-key`, or keep it in a key service, a token
    or a TPM with `--wrap` and `--unwrap`. `docs/guide/run-a-key-shard.md` describes each step.

    Exit codes: 0 made, 5 the command of `--wrap` or `--unwrap` fails, 64 wrong input (for example, the folder or the key's file
    exists). With any code but 0 nothing was made.
    """
    from chain.client.address_book import read_network

    governors, sealing = governor or [], _sealing(key, wrap, unwrap)
    choices = ShardFolderChoices(
        url, channel, coordinator, network, rpc, governors, needed or len(governors) // 2 + 1, simulated, sealing
    )
    read_network(network)
    _print_made(folder, make_folder(folder.absolute(), choices))


def _sealing(key: Path | None, wrap: str, unwrap: str) -> "StorageKeySource":
    from kms.storage.sealing import StorageKeySource

    return StorageKeySource(key.absolute() if key else None, _words("--wrap", wrap), _words("--unwrap", unwrap))


def _print_made(folder: Path, account: str) -> None:
    from kms.storage import keyring

    print(
        f"shard {account} in {folder}: give {folder / keyring.ENTRY} to the coordinator, "
        f"then bytewise run --config {folder / SETTINGS}"
    )


def make_folder(folder: Path, choices: ShardFolderChoices) -> str:
    """Creates the folder of a new shard completely or not at all, and returns the shard's account.

    Raises `ConfigurationError` if the folder or the storage key's file exists, or if a choice is invalid.
    """
    from bytewise.protocol.encoding import encode
    from bytewise.storage.migrations.migrate import migrate
    from kms.settings import ShardSettings
    from kms.storage import keyring

    if not choices.simulated and not choices.governors:
        raise ConfigurationError("--governor", "missing: who approves policies? (`--simulated` for a test network)")
    if choices.governors and not choices.needed <= len(set(choices.governors)):
        raise ConfigurationError("--governors-needed", f"{choices.needed} of {len(set(choices.governors))}")
    text = settings_text(folder, choices)
    if folder.exists():
        raise ConfigurationError(str(folder), "exists; keys in it are never overwritten")
    with _key_elsewhere(folder, choices.sealing.key_file), new_folder(folder) as draft:
        keyring.create_keys(draft, choices.url, secrets.token_bytes, choices.sealing)
        entry = keyring.shard_entry(draft, choices.url, choices.channel)
        (draft / keyring.ENTRY).write_bytes(encode(entry))
        (draft / SETTINGS).write_text(text)
        load_settings(ShardSettings, draft / SETTINGS, "shard")
        migrate(f"sqlite:///{draft / DATABASE}")
    return entry.address


def settings_text(folder: Path, choices: ShardFolderChoices) -> str:
    """Returns the text of a new shard's settings file, in TOML. Raises `ConfigurationError` if an address or account is
    invalid."""
    from chain.client.node import verify_url

    host, port = _place("--url", choices.url, "https://")
    channel_host, channel_port = _place("--channel", choices.channel, "")
    if (host, port) == (channel_host, channel_port):
        raise ConfigurationError(
            "--channel", f"{choices.channel[:80]} is the place of --url: attested channels have another port"
        )
    for each in choices.rpc:
        verify_url(each)
    one = len(choices.rpc) == 1
    governors = [_account("--governor", each) for each in choices.governors]
    governed = f"policy_governors = {_toml(governors)}\npolicy_threshold = {choices.needed}"
    return _TEMPLATE.format(
        url=choices.url, host=_toml(host), port=port, channel_port=channel_port,
        database_url=_toml(f"sqlite:///{folder / DATABASE}"), network_file=_toml(str(choices.network_file.absolute())),
        coordinator=_toml(_account("--coordinator", choices.coordinator)),
        rpc=f"rpc_url = {_toml(choices.rpc[0])}" if one else f"rpc_urls = {_toml(choices.rpc)}",
        governance=governed if governors else '# policy_governors = ["0x..."]\n# policy_threshold = 1',
        attestation=_SIMULATED if choices.simulated else _HARDWARE, audits=AUDITS_PER_EPOCH,
        production=_toml(not choices.simulated), sealing=_sealing_text(choices.sealing),
    )  # fmt: skip


def _sealing_text(sealing: "StorageKeySource") -> str:
    from kms.storage.sealing import LIMIT_S

    given = {
        "storage_key_file": str(sealing.key_file) if sealing.key_file else None,
        "wrap_command": list(sealing.wrap) or None,
        "unwrap_command": list(sealing.unwrap) or None,
    }
    examples = {"storage_key_file": "storage.key", "wrap_command": ["wrap"], "unwrap_command": ["unwrap"]}
    lines = [f"{name} = {_toml(value)}" if value else f"# {name} = {_toml(examples[name])}" for name, value in given.items()]
    return "\n".join([*lines, f"# wrap_limit_s = {LIMIT_S}"])


def _words(option: str, text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigurationError(option, f"{text[:80]}: {error}") from None


def _account(option: str, text: str) -> Address:
    try:
        account = address(text)
    except MalformedValue:
        raise ConfigurationError(option, f"{text[:80]} is not 0x and 40 hex digits") from None
    if account == ZERO_ADDRESS:
        raise ConfigurationError(option, f"{account} is nobody's account: nobody has its key")
    return account


def _place(option: str, text: str, scheme: str) -> tuple[str, int]:
    try:
        parts = urlsplit(text if scheme else f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or text != f"{scheme}{parts.netloc}" or parts.username is not None:
        raise ConfigurationError(option, f"{text[:80]} is not {scheme}host:port")
    return host, port


@contextmanager
def _key_elsewhere(folder: Path, key_file: Path | None) -> Iterator[None]:
    """Context manager that writes a new random storage key to `key_file`, and wipes that file after an error. It does nothing if
    `key_file` is None. Raises `ConfigurationError` if the file would be inside `folder`."""
    from kms.storage.files import KEY_BYTES, create_file, wipe

    if key_file is None:
        yield
        return
    if Path(os.path.realpath(key_file)).is_relative_to(os.path.realpath(folder)):
        why = f"{key_file} is in {folder}: who copies that would have the key. Name a file elsewhere, or leave the option out"
        raise ConfigurationError("--storage-key", why)
    create_file(key_file, secrets.token_bytes(KEY_BYTES).hex().encode())
    try:
        yield
    except BaseException:
        wipe(key_file)
        raise


def _toml(value: Any) -> str:
    # JSON and TOML write strings, numbers, booleans and lists of strings in the same way.
    return json.dumps(value)
