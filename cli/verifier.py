"""`bytewise verifier list` and `show`: shows verifiers of a network, their pools, machines and stake."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bytewise.protocol.units import hex0x
from cli.network import read_rows
from cli.options import NETWORK_FILE, RPC_URLS, AccountArgument, NetworkOption, RpcOption
from cli.output import (
    LIMIT,
    Fields,
    LimitOption,
    OutputFormat,
    OutputOption,
    Row,
    brief,
    emit,
    limited,
    print_entries,
    rows_of,
    rows_with,
)

if TYPE_CHECKING:
    from chain.reads.reader import SnapshotReader


PoolOption = Annotated[str | None, typer.Option("--pool", help="Only verifiers of this pool, 0x-hex, or its first digits.")]


def list_verifiers(
    network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, pool: PoolOption = None, limit: LimitOption = LIMIT,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """List verifiers, also those that left: pool, units of stake that count now, and machine.

    Exit codes: 0 listed, 5 the node does not answer, 64 wrong input.

    Example: bytewise verifier list --output jsonl
    """
    rows = limited(rows_with("--pool", pool, read_rows(network, rpc, _verifiers), "pool"), limit)
    emit(output, rows, lambda: print_entries(map(_entry, rows), "verifiers", Console()))


def show(
    account: AccountArgument, network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Show one verifier: pool, units of stake that count now, and machine.

    Exit codes: 0 shown, 4 there is no such verifier, 5 the node does not answer, 64 wrong input.

    Example: bytewise verifier show 0x3c44cddd
    """
    rows = rows_of("ACCOUNT", account, read_rows(network, rpc, _verifiers), "account")
    row = next((each for each in rows if each["is_member"]), rows[-1])
    emit(output, row, lambda: print_entries([_entry(row)], "verifiers", Console()))


def _verifiers(reader: "SnapshotReader") -> list[Row]:
    from bytewise_client.network_state import holdings

    block = reader.head()
    return [
        {
            "account": each.account,
            "pool": hex0x(pool.digest),
            "is_member": each.may_audit(pool.digest, block),
            "place": each.place,
            "units": each.units,
            "platform_id": hex0x(each.verifier.platform_id),
            "measurement": hex0x(each.verifier.measurement),
            "joined_at": each.verifier.joined_at,
            **holdings(reader, each.account, block),
        }
        for pool in reader.network.pools
        for each in reader.verifiers(pool.digest, block)
    ]


def _entry(row: Mapping[str, Any]) -> tuple[str, Fields]:
    return row["account"], {
        "units": row["units"], "stake": f"{brief(row['stake_wei'])} ETH", "may withdraw": f"{brief(row['credit_wei'])} ETH",
        "pool": row["pool"] if row["is_member"] else f"{row['pool']}, which it has left",
        "machine": row["platform_id"], "program": row["measurement"],
    }  # fmt: skip
