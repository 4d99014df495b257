"""The verbs of `bytewise`. Heavy imports happen inside the verb that needs them, so that `--help` is quick."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bytewise.cli.demo.command import demo
from bytewise.cli.model import app as model

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Bytewise: verify LLM answers, byte by byte.")
app.add_typer(model, name="model")
app.command()(demo)

RPC_TIMEOUT_S = 20.0


@app.command()
def status(
    network: Annotated[Path, typer.Option(help="Address book of the network (network.json).")],
    rpc: Annotated[str, typer.Option(help="URL of a chain node.")],
    output: Annotated[str, typer.Option(help="`table` or `json`.")] = "table",
) -> None:
    """Read receipts, verdicts and money of a network from the chain alone."""
    from bytewise.cli import status as reading
    from bytewise.cli import status_table
    from chain.client import ChainClient
    from chain.deploy import read_network
    from chain.reader import ChainReader

    book = read_network(network)
    state = reading.collect(ChainReader(ChainClient(rpc, book.chain_id, RPC_TIMEOUT_S), book))
    if output == "json":
        typer.echo(json.dumps(state, sort_keys=True))
    else:
        status_table.show(state, Console(), {})


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
