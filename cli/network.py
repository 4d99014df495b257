"""`bytewise network`, and `list` and `show` of operators and verifiers: what anybody can read of a network.

A reader needs the URL of a chain node and the address book.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.units import hex0x
from bytewise.service.settings import rpc_endpoints
from cli.options import DA_URLS, NETWORK_FILE, RPC_URLS, AccountArgument, NetworkOption, RpcOption
from cli.output import (
    LIMIT,
    Fields,
    LimitOption,
    OutputFormat,
    OutputOption,
    Row,
    brief,
    emit,
    ether,
    limited,
    plain,
    print_entries,
    print_warning,
    rows_of,
    rows_with,
)

if TYPE_CHECKING:
    from chain.reads.reader import SnapshotReader


def read_rows(network: Path, rpc: list[str], read: Callable[["SnapshotReader"], list[Row]]) -> list[Row]:
    """Connects to a network and returns the rows that `read` reads from it. `network` is the address book's file, and `rpc` has
    the URLs of chain nodes."""
    from bytewise_client.connection import connected

    with connected(network, rpc, DA_URLS) as connection:
        return read(connection.reader)


def print_state(state: Mapping[str, Any], console: Console, names: Mapping[str, str]) -> None:
    """Prints receipts, disputes with their money, accounts and the key epoch of a network's state. `names` maps accounts to names
    that are printed instead."""
    total = sum(batch["count"] for batch in state["batches"])
    console.print(f"{total} receipts in {len(state['batches'])} batches, of which the chain names:", style="bold")
    print_entries(map(receipt_entry, state["receipts"]), "receipts", console)
    console.print("disputes, with their money in ETH", style="bold")
    print_entries((dispute_entry(each, names) for each in state["disputes"]), "disputes", console)
    console.print("accounts, in ETH", style="bold")
    print_entries((account_entry(each, names) for each in state["accounts"]), "accounts", console)
    print_not_added(state["pools_not_added"], console)
    key = f"key epoch {state['key_epoch']}, assurance {state['assurance']}, {state['key_kind']}"
    console.print(key if state["key_epoch"] else "no key epoch is active", style="bold", soft_wrap=True)
    word = "sums to the wei" if state["money_sums"] else "DOES NOT SUM"
    console.print(f"block {state['block']}: all money {word}; burned {ether(state['money']['total_burned'])}", style="bold")
    labels = {state["assurance"], *(each["assurance"] for each in (*state["batches"], *state["disputes"]))}
    for label in sorted(labels):
        print_warning(console, label)


def print_not_added(pools: Iterable[str], console: Console) -> None:
    """Prints one line for each of these pools of the address book, which the curator has not added yet."""
    for pool in pools:
        line = f"the curator has not added pool {pool} yet, so it has no verifiers; `bytewise chain show` prints the call for it"
        console.print(plain(line), soft_wrap=True)


def receipt_entry(row: Mapping[str, Any]) -> tuple[str, Fields]:
    """Returns a receipt's id and its fields as text for people. `row` is a receipt that an audit or a dispute names
    on the chain."""
    audits = ", ".join(f"{count} {name}" for name, count in row["audits"].items())
    return row["receipt"], {
        "verdict": row["verdict"] or "none (accepted by default)", "audits:": audits, "assurance": row["assurance"],
    }  # fmt: skip


_MONEY = {
    "bond": "bond_wei", "advanced": "advanced_wei", "slashed": "slashed_wei", "to challenger": "to_challenger_wei",
    "to committee": "to_verifiers_wei", "to operator": "to_operator_wei", "burned": "burned_wei",
}  # fmt: skip
"""Names of a dispute's amounts for people, and their names in the row of the dispute."""


def dispute_entry(row: Mapping[str, Any], names: Mapping[str, str]) -> tuple[str, Fields]:
    """Returns a dispute's id and its fields as text for people. `names` maps accounts to names that are shown instead."""
    from bytewise_client.network_state import HOLDS, seats_for

    quotes = [member["quote"] for member in row["members"] if member["quote"] is not None]
    absent = sum(member["seats"] for member in row["members"] if member["commitments"] == 0 and not member["revealed"])
    money = row["money"]
    return row["dispute"], {
        "receipt": row["receipt"], "verdict": row["verdict"], "brought by": row["brought_by"] or "nothing",
        "phase": row["phase"], "round": row["round"],
        "assurance": row["assurance"], "operator": names.get(row["operator"], row["operator"]),
        "challenger": names.get(row["challenger"], row["challenger"]),
        "seats for it": f"{seats_for(row)} of {row['seats']}", "absent": absent,
        "quotes that hold": f"{quotes.count(HOLDS)} of {len(quotes)}",
        **(_outlook(row) if money is None else {name: brief(money[key]) for name, key in _MONEY.items()}),
    }  # fmt: skip


