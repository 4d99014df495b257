"""`bytewise chain`: deploy the contracts, look at a deployment; calls, votes and parameters are in modules of their own."""

import json

import typer
from rich.console import Console

from chain.client.address_book import verify_code
from chain.reads.reader import DocketReader
from cli import chain_vote
from cli.chain_call import call
from cli.chain_deploy import deploy
from cli.chain_params import params
from cli.chain_status import collect, show
from cli.connect import NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption, address_book, chain_of
from cli.exits import Exit
from cli.verify import Output, OutputOption

app = typer.Typer(no_args_is_help=True, help="Deploy the contracts; look at a deployment; call and vote.")
app.command()(deploy)
app.command()(params)
app.command()(call)
for verb in (chain_vote.propose, chain_vote.proposals, chain_vote.vote, chain_vote.queue, chain_vote.execute, chain_vote.cancel):
    app.command()(verb)


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
