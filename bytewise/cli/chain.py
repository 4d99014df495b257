"""`bytewise chain`: deploy the contracts, look at a deployment, look at and try parameters."""

import dataclasses
import enum
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bytewise.cli.chain_status import collect, show
from bytewise.cli.connect import NETWORK_FILE, RPC_URL, TIMEOUT_S, NetworkOption, RpcOption, address_book
from bytewise.cli.exits import Exit
from bytewise.cli.verify import Output, OutputOption
from bytewise.protocol.appraisal import TEST_CHAIN_IDS
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.errors import ConfigurationError, Fault, MalformedValue
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Address, Digest, address, digest, unhex
from chain import deploy as deploying
from chain.artifacts import interface
from chain.book import verify_code, write_network
from chain.client import ChainClient
from chain.keys import devnet_signer, load_signer
from chain.lengths import measured_block_s, read_lengths, verify_lengths
from chain.params import DEVNET, changed, complete, read_changes
from chain.plan import DEVNET_SHAPE, MAIN_NET, Vote
from chain.reader import DocketReader
from chain.sending import dry_run
from chain.structs import to_struct

app = typer.Typer(no_args_is_help=True, help="Deploy the contracts; look at a deployment and its parameters.")


class ShapeName(enum.StrEnum):
    """Lengths in blocks that a deployment fixes for ever."""

    DEVNET = "devnet"
    MAIN = "main"


SetOption = Annotated[Path | None, typer.Option("--set", help="TOML file with tables times, committee, money, shares.")]
AccountOption = Annotated[str | None, typer.Option(help="Account, 0x-hex; the deployer's by default.")]


@app.command()
def deploy(
    chain_id: Annotated[int, typer.Option("--chain-id", help="Chain that the node must be on.")],
    rpc: RpcOption = RPC_URL,
    key: Annotated[Path | None, typer.Option("--key", help="Key file of the deployer, 0x-hex.")] = None,
    devnet_account: Annotated[int | None, typer.Option("--devnet-account", min=0, help="Or: this account of anvil.")] = None,
    pool: Annotated[list[str] | None, typer.Option("--pool", help="Digest of a pool of verifiers; repeat it for more.")] = None,
    params: Annotated[Path | None, typer.Option("--params", help="TOML file; complete, but on a test chain.")] = None,
    shape: Annotated[ShapeName, typer.Option("--shape", help="For blocks of one second, or of twelve.")] = ShapeName.DEVNET,
    guardian: AccountOption = None,
    curator: AccountOption = None,
    votes: AccountOption = None,
    out: Annotated[Path, typer.Option("--out", help="Address book to write; must not exist.")] = NETWORK_FILE,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be sent, and send nothing.")] = False,
) -> None:
    """Deploy and wire all contracts and give the roles away; the deployer has no power afterwards.

    Exit codes: 0 done, 5 the node does not answer, 64 asked wrongly (a parameter outside its bounds, say).
    """
    client = ChainClient(rpc, chain_id, TIMEOUT_S)
    deployer = _signer(chain_id, key, devnet_account)
    who = [_account(each) if each else deployer.address for each in (guardian, curator, votes)]
    vote = Vote(guardian=who[0], curator=who[1], holder=who[2])
    pools = [_digest(each) for each in pool or ()]
    chosen = DEVNET_SHAPE if shape is ShapeName.DEVNET else MAIN_NET
    site = deploying.survey(client, deployer.address, _first(chain_id, params), chosen, pools, vote)
    try:
        deploying.verify_parameters(client, site)
    except Fault as error:
        raise ConfigurationError("parameters", str(error)) from None
    if plan:
        _print_plan(client, deploying.rehearse(client, site))
        return
    if out.exists():
        raise ConfigurationError(out.name, "exists already")
    write_network(out, deploying.deploy(client, deployer, site))
    print(out)


