"""`bytewise doctor`: checks everything that a node needs, so that a defect is found before it costs money."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from bytewise.protocol.errors.branches import BytewiseError
from bytewise.service.exit_codes import Exit
from cli.options import SETTINGS, NodeConfigOption
from cli.output import OutputFormat, OutputOption, emit, plain

if TYPE_CHECKING:
    from bytewise.service.readiness import Check
    from cli.node.view import NodeView

NOT_ASKED = "not asked, because"
"""Beginning of the value of a check that was not run."""
CHECK_S = 60.0
"""Longest time of one check, in seconds. It is enough to hash a large model."""


WebhookOption = Annotated[
    str | None, typer.Option("--webhook", metavar="URL", help="Also connect to this receiver of alerts; nothing is sent.")
]


def doctor(
    config: NodeConfigOption = Path(SETTINGS), webhook: WebhookOption = None, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Check everything that this node needs: chain, contracts, account, stake, enclave, model, DA, database, disk.

    The command sends no transaction and changes nothing, so it may run at any time, also while the node runs. Each check
    shows the value found, the value required, and how to correct a difference.

    Exit codes: 0 all checks pass, 7 a check fails, 64 the settings cannot be read, or --webhook is no address.

    Example: bytewise doctor --config bytewise-watchtower/bytewise.toml
    """
    from bytewise.service.readiness import readiness_document
    from cli.node.view import NodeView  # imports web3, which takes longer than a help page

    view = NodeView(config)
    console = Console()
    found: list[Check] = []
    for check in run_checks(view, webhook):
        found.append(check)
        if output is OutputFormat.TABLE:
            _print(console, check)
    failed = [each for each in found if not each.ok]
    emit(output, readiness_document(found) | {"role": view.role}, lambda: _conclude(console, found, failed))
    raise typer.Exit(Exit.NOT_READY if failed else Exit.OK)


def run_checks(view: "NodeView", webhook: str | None = None) -> "Iterator[Check]":
    """Yields the result of each check of a node when that check ends. If a gate (`chain_checks.GATES`) fails, the later checks
    are not run and count as failed. `webhook` is the URL of a receiver of alerts to check, or None.
    """
    from bytewise.service.readiness import Check
    from cli.node.checks import chain as chain_checks
    from cli.node.checks import host as host_checks

    _ = view.settings, view.enclave  # raises an error with every wrong setting, which ends the command
    if webhook is not None:
        yield host_checks.webhook_check(webhook)
    yield from (checked(each, view) for each in host_checks.local_checks(view))
    gate = ""
    for function in (*chain_checks.GATES, *chain_checks.checks_of(view.role), *host_checks.chain_bound_checks(view)):
        if gate:
            yield Check(function.__name__, False, f"{NOT_ASKED} {gate} fails", "an answer", f"Repair {gate} first.")
            continue
        found = checked(function, view)
        yield found
        if function in chain_checks.GATES and not found.ok:
            gate = found.name


def checked(function: "Callable[['NodeView'], Check]", view: "NodeView") -> "Check":
    """Runs a check and returns its result. If the check raises an error, or has no result after `CHECK_S` seconds, it counts as
    failed."""
    from bytewise.service.readiness import Check
    from bytewise.service.telemetry import raised_at

    name = function.__name__
    results: list[Check] = []

    def work() -> None:
        try:
            results.append(function(view))
        except BytewiseError as error:
            results.append(Check(name, False, str(error), "an answer", "Repair what the value names, then run this again."))
        except Exception as error:  # noqa: BLE001  (a defect of the check must not be taken for a slow service)
            what = f"the check failed with {type(error).__name__} at {raised_at(error)}"
            results.append(Check(name, False, what, "an answer", "This is a defect of the program: please report it."))

    # The check runs in a daemon thread, because no library's timeout limits a whole check. The process can end while such a
    # thread still runs.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(CHECK_S)
    slow = Check(name, False, f"no result in {CHECK_S:.0f} s", "an answer", "Look at what it asks: it does not answer.")
    return results[0] if results else slow


def _print(console: Console, check: "Check") -> None:
    if check.value.startswith(NOT_ASKED):
        console.print(plain(f"  -  {check.name}: {check.value}"), soft_wrap=True)
        return
    mark, style = ("ok  ", "green") if check.ok else ("FAIL", "bold red")
    console.print(plain(f"{mark} {check.name}: {check.value}", style), soft_wrap=True)
    if not check.ok:
        console.print(plain(f"     must be: {check.threshold}"), soft_wrap=True)
        console.print(plain(f"     to do:   {check.advice}"), soft_wrap=True)


def _conclude(console: Console, found: "Sequence[Check]", failed: "Sequence[Check]") -> None:
    names = ", ".join(each.name for each in failed)
    text = f"{len(failed)} of {len(found)} checks fail: {names}" if failed else f"all {len(found)} checks pass"
    console.print(plain(text, "bold"), soft_wrap=True)