def _outlook(row: Mapping[str, Any]) -> Fields:
    """Returns fields about a running dispute: when its phase ends, its bond, and what the challenger may get back."""
    left = row["time_left_s"]
    return {
        "phase ends": "when somebody acts" if left is None else f"in {left} s", "bond": brief(row["bond_wei"]),
        "back if convicted": brief(row["bond_wei"]), "and if it knew the answer": f"{brief(row['reward_wei'])} more",
        "back if upheld": "nothing",
    }  # fmt: skip


def seat_entry(row: Mapping[str, Any]) -> tuple[str, Fields]:
    """Returns a committee member's account and fields about its seats, vote, pay and charges, as text for people."""
    charged = ", ".join(f"{what} {brief(amount)}" for what, amount in row["charged"].items())
    return row["voter"], {
        "seats": row["seats"], "commitments": row["commitments"], "revealed": "yes" if row["revealed"] else "no",
        "outcome": row["outcome"] or "none", "quote:": row["quote"] or "none", "paid": brief(row["paid_wei"]),
        "charged:": charged or "nothing",
    }  # fmt: skip


def account_entry(row: Mapping[str, Any], names: Mapping[str, str]) -> tuple[str, Fields]:
    """Returns an account and fields about its stake and credit, as text for people. `names` maps accounts to names."""
    money = {"stake": brief(row["stake_wei"]), "may withdraw": brief(row["credit_wei"])}
    return row["account"], {"name": names[row["account"]]} | money if row["account"] in names else {row["role"]: "", **money}


def show(network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, output: OutputOption = OutputFormat.TABLE) -> None:
    """Show receipts, verdicts and money of a network, read from the chain alone.

    Exit codes: 0 read, 5 the node does not answer, 64 wrong input.

    Example: bytewise network show --network network.json --output json
    """
    from bytewise_client.connection import connected
    from bytewise_client.network_state import collect

    with connected(network, rpc, DA_URLS) as connection:
        state = collect(connection.reader)
    emit(output, state, lambda: print_state(state, Console(), {}))


MAX_BOOK_BYTES = 16 * 2**20
"""Largest size of an address book, in bytes. `bytewise network list` ignores larger files."""

FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="Where address books are: *.json and */network.json.")]


