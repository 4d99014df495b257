"""`bytewise receipt list` and `show`, and how `verify` finds a receipt."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, TaskID

from bytewise.protocol.encoding import to_json
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.records.receipt import BatchHeader
from bytewise.protocol.units import Digest, digest, hex0x, unhex
from bytewise.service.exit_codes import Exit
from chain.reads.reader import SnapshotReader
from cli.assurance import Labels, warn
from cli.connect import (
    DA_URLS,
    NETWORK_FILE,
    RPC_URLS,
    Connection,
    DaOption,
    NetworkOption,
    RpcOption,
    connected,
    receipt_argument,
)
from cli.network import verdict_of
from cli.output import (
    LIMIT,
    Fields,
    LimitOption,
    OutputFormat,
    OutputOption,
    by_prefix,
    emit,
    limited,
    moment,
    one_by_prefix,
    plain,
    print_entries,
)
from cli.receipt.check import Conclusion, label_of
from cli.receipt.saved_answer import Choice
from cli.receipt.search import Search, checked_batch, find_receipt

BeginningArgument = Annotated[
    str, typer.Argument(metavar="RECEIPT_ID", help="As in the answer's receipt.receipt_id, 0x-hex, or its first digits.")
]
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
    with connected(network, rpc, da) as connection:
        head = connection.reader.head()
        headers = connection.reader.batches(connection.network.deploy_block, head)[::-1]
        if operator is not None:
            account = by_prefix("--operator", operator, {each.operator for each in headers})
            headers = tuple(each for each in headers if each.operator == account)
        chosen = [each for each in headers if batch in (None, each.batch_id)]
        rows, unread = _rows(connection, chosen, head, limit)
    emit(output, rows, lambda: _print(rows))
    for line in unread:
        Console(stderr=True).print(plain(line, "yellow"), soft_wrap=True)
    raise typer.Exit(Exit.UNAVAILABLE if unread else Exit.OK)


def _rows(
    connection: Connection, headers: Sequence[BatchHeader], head: int, limit: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """Receipts of these batches, at most `limit`; and which lists could not be read or do not fit."""
    reader, rows, unread = connection.reader, list[dict[str, Any]](), list[str]()
    labels, verdicts = Labels(reader, head), _verdicts(reader, head)
    for header in headers:
        if limit and len(rows) >= limit:
            break
        try:
            checked = checked_batch(connection, header, head)
        except (Unavailable, Fault) as error:
            unread.append(f"the list of batch {header.batch_id} was not read: {error}")
            continue
        rows += [
            {
                "receipt_id": hex0x(each.receipt_id), "operator": header.operator, "seq": each.signed.receipt.seq,
                "batch": header.batch_id, "anchored_at": header.anchored_at, "key_epoch": header.key_epoch,
                "assurance": labels.of_epoch(header.key_epoch), "verdict": verdicts.get(each.receipt_id),
            }
            for each in reversed(checked.receipts)
        ]  # fmt: skip
    return limited(rows, limit), unread


def _verdicts(reader: SnapshotReader, head: int) -> dict[Digest, str]:
    """Disputed receipts, and how each dispute ended: NONE while it runs."""
    cases = (reader.dispute(each.id, head) for each in reader.opened(reader.network.deploy_block, head))
    return {each.receipt_id: verdict_of(each).name for each in cases if each is not None}


def _print(rows: list[dict[str, Any]]) -> None:
    console = Console()
    print_entries(map(_entry, rows), "receipts", console)
    for label in sorted({each["assurance"] for each in rows}):
        warn(console, label)


def _entry(row: Mapping[str, Any]) -> tuple[str, Fields]:
    return row["receipt_id"], {
        "operator": row["operator"], "number": row["seq"], "batch": row["batch"], "anchored": moment(row["anchored_at"]),
        "assurance": row["assurance"], "dispute:": {None: "none", "NONE": "running"}.get(row["verdict"], row["verdict"]),
    }  # fmt: skip


def receipt_named(connection: Connection, text: str) -> Digest:
    """The receipt that a user typed, in full or by its first digits, which are looked up in all lists.

    `ConfigurationError` for no id and for the beginning of several, `TryAgain` where a list that may have another one is away.
    """
    if _IDENTIFIER.fullmatch(text):
        return receipt_argument(text)
    head = connection.reader.head()
    headers, known = connection.reader.batches(connection.network.deploy_block, head), set[str]()
    for header in headers:
        try:
            known |= {hex0x(each.receipt_id) for each in checked_batch(connection, header, head).receipts}
        except Unavailable as error:
            raise TryAgain("DA", f"{error}; give the receipt id in full, for another receipt may begin like this") from None
        except Fault:
            # A list that does not fit its batch has no receipts.
            continue
    return digest(unhex(one_by_prefix("RECEIPT_ID", text, known)))


_IDENTIFIER = re.compile("0x[0-9a-fA-F]{64}")


def show(
    receipt_id: BeginningArgument,
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    da: DaOption = DA_URLS,
    output: OutputOption = OutputFormat.JSON,
) -> None:
    """Print a receipt: its signed record, its batch, where its envelope lies.

    It is printed as JSON, with `--output table` for people.

    Exit codes: 0 found, 4 not found, 5 a service is down, 64 wrong input.
    """
    with connected(network, rpc, da) as connection, progress() as bars:
        identifier = receipt_named(connection, receipt_id)
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
    emit(output, told, lambda: print_entries([_record(told)], "receipts"))


def _record(told: Mapping[str, Any]) -> tuple[str, Fields]:
    receipt, batch = told["receipt"], told["batch"]
    fields = {name.replace("_", " "): value for name, value in receipt.items() if not isinstance(value, dict | list)}
    where = {"batch": batch["batch_id"], "envelope": told["locator"], "assurance": told["assurance"]}
    return told["receipt_id"], {**fields, **where}


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
