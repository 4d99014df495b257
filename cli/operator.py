"""`bytewise operator list` and `show`: operators of a network, their stake, and what they anchored."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from cli.options import DA_URLS, NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption
from cli.output import LIMIT, Fields, LimitOption, OutputFormat, OutputOption, brief, emit, limited, one_by_prefix, print_entries

if TYPE_CHECKING:
    from chain.reads.reader import SnapshotReader


AccountArgument = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Account, 0x-hex, or its first digits.")]


def list_operators(
    network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, limit: LimitOption = LIMIT,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """List operators: address, stake, and how many receipts each anchored.

    Exit codes: 0 listed, 5 the node does not answer, 64 wrong input.

    Example: bytewise operator list --network network.json
    """
    from bytewise_client.connection import connected

    with connected(network, rpc, DA_URLS) as connection:
        rows = limited(_operators(connection.reader), limit)
    emit(output, rows, lambda: print_entries(map(_entry, rows), "operators", Console()))


def show(
    account: AccountArgument, network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Show one operator: address, stake, and how many receipts it anchored.

    Exit codes: 0 shown, 4 there is no such operator, 5 the node does not answer, 64 wrong input.

    Example: bytewise operator show 0x70997970
    """
    from bytewise_client.connection import connected

    with connected(network, rpc, DA_URLS) as connection:
        found = {each["account"]: each for each in _operators(connection.reader)}
    row = found[one_by_prefix("ACCOUNT", account, found)]
    emit(output, row, lambda: print_entries([_entry(row)], "operators", Console()))


def _operators(reader: "SnapshotReader") -> list[dict[str, Any]]:
    from bytewise_client.network_state import holdings
    from chain.reads.documents import RegistryDocuments

    block = reader.head()
    batches = reader.batches(reader.network.deploy_block, block)
    return [
        {
            "account": account,
            "url": url,
            "batches": sum(each.operator == account for each in batches),
            "receipts": sum(each.count for each in batches if each.operator == account),
            **holdings(reader, account, block),
        }
        for account, url in RegistryDocuments(reader).operators(block).items()
    ]


def _entry(row: Mapping[str, Any]) -> tuple[str, Fields]:
    return row["account"], {
        "url": row["url"], "receipts": row["receipts"], "batches": row["batches"], "stake": f"{brief(row['stake_wei'])} ETH",
        "free": f"{brief(row['free_wei'])} ETH", "may withdraw": f"{brief(row['credit_wei'])} ETH",
    }  # fmt: skip
