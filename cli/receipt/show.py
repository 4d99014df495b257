"""`bytewise receipt show`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import Progress, TaskID

from bytewise.protocol.encoding import to_json
from bytewise.protocol.units import Digest, hex0x
from bytewise.service.exit_codes import Exit
from cli.connect import (
    DA_URLS,
    NETWORK_FILE,
    RPC_URLS,
    Connection,
    DaOption,
    NetworkOption,
    ReceiptArgument,
    RpcOption,
    connected,
    receipt_argument,
)
from cli.output import plain
from cli.receipt.check import Conclusion, label_of
from cli.receipt.saved_answer import Choice
from cli.receipt.search import Search, find_receipt


def show(
    receipt_id: ReceiptArgument, network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, da: DaOption = DA_URLS
) -> None:
    """Print a receipt: its signed record, its batch, where its envelope lies.

    It is printed as JSON.

    Exit codes: 0 found, 4 not found, 5 a service is down, 64 wrong input.
    """
    identifier = receipt_argument(receipt_id)
    with connected(network, rpc, da) as connection, progress() as bars:
        search = search_with_progress(connection, identifier, None, bars)
        label = "" if search.found is None else label_of(connection, search.found)
    if (found := search.found) is None:
        end = not_found(search)
        Console(stderr=True).print(plain(f"{end.word}: {end.reason}", "bold"))
        raise typer.Exit(int(end.exit))
    batch = {name: value for name, value in to_json(found.header).items() if name not in ("operator", "environment", "model_id")}
    proof = [hex0x(each) for each in found.checked.proof]
    signed = to_json(found.checked.signed)
    told = {"receipt_id": hex0x(identifier), **signed, "assurance": label, "batch": batch, "proof": proof}
    print(json.dumps(told, indent=2))


def search_with_progress(connection: Connection, identifier: Digest, choice: Choice | None, bars: Progress) -> Search:
    """Finds a receipt, with a bar of how many lists were read."""
    task: TaskID = bars.add_task("reading lists of receipts", total=None)

    def tell(done: int, total: int) -> None:
        bars.update(task, completed=done, total=total)

    search = find_receipt(connection, identifier, tell, None if choice is None else choice.signed)
    bars.remove_task(task)
    return search


def not_found(search: Search) -> Conclusion:
    """What a search comes to that found nothing."""
    if search.skipped_in is not None:
        reason = (
            f"its operator skipped its number: batch {search.skipped_in.batch_id} has an empty leaf there. "
            "Hand the receipt to a watchtower, which reports it"
        )
        return Conclusion("NOT FOUND", Exit.NOT_FOUND, reason)
    if search.unread:
        reason = f"da_unavailable: {len(search.unread)} lists could not be read ({search.unread[0]})"
        return Conclusion("UNAVAILABLE", Exit.UNAVAILABLE, reason)
    reason = "no anchored batch has this receipt"
    if search.faulty:
        reason = f"no list that fits its batch has this receipt; {len(search.faulty)} lists do not fit ({search.faulty[0]})"
    return Conclusion("NOT FOUND", Exit.NOT_FOUND, reason)


@contextmanager
def progress() -> Iterator[Progress]:
    """Bars for people."""
    # On standard error, so that standard output stays what was asked for.
    with Progress(console=Console(stderr=True), transient=True) as bars:
        yield bars
