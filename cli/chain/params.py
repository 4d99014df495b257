"""`bytewise chain params`: shows a version of the network's parameters, and tries a change of the parameters on the chain."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from cli.options import NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption

if TYPE_CHECKING:
    from bytewise.protocol.court.params import ParamSet
    from chain.deployment.calls import ContractCall
    from chain.reads.reader import SnapshotReader


SetOption = Annotated[Path | None, typer.Option("--set", help="TOML file with tables times, committee, money, shares.")]
BlockOption = Annotated[int | None, typer.Option("--block-s", min=1, help="Seconds of a block; as measured by default.")]


def params(
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    version: Annotated[int, typer.Option("--version", min=0, help="0: the one in force.")] = 0,
    changes: SetOption = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Only check the changes against bounds and law.")] = False,
    block_s: BlockOption = None,
) -> None:
    """Show a version of the parameters; with --set, check changes on the chain.

    With --set the command prints the call that a proposal needs. With --dry-run it only checks the change.

    `bytewise chain proposal create --params FILE` makes the proposal.

    Exit codes: 0 shown or allowed, 5 the node does not answer, 64 wrong input, or the change is outside the bounds,
    breaks a rule between parameters, or is too short for finality or the stake epochs of a pool.
    """
    from bytewise_client.connection import chain_of
    from chain.client.address_book import address_of, read_network, verify_code
    from chain.reads.reader import SnapshotReader

    book = read_network(network)
    client = chain_of(rpc, book.chain_id)
    reader = SnapshotReader(client, verify_code(client, book))
    if changes is None:
        print(_as_toml(_present(reader, version)))
        return
    call = change_of(reader, changes, version, block_s)
    print("legal" if dry else f"target {address_of(book, call.contract)}\ncalldata 0x{call.calldata.hex()}")


def change_of(reader: "SnapshotReader", file: Path, version: int = 0, block_s: int | None = None) -> "ContractCall":
    """Returns the contract call that changes the parameters as a TOML file says. Only a vote can make this call. Raises
    `ConfigurationError` if the contract or the stake epochs of a pool do not allow the change.

    `version` is the version of the parameters to which the changes apply; 0 is the newest version. `block_s` is the time between
    two blocks in seconds. If it is None, the function measures it on the chain.
    """
    from chain.acts.governed import set_params
    from chain.deployment.calls import dry_run
    from chain.deployment.lengths import measured_block_s, read_lengths, verify_lengths
    from chain.deployment.params import read_changes, with_changes

    new, book = with_changes(_present(reader, version), read_changes(file)), reader.network
    call = set_params(new)
    try:
        # After a vote, the short timelock makes the call. So the call is tried as the short timelock.
        dry_run(reader.client, book, book.addresses.short_timelock, call)
    except Fault as error:
        raise ConfigurationError(file.name, str(error)) from None
    takes = block_s or measured_block_s(reader.client)
    for pool in book.pools:
        verify_lengths(new, read_lengths(reader.client, book, pool, takes))
    return call


def _present(reader: "SnapshotReader", version: int) -> "ParamSet":
    head = reader.head()
    newest = reader.params_version(head)
    if version > newest:
        raise ConfigurationError("--version", f"is {version}: this network has versions 1 to {newest}; 0 is the one in force")
    return reader.params(version or newest, head)


def _as_toml(params: "ParamSet") -> str:
    def written(value: Any) -> str:
        return str(list(value)) if isinstance(value, tuple) else json.dumps(value)

    parts = dataclasses.asdict(params)
    return "\n\n".join(
        f"[{part}]\n" + "\n".join(f"{name} = {written(value)}" for name, value in values.items())
        for part, values in parts.items()
    )