def list_networks(
    folder: FolderArgument = Path("."), rpc: RpcOption = RPC_URLS, limit: LimitOption = LIMIT,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """List the address books of a folder: chain, key epochs, and whether the chain node has this network.

    The command asks the chain node of --rpc for the code of the contracts, and prints the reason if the node does not have the
    network. It ignores files that are no address book.

    Exit codes: 0 listed (also if the node has none of the networks), 64 wrong input.

    Example: bytewise network list runs --rpc http://127.0.0.1:8545
    """
    rpc_endpoints("", tuple(rpc), 0)
    if not folder.is_dir():
        raise ConfigurationError("FOLDER", f"{folder} is no folder: name one that has address books (network.json)")
    files = sorted({*folder.glob("*.json"), *folder.glob("*/network.json")})
    found = (_book(file, rpc) for file in files if file.is_file() and file.stat().st_size <= MAX_BOOK_BYTES)
    rows = limited([each for each in found if each is not None], limit)
    emit(output, rows, lambda: print_entries(map(_book_entry, rows), f"address books in {folder}", Console()))


def _book(file: Path, rpc: list[str]) -> dict[str, Any] | None:
    """Reads an address book and asks the chain node about its contracts. Returns plain data, or None if the file is no address
    book."""
    from bytewise_client.connection import chain_of
    from chain.client.address_book import read_network, verify_code
    from chain.client.rpc import OtherChain

    try:
        book = read_network(file)
    except ConfigurationError:
        return None
    node, reason = "has this network", ""
    try:
        verify_code(chain_of(rpc, book.chain_id), book)
    except OtherChain as error:
        node, reason = "is on another chain", str(error)
    except ConfigurationError as error:
        node, reason = "has other contracts", str(error)
    except (Fault, Unavailable) as error:
        node, reason = "does not answer", str(error)
    return {
        "file": str(file),
        "chain_id": int(book.chain_id),
        "deploy_block": int(book.deploy_block),
        "key_epochs": sorted(int(each.record.epoch) for each in book.epochs),
        "pools": len(book.pools),
        "node": node,
        "reason": reason,
    }


def _book_entry(row: Mapping[str, Any]) -> tuple[str, Fields]:
    epochs = ", ".join(map(str, row["key_epochs"])) or "none"
    return row["file"], {
        "chain": row["chain_id"], "from block": row["deploy_block"], "pools": row["pools"], "key epochs": epochs,
        "node": row["node"], **({"reason:": row["reason"]} if row["reason"] else {}),
    }  # fmt: skip


def list_operators(
    network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, limit: LimitOption = LIMIT,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """List operators: address, stake, and how many receipts each anchored.

    Exit codes: 0 listed, 5 the node does not answer, 64 wrong input.

    Example: bytewise operator list --network network.json
    """
    rows = limited(read_rows(network, rpc, _operators), limit)
    emit(output, rows, lambda: print_entries(map(_operator_entry, rows), "operators", Console()))


def show_operator(
    account: AccountArgument, network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Show one operator: address, stake, and how many receipts it anchored.

    Exit codes: 0 shown, 4 there is no such operator, 5 the node does not answer, 64 wrong input.

    Example: bytewise operator show 0x70997970
    """
    (row,) = rows_of("ACCOUNT", account, read_rows(network, rpc, _operators), "account")
    emit(output, row, lambda: print_entries([_operator_entry(row)], "operators", Console()))


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


def _operator_entry(row: Mapping[str, Any]) -> tuple[str, Fields]:
    return row["account"], {
        "url": row["url"], "receipts": row["receipts"], "batches": row["batches"], "stake": f"{brief(row['stake_wei'])} ETH",
        "free": f"{brief(row['free_wei'])} ETH", "may withdraw": f"{brief(row['credit_wei'])} ETH",
    }  # fmt: skip


PoolOption = Annotated[str | None, typer.Option("--pool", help="Only verifiers of this pool, 0x-hex, or its first digits.")]


def list_verifiers(
    network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, pool: PoolOption = None, limit: LimitOption = LIMIT,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """List verifiers, also those that left: pool, units of stake that count now, and machine.

    Exit codes: 0 listed, 5 the node does not answer, 64 wrong input.

    Example: bytewise verifier list --output jsonl
    """
    from bytewise_client.connection import connected
    from bytewise_client.network_state import pools_not_added

    with connected(network, rpc, DA_URLS) as connection:
        reader = connection.reader
        rows, missing = _verifiers(reader), pools_not_added(reader, reader.head())
    rows, console = limited(rows_with("--pool", pool, rows, "pool"), limit), Console()

    def print_table() -> None:
        print_entries(map(_verifier_entry, rows), "verifiers", console)
        print_not_added(missing, console)

    emit(output, rows, print_table)


def show_verifier(
    account: AccountArgument, network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Show one verifier: pool, units of stake that count now, and machine.

    Exit codes: 0 shown, 4 there is no such verifier, 5 the node does not answer, 64 wrong input.

    Example: bytewise verifier show 0x3c44cddd
    """
    rows = rows_of("ACCOUNT", account, read_rows(network, rpc, _verifiers), "account")
    row = next((each for each in rows if each["is_member"]), rows[-1])
    emit(output, row, lambda: print_entries([_verifier_entry(row)], "verifiers", Console()))


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


def _verifier_entry(row: Mapping[str, Any]) -> tuple[str, Fields]:
    return row["account"], {
        "units": row["units"], "stake": f"{brief(row['stake_wei'])} ETH", "may withdraw": f"{brief(row['credit_wei'])} ETH",
        "pool": row["pool"] if row["is_member"] else f"{row['pool']}, which it has left",
        "machine": row["platform_id"], "program": row["measurement"],
    }  # fmt: skip
