"""`bytewise operator list` and `show`: shows operators of a network, their stake, and how many receipts they anchored."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console

from cli.network import read_rows
from cli.options import NETWORK_FILE, RPC_URLS, AccountArgument, NetworkOption, RpcOption
from cli.output import LIMIT, Fields, LimitOption, OutputFormat, OutputOption, Row, brief, emit, limited, print_entries, rows_of

if TYPE_CHECKING:
    from chain.reads.reader import SnapshotReader


def list_operators(
    network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, limit: LimitOption = LIMIT,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """List operators: address, stake, and how many receipts each anchored.

    Exit codes: 0 listed, 5 the node does not answer, 64 wrong input.

    Example: bytewise operator list --network network.json
    """
    rows = limited(read_rows(network, rpc, _operators), limit)
    emit(output, rows, lambda: print_entries(map(_entry, rows), "operators", Console()))


def show(
    account: AccountArgument, network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Show one operator: address, stake, and how many receipts it anchored.

    Exit codes: 0 shown, 4 there is no such operator, 5 the node does not answer, 64 wrong input.

    Example: bytewise operator show 0x70997970
    """
    (row,) = rows_of("ACCOUNT", account, read_rows(network, rpc, _operators), "account")
    emit(output, row, lambda: print_entries([_entry(row)], "operators", Console()))


def _operators(reader: "SnapshotReader") -> list[Row]:
    from bytewise_client.network_state import holdings
    from chain.reads.reader import RegistryDocuments

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
