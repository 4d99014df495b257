"""`bytewise receipt list` and `show`, and the search for a receipt that other verbs use."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bytewise.protocol.units import Digest, digest, hex0x, unhex
from bytewise.service.exit_codes import Exit
from cli.options import DA_URLS, NETWORK_FILE, RPC_URLS, DaOption, NetworkOption, ReceiptArgument, RpcOption, receipt_argument
from cli.output import (
    LIMIT,
    Fields,
    LimitOption,
    OutputFormat,
    OutputOption,
    by_prefix,
    emit,
    moment,
    one_by_prefix,
    plain,
    print_entries,
    print_warnings,
    progress_bars,
)

if TYPE_CHECKING:
    from rich.progress import Progress

    from bytewise_client.connection import Connection
    from bytewise_client.receipt_search import Found

OperatorOption = Annotated[str | None, typer.Option("--operator", help="Only of this account, or its first digits.")]
BatchOption = Annotated[int | None, typer.Option("--batch", min=0, help="Only of the batch with this number.")]


def list_receipts(
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    da: DaOption = DA_URLS,
    operator: OperatorOption = None,
    batch: BatchOption = None,
    limit: LimitOption = LIMIT,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List receipts, the newest first: operator, batch, verdict.

    The lists of batches come from the data availability store, and each is checked against its batch.

    Exit codes: 0 listed, 5 the node does not answer or a list cannot be read (the others are listed), 64 wrong input.

    Example: bytewise receipt list --operator 0x70997970 --limit 10 --output jsonl
    """
    from bytewise_client.connection import connected
    from bytewise_client.receipt_search import listed_receipts

    with connected(network, rpc, da) as connection:
        head = connection.reader.head()
        headers = connection.reader.batches(connection.network.deploy_block, head)[::-1]
        if operator is not None:
            account = by_prefix("--operator", operator, {each.operator for each in headers})
            headers = tuple(each for each in headers if each.operator == account)
        chosen = [each for each in headers if batch in (None, each.batch_id)]
        rows, unread = listed_receipts(connection, chosen, head, limit)
    emit(output, rows, lambda: _print(rows))
    for line in unread:
        Console(stderr=True).print(plain(line, "yellow"), soft_wrap=True)
    raise typer.Exit(Exit.UNAVAILABLE if unread else Exit.OK)


def _print(rows: list[dict[str, Any]]) -> None:
    console = Console()
    print_entries(map(_entry, rows), "receipts", console)
    print_warnings(console, rows)


def _entry(row: Mapping[str, Any]) -> tuple[str, Fields]:
    return row["receipt_id"], {
        "operator": row["operator"], "number": row["seq"], "batch": row["batch"], "anchored": moment(row["anchored_at"]),
        "assurance": row["assurance"], "dispute:": {None: "none", "NONE": "running"}.get(row["verdict"], row["verdict"]),
    }  # fmt: skip


def receipt_named(connection: "Connection", text: str) -> Digest:
    """Returns the id of the receipt that a user typed in full or by its first digits. First digits are looked up in all lists.

    Raises `ConfigurationError` if the text is no id, or if several ids begin with it. Raises `TryAgain` if a list cannot be read,
    because it may have a second match. If no id fits, prints a message and raises `typer.Exit` with `Exit.NOT_FOUND`.
    """
    from bytewise_client.receipt_search import known_receipts

    if _IDENTIFIER.fullmatch(text):
        return receipt_argument(text)
    return digest(unhex(one_by_prefix("RECEIPT_ID", text, known_receipts(connection))))


_IDENTIFIER = re.compile("0x[0-9a-fA-F]{64}")


def found_receipt(connection: "Connection", text: str) -> "Found":
    """Searches for the receipt that a user typed, and shows a progress bar meanwhile. If there is no such receipt, prints the
    reason and raises `typer.Exit`."""
    from bytewise_client.checks import not_found
    from bytewise_client.receipt_search import find_receipt

    with progress_bars() as bars, search_bar(bars) as tell:
        search = find_receipt(connection, receipt_named(connection, text), tell)
    if search.found is None:
        end = not_found(search)
        Console(stderr=True).print(plain(f"{end.word}: {end.reason}", "bold"))
        raise typer.Exit(int(end.exit))
    return search.found


def show(
    receipt_id: ReceiptArgument,
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    da: DaOption = DA_URLS,
    output: OutputOption = OutputFormat.JSON,
) -> None:
    """Print a receipt: its signed record, its batch and the place of its envelope.

    The output is JSON; `--output table` is for people.

    Exit codes: 0 found, 4 not found, 5 a service is down, 64 wrong input.
    """
    from bytewise.protocol.encoding import to_json
    from bytewise_client.checks import label_of
    from bytewise_client.connection import connected

    with connected(network, rpc, da) as connection:
        found = found_receipt(connection, receipt_id)
        label = label_of(connection, found)
    batch = {name: value for name, value in to_json(found.header).items() if name not in ("operator", "environment", "model_id")}
    proof = [hex0x(each) for each in found.checked.proof]
    signed = to_json(found.checked.signed)
    told = {"receipt_id": hex0x(found.checked.receipt_id), **signed, "assurance": label, "batch": batch, "proof": proof}
    emit(output, told, lambda: print_entries([_record(told)], "receipts"))


def _record(told: Mapping[str, Any]) -> tuple[str, Fields]:
    receipt, batch = told["receipt"], told["batch"]
    fields = {name.replace("_", " "): value for name, value in receipt.items() if not isinstance(value, dict | list)}
    where = {"batch": batch["batch_id"], "envelope": told["locator"], "assurance": told["assurance"]}
    return told["receipt_id"], {**fields, **where}


@contextmanager
def search_bar(bars: "Progress") -> Iterator[Callable[[int, int], None]]:
    """Context manager that shows a progress bar for reading lists of receipts. Yields the function that updates it with the
    number of lists read and their total."""
    task = bars.add_task("reading lists of receipts", total=None, visible=False)

    def tell(done: int, total: int) -> None:
        bars.update(task, completed=done, total=total, visible=done < total)

    yield tell
    bars.remove_task(task)
