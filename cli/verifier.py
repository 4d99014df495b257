"""`bytewise verifier list` and `show`: verifiers of a network, their pools, machines and stake."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bytewise.protocol.units import hex0x
from cli.options import DA_URLS, NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption
from cli.output import (
    LIMIT,
    Fields,
    LimitOption,
    OutputFormat,
    OutputOption,
    brief,
    by_prefix,
    emit,
    limited,
    one_by_prefix,
    print_entries,
)

if TYPE_CHECKING:
    from chain.reads.reader import SnapshotReader


AccountArgument = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Account, 0x-hex, or its first digits.")]
PoolOption = Annotated[str | None, typer.Option("--pool", help="Only verifiers of this pool, 0x-hex, or its first digits.")]


def list_verifiers(
    network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, pool: PoolOption = None, limit: LimitOption = LIMIT,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """List verifiers: pool, units of stake that count now, and machine.

    Exit codes: 0 listed, 5 the node does not answer, 64 wrong input.

    Example: bytewise verifier list --output jsonl
    """
    from bytewise_client.connection import connected

    with connected(network, rpc, DA_URLS) as connection:
        rows = _verifiers(connection.reader)
    if pool is not None:
        digest = by_prefix("--pool", pool, {each["pool"] for each in rows})
        rows = [each for each in rows if each["pool"] == digest]
    rows = limited(rows, limit)
    emit(output, rows, lambda: print_entries(map(_entry, rows), "verifiers", Console()))


def show(
    account: AccountArgument, network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Show one verifier: pool, units of stake that count now, and machine.

    Exit codes: 0 shown, 4 there is no such verifier, 5 the node does not answer, 64 wrong input.

    Example: bytewise verifier show 0x3c44cddd
    """
    from bytewise_client.connection import connected

    with connected(network, rpc, DA_URLS) as connection:
        found = {each["account"]: each for each in _verifiers(connection.reader)}
    row = found[one_by_prefix("ACCOUNT", account, found)]
    emit(output, row, lambda: print_entries([_entry(row)], "verifiers", Console()))


def _verifiers(reader: "SnapshotReader") -> list[dict[str, Any]]:
    from bytewise_client.network_state import holdings

    block = reader.head()
    return [
        {
            "account": each.account,
            "pool": hex0x(pool.digest),
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
        "pool": row["pool"], "machine": row["platform_id"], "program": row["measurement"],
    }  # fmt: skip
