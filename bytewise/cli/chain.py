"""`bytewise chain`: deploy the contracts, look at a deployment; calls, votes and parameters are in modules of their own."""

import enum
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bytewise.cli import chain_vote
from bytewise.cli.chain_call import call
from bytewise.cli.chain_params import params
from bytewise.cli.chain_status import collect, show
from bytewise.cli.connect import NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption, address_book, chain_of
from bytewise.cli.exits import Exit
from bytewise.cli.office import account_of, signer_of
from bytewise.cli.verify import Output, OutputOption
from bytewise.protocol.appraisal import TEST_CHAIN_IDS
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.errors import ConfigurationError, Fault, MalformedValue
from bytewise.protocol.units import Digest, digest, unhex
from chain import deploy as deploying
from chain.access import Chain
from chain.book import verify_code, write_network
from chain.params import DEVNET, changed, complete, read_changes
from chain.plan import DEVNET_SHAPE, MAIN_NET, Vote
from chain.reader import DocketReader

app = typer.Typer(no_args_is_help=True, help="Deploy the contracts; look at a deployment; call and vote.")
app.command()(params)
app.command()(call)
for verb in (chain_vote.propose, chain_vote.proposals, chain_vote.vote, chain_vote.queue, chain_vote.execute, chain_vote.cancel):
    app.command()(verb)


class ShapeName(enum.StrEnum):
    """Lengths in blocks that a deployment fixes for ever."""

    DEVNET = "devnet"
    MAIN = "main"


AccountOption = Annotated[str | None, typer.Option(help="Account, 0x-hex; the deployer's by default.")]


@app.command()
def deploy(
    chain_id: Annotated[int, typer.Option("--chain-id", help="Chain that the node must be on.")],
    rpc: RpcOption = RPC_URLS,
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
    client = chain_of(rpc, chain_id)
    deployer = signer_of(chain_id, key, devnet_account)
    who = [account_of(each) if each else deployer.address for each in (guardian, curator, votes)]
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
def status(network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, output: OutputOption = Output.TABLE) -> None:
    """Whether the chain has what the address book says: code, roles, clock, parameters, pools, money.

    Exit codes: 0 all as it should be, 2 a role is held by somebody it should not, 5 the node does not answer, 64 other code.
    """
    book = address_book(network)
    client = chain_of(rpc, book.chain_id)
    verify_code(client, book)
    state = collect(DocketReader(client, book))
    if output is Output.JSON:
        print(json.dumps(state, indent=2))
    else:
        show(state, Console())
    raise typer.Exit(Exit.MISMATCH if state["irregular"] else Exit.OK)


def _first(chain_id: int, file: Path | None) -> ParamSet:
    values = read_changes(file) if file else {}
    return changed(DEVNET, values) if chain_id in TEST_CHAIN_IDS else complete(values)


def _digest(text: str) -> Digest:
    try:
        return digest(unhex(text.lower()))
    except MalformedValue:
        raise ConfigurationError("--pool", "must be 0x and 64 hex digits") from None


def _print_plan(client: Chain, plan: list[deploying.Rehearsed]) -> None:
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
