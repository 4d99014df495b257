"""`bytewise kms status`, `backup` and `restore`: whether keys are served, and how a shard gets its folder back."""

import json
import secrets
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bytewise.protocol.address_book import Network
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import load_settings
from bytewise.storage.engine import check_revision, open_database
from bytewise.storage.releases import ReleaseRecords
from chain.client.access import open_chain
from chain.client.address_book import verify_code
from chain.reads.reader import SnapshotReader
from cli import key_status
from cli.connect import NETWORK_FILE, RPC_URLS, TIMEOUT_S, NetworkOption, RpcOption, address_book, chain_of
from cli.verify import Output, OutputOption
from kms.backup import back_up
from kms.backup import restore as restore_file
from kms.settings import ShardSettings
from kms.shard.chain_view import ChainCeremonyView
from kms.storage.files import read_key

ShardOption = Annotated[Path, typer.Option("--config", help="Settings of the shard (`python -m kms serve`).")]
KeyOption = Annotated[Path, typer.Option("--key", help="Key of the backup: a file with 32 bytes as hex, kept elsewhere than it.")]


def status(network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, output: OutputOption = Output.TABLE) -> None:
    """Key epochs as the chain has them, and whether the shards of each are there, serve it, and have the chain's policy.

    Exit codes: 0 all as it should be, 2 a shard or the address book says otherwise than the chain, 5 a shard or the node does not
    answer, 64 asked wrongly.
    """
    book = address_book(network)
    client = chain_of(rpc, book.chain_id)
    state = key_status.collect(SnapshotReader(client, verify_code(client, book)), key_status.ask_over_https(TIMEOUT_S))
    if output is Output.JSON:
        print(json.dumps(state, indent=2))
    else:
        key_status.show(state, Console())
    if state["wrong"]:
        raise typer.Exit(Exit.MISMATCH)
    raise typer.Exit(Exit.UNAVAILABLE if state["silent"] else Exit.OK)


def backup(config: ShardOption, key: KeyOption, out: Annotated[Path, typer.Argument(metavar="OUT", help="New file.")]) -> None:
    """Write keys, shares and how far the release log is to one sealed file. The shard may be running.

    Make the key once, `openssl rand -hex 32 > backup.key; chmod 600 backup.key`, and keep it away from the file. The database is
    not in the file: replicate it by its own means, for without its log the keys cannot come back. Make a backup after every
    ceremony.

    Exit codes: 0 written, 6 the database lacks what the shard signed, 64 asked wrongly.
    """
    settings = load_settings(ShardSettings, config)
    records = _records(settings, address_book(settings.network_file))
    made = back_up(settings.folder, out, read_key(key), records, SystemClock(), secrets.token_bytes)
    print(f"{len(made.files)} files of shard {made.shard} in {out}")


def restore(
    config: ShardOption,
    key: KeyOption,
    file: Annotated[Path, typer.Argument(metavar="IN", help="A backup.")],
    without: Annotated[bool, typer.Option("--without-shares", help="Only the keys: the others repair the share.")] = False,
) -> None:
    """Put keys and shares back into the folder of a shard that lost them, beside its database.

    Refused, and nothing is written, if the chain means shares that the file does not have (it was made before they were dealt
    again), or if the database is older than the file. Nothing that is in the folder is replaced; shares that the chain means no
    more stay out.

    Exit codes: 0 restored, 5 the node does not answer, 6 the file or the database is stale, 64 asked wrongly (another key
    than that of `storage_key_file` sealed the shares, say).
    """
    settings = load_settings(ShardSettings, config)
    book = address_book(settings.network_file)
    client = open_chain(*settings.rpc, book.chain_id)
    view = ChainCeremonyView(SnapshotReader(client, verify_code(client, book), settings.finality))
    records, shown = _records(settings, book), None if without else view
    done = restore_file(file, read_key(key), settings.folder, records, shown, settings.sealing)
    print(f"{len(done.written)} files of shard {done.backup.shard} in {settings.folder}")
    for name in done.dropped:
        print(f"{name} stays out" + ("" if without else ": the chain means it no more"))


def _records(settings: ShardSettings, book: Network) -> ReleaseRecords:
    engine = open_database(settings.database_url)
    check_revision(engine)
    return ReleaseRecords(engine, book.epochs_domain)