@app.command()
def status(network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URL, output: OutputOption = Output.TABLE) -> None:
    """Whether the chain has what the address book says: code, roles, clock, parameters, pools, money.

    Exit codes: 0 all as it should be, 2 a role is held by somebody it should not, 5 the node does not answer, 64 other code.
    """
    book = address_book(network)
    client = ChainClient(rpc, book.chain_id, TIMEOUT_S)
    verify_code(client, book)
    state = collect(DocketReader(client, book))
    if output is Output.JSON:
        print(json.dumps(state, indent=2))
    else:
        show(state, Console())
    raise typer.Exit(Exit.MISMATCH if state["irregular"] else Exit.OK)


@app.command()
def params(
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URL,
    version: Annotated[int, typer.Option("--version", min=0, help="0: the one in force.")] = 0,
    changes: SetOption = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Only check the changes against bounds and law.")] = False,
    block_s: Annotated[int | None, typer.Option("--block-s", min=1, help="Seconds of a block; as measured by default.")] = None,
) -> None:
    """Show a version of the parameters; with --set, check changes on the chain and print the call that a proposal needs.

    Exit codes: 0 shown or legal, 5 the node does not answer, 64 outside the bounds, against the static law, or too short for
    the stake epochs of a pool.
    """
    book = address_book(network)
    reader = DocketReader(ChainClient(rpc, book.chain_id, TIMEOUT_S), book)
    head = reader.head()
    present = reader.params(version or reader.params_version(head), head)
    if changes is None:
        print(_as_toml(present))
        return
    new = changed(present, read_changes(changes))
    wanted = to_struct(new)
    try:
        # In the name of who would set them: the short timelock, after a vote.
        dry_run(reader.client, book, book.addresses.short_timelock, "Params", "set", wanted)
    except Fault as error:
        raise ConfigurationError(changes.name, str(error)) from None
    takes = block_s or measured_block_s(reader.client)
    for pool in book.pools:
        verify_lengths(new, read_lengths(reader.client, book, pool, takes))
    data = interface("Params").call("set", wanted)
    print("legal" if dry else f"target {book.addresses.params}\ncalldata 0x{data.hex()}")


def _signer(chain_id: int, key: Path | None, devnet_account: int | None) -> LocalSigner:
    if (key is None) == (devnet_account is None):
        raise ConfigurationError("deployer", "give --key or --devnet-account, one of them")
    if key is not None:
        return load_signer(key)
    assert devnet_account is not None, "one of the two is given"
    return devnet_signer(chain_id, devnet_account)


def _first(chain_id: int, file: Path | None) -> ParamSet:
    values = read_changes(file) if file else {}
    return changed(DEVNET, values) if chain_id in TEST_CHAIN_IDS else complete(values)


def _digest(text: str) -> Digest:
    try:
        return digest(unhex(text.lower()))
    except MalformedValue:
        raise ConfigurationError("--pool", "must be 0x and 64 hex digits") from None


def _account(text: str) -> Address:
    try:
        return address(text.lower())
    except MalformedValue:
        raise ConfigurationError("account", f"{text} is none: 0x and 40 hex digits") from None


def _print_plan(client: ChainClient, plan: list[deploying.Rehearsed]) -> None:
    table = Table(title=f"{len(plan)} transactions", title_justify="left")
    for heading in ("contract", "act", "address", "bytes", "gas: estimate", "at most"):
        table.add_column(heading, justify="left" if heading in ("contract", "act", "address") else "right", overflow="fold")
    for each in plan:
        gas = "" if each.estimate is None else f"{each.estimate:,}"
        table.add_row(each.step.contract[:24], each.step.verb, each.at, f"{len(each.step.data):,}", gas, f"{each.limit:,}")
    Console().print(table)
    most = sum(each.limit for each in plan)
    fee = client.head().base_fee_wei
    print(f"at most {most:,} gas, {most * fee / 10**18:.6f} ETH at the base fee of now; no estimate: only after others")


def _as_toml(params: ParamSet) -> str:
    def written(value: Any) -> str:
        return str(list(value)) if isinstance(value, tuple) else json.dumps(value)

    parts = dataclasses.asdict(params)
    return "\n\n".join(
        f"[{part}]\n" + "\n".join(f"{name} = {written(value)}" for name, value in values.items())
        for part, values in parts.items()
    )
