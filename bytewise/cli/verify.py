"""`bytewise verify` and `bytewise receipt show`."""

import enum
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import Progress, TaskID

from bytewise.cli import checking, report
from bytewise.cli.checking import Check, Conclusion, Rerun, Standing, label_of
from bytewise.cli.connect import (
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
from bytewise.cli.exits import Exit
from bytewise.cli.finding import Found, find_receipt
from bytewise.protocol.encoding import to_json
from bytewise.protocol.errors import CannotExecute
from bytewise.protocol.seal import Payload
from bytewise.protocol.units import Digest, hex0x


class Output(enum.StrEnum):
    """How a verb tells its result."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", help="For people or for programs.")]
OpeningOption = Annotated[Path | None, typer.Option("--opening", help="What the client kept: the answer, or its opening.")]
ArtifactOption = Annotated[Path | None, typer.Option("--artifact", help="Folder of the model's artifact, to re-execute.")]


class Held(NamedTuple):
    """What the user has beside the receipt's id."""

    payload: Payload | None
    artifact: Path | None


class Seen(NamedTuple):
    """What a verification saw."""

    checks: list[Check]
    standing: Standing | None
    outcome: Rerun | None
    end: Conclusion


def verify(
    receipt_id: ReceiptArgument, network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, da: DaOption = DA_URLS,
    opening: OpeningOption = None, artifact: ArtifactOption = None, output: OutputOption = Output.TABLE,
) -> None:  # fmt: skip
    """Check a receipt, by re-running it if you hold its opening (the paper's Algorithm 3).

    With --opening FILE and --artifact DIR the answer is recomputed: VERIFIED, or the first divergence. Without, everything
    public is checked and the chain's verdict or the drawn audits are reported; else INCONCLUSIVE: no right to open.

    Exit codes: 0 verified, 2 mismatch or defect proven, 3 inconclusive, 4 not found, 5 a service is down, 64 asked wrongly.
    """
    identifier = receipt_argument(receipt_id)
    held = Held(checking.read_opening(opening, identifier) if opening is not None else None, artifact)
    with connected(network, rpc, da) as connection, _progress() as bars:
        found = _find(connection, identifier, bars)
        seen = found if isinstance(found, Seen) else _verify(connection, found, identifier, held, bars)
    if output is Output.JSON:
        print(report.as_json(identifier, *seen))
    else:
        report.show(Console(), identifier, *seen)
    raise typer.Exit(int(seen.end.exit))


def show(
    receipt_id: ReceiptArgument, network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, da: DaOption = DA_URLS
) -> None:
    """Print a receipt as JSON: its signed record, its batch and where its sealed envelope lies.

    Exit codes: 0 found, 4 not found, 5 a service is down, 64 asked wrongly.
    """
    identifier = receipt_argument(receipt_id)
    with connected(network, rpc, da) as connection, _progress() as bars:
        found = _find(connection, identifier, bars)
        label = "" if isinstance(found, Seen) else label_of(connection, found)
    if isinstance(found, Seen):
        Console(stderr=True).print(f"{found.end.word}: {found.end.reason}", style="bold")
        raise typer.Exit(int(found.end.exit))
    batch = {name: value for name, value in to_json(found.header).items() if name not in ("operator", "environment", "model_id")}
    proof = [hex0x(each) for each in found.checked.proof]
    signed = to_json(found.checked.signed)
    told = {"receipt_id": hex0x(identifier), **signed, "assurance": label, "batch": batch, "proof": proof}
    print(json.dumps(told, indent=2))


def _find(connection: Connection, identifier: Digest, bars: Progress) -> Found | Seen:
    task: TaskID = bars.add_task("reading lists of receipts", total=None)
    search = find_receipt(connection, identifier, lambda done, total: bars.update(task, completed=done, total=total))
    bars.remove_task(task)
    if search.found is not None:
        return search.found
    if search.unread:
        reason = f"da_unavailable: {len(search.unread)} lists could not be read ({search.unread[0]})"
        return Seen([], None, None, Conclusion("UNAVAILABLE", Exit.UNAVAILABLE, reason))
    more = f"; {len(search.faulty)} batches have lists that do not fit ({search.faulty[0]})" if search.faulty else ""
    return Seen([], None, None, Conclusion("NOT FOUND", Exit.NOT_FOUND, f"no anchored batch has this receipt{more}"))


def _verify(connection: Connection, found: Found, identifier: Digest, held: Held, bars: Progress) -> Seen:
    checks = checking.public_checks(connection, found)
    standing = checking.chain_standing(connection, found, identifier)
    if held.payload is None:
        return Seen(checks, standing, None, checking.conclude(checks, standing, None))
    check, early = checking.check_opening(found, identifier, held.payload)
    checks.append(check)
    if early is not None:
        return Seen(checks, standing, None, early)
    task = bars.add_task("re-executing", total=None)

    def tell(_name: str, done: int, total: int) -> None:
        bars.update(task, completed=done, total=total)

    try:
        outcome = checking.rerun(found, held.payload, held.artifact, tell)
    except CannotExecute as error:
        checks.append(Check("re-execution", checking.UNKNOWN, str(error)))
        return Seen(checks, standing, None, Conclusion("INCONCLUSIVE", Exit.INCONCLUSIVE, str(error.values[0])))
    return Seen(checks, standing, outcome, checking.conclude(checks, standing, outcome))


@contextmanager
def _progress() -> Iterator[Progress]:
    # On standard error, so that standard output stays what was asked for.
    with Progress(console=Console(stderr=True), transient=True) as bars:
        yield bars
