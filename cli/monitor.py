"""`bytewise monitor`: lists the invariants of a network, and checks them once or until Ctrl-C."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from cli.options import SETTINGS, NodeConfigOption
from cli.output import OutputFormat, OutputOption, emit, plain, print_entries

if TYPE_CHECKING:
    from dashboard.monitor.findings import InvariantResult
    from dashboard.monitor.wiring import MonitorReport

_STYLES = {"holds": "green", "broken": "bold red", "unknown": "yellow"}


def list_invariants(output: OutputOption = OutputFormat.TABLE) -> None:
    """List the invariants that a monitor checks: severity, purpose, and the page with formula and advice.

    Example: bytewise monitor list
    """
    from dashboard.monitor.invariants import INVARIANTS

    rows = [
        {"invariant": each.name, "severity": each.severity.value, "purpose": each.purpose, "page": each.page}
        for each in INVARIANTS
    ]
    shown = ((row["invariant"], {"": row["purpose"], "severity": row["severity"], "page": row["page"]}) for row in rows)
    emit(output, rows, lambda: print_entries(shown, "invariants"))


def check(
    config: NodeConfigOption = Path(SETTINGS),
    once: Annotated[bool, typer.Option("--once", help="Check once and end with the exit code.")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Check every invariant of a network at one block, and again after each pause of the settings until Ctrl-C.

    The monitor first brings its index up to the newest block, which takes a while the first time. The monitor reports an
    invariant as broken only if the contracts, a proof against the block's state root, or a shard's own signatures confirm the
    violation. It reports a violation that nothing confirms as unknown.

    Exit codes with `--once`: 0 all invariants hold, 2 at least one is broken, 3 none is broken and at least one is unknown, 5 the
    node does not answer at the start, so nothing was checked, 64 wrong settings. Without `--once`, 5 and 64 end the command, too.

    Example: bytewise monitor check --once --output json --config bytewise-monitor/bytewise.toml
    """
    import threading

    from bytewise.service.settings import load_settings
    from dashboard.monitor.findings import exit_of_results
    from dashboard.monitor.settings import MonitorSettings
    from dashboard.monitor.wiring import Monitor

    settings = load_settings(MonitorSettings, config)
    monitor = Monitor(settings)
    while True:
        report = monitor.look()
        emit(output, report.document(), lambda report=report: _print(Console(), report))  # type: ignore[misc]
        if once:
            raise typer.Exit(exit_of_results(report.results))
        threading.Event().wait(settings.check_s)


def _print(console: Console, report: "MonitorReport") -> None:
    console.print(plain(f"block {report.block} {report.block_hash}" if report.block >= 0 else "no block was read", "bold"))
    for each in report.results:
        console.print(plain(f"{each.state.value:8} {each.name}", _STYLES[each.state.value]), soft_wrap=True)
        for finding in each.findings:
            console.print(plain(f"         {finding.subject}: {finding.text}"), soft_wrap=True)
        if each.reason:
            console.print(plain(f"         {each.reason}"), soft_wrap=True)
    console.print(plain(_conclusion(report.results), "bold"))


def _conclusion(results: "Sequence[InvariantResult]") -> str:
    states = [each.state.value for each in results]
    counts = ", ".join(f"{states.count(state)} {word}" for state, word in _WORDS.items() if state in states)
    return f"{counts}; `bytewise monitor list` names the page of each invariant"


_WORDS = {"holds": "hold", "broken": "broken", "unknown": "unknown"}
