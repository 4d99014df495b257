"""`bytewise demo`: runs the demo, prints the result and writes `demo-report.json`. The exit code says whether all facts hold."""

import enum
import json
import secrets
import shutil
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.units import hex0x
from bytewise.service.files import replace_file
from cli.network import print_state

if TYPE_CHECKING:
    from cli.demo.director import MemberFailure
    from cli.demo.run import Demo

EXIT_MISSING = 3
"""Exit code of an inconclusive run: the network ran, but the demo could not read back some facts."""
EXIT_FAILED = 1
PLAIN_WIDTH = 120
"""Width of the output in columns if the output is no terminal."""


class Adversary(enum.StrEnum):
    """Number of operators that cheat: one or none."""

    ONE = "one"
    NONE = "none"


class Switch(enum.StrEnum):
    """Choice whether a part of the network is on or off."""

    ON = "on"
    OFF = "off"


class Keys(enum.StrEnum):
    """Kind of the key epoch that the shards make (`docs/reference/glossary.md`: hybrid epoch, rebuilt epoch)."""

    PLAIN = "plain"
    HYBRID = "hybrid"
    REBUILT = "rebuilt"


_KEYS_HELP = (
    "`hybrid`: a key epoch whose envelopes need P-256 and the shards' ML-KEM-768 keys; `rebuilt`: one whose key enclaves put "
    "together from shares."
)


def demo(
    adversary: Annotated[
        Adversary, typer.Option(help="`none`: both operators are honest; the demo must then fail.")
    ] = Adversary.ONE,
    audits: Annotated[Switch, typer.Option(help="`off`: verifiers run no light audits; the demo must then fail.")] = Switch.ON,
    watchtower: Annotated[Switch, typer.Option(help="`off`: nobody challenges; the demo must then fail.")] = Switch.ON,
    keys: Annotated[Keys, typer.Option(help=_KEYS_HELP)] = Keys.PLAIN,
    database: Annotated[str, typer.Option(help="URL of a PostgreSQL server for all actors; without it, SQLite.")] = "",
    keep: Annotated[bool, typer.Option(help="Leave the network running and print its endpoints.")] = False,
    report: Annotated[
        Path, typer.Option(help="Where the report goes, in place of the last run's; the run's folder has one too.")
    ] = Path("demo-report.json"),
) -> None:
    """Run a whole network on this machine and watch it catch four frauds.

    The command starts separate processes: one chain, a data availability store, three key shards, two operators, five staked
    verifiers with an enclave each, and a watchtower. Their files are in the folder `runs` of the current folder.

    Exit codes: 0 every fact was read back, 1 the demo stopped (also by Ctrl-C before its end), or a process failed, 3 some
    facts are missing, and their names are printed, 64 anvil is not installed.
    """
    # These imports are inside the function, so that no other command waits until torch and the client of OpenAI are loaded.
    from bytewise.protocol.suites import hybrid_epoch, rebuilt_epoch
    from cli.demo.actors import anvil
    from cli.demo.plan import Options
    from cli.demo.run import Demo

    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    here = Path.cwd()
    anvil(here)
    folder = here / "runs" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    epoch = {Keys.PLAIN: 1, Keys.HYBRID: hybrid_epoch(1), Keys.REBUILT: rebuilt_epoch(1)}[keys]
    switches = (adversary is Adversary.ONE, audits is Switch.ON, watchtower is Switch.ON)
    options = Options(*switches, epoch, keep, folder, database)
    running = Demo(here, options, f"canary-{secrets.token_hex(8)}", console)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    raise typer.Exit(_run_to_end(running, console, report))


def _run_to_end(running: "Demo", console: Console, report: Path) -> int:
    """Runs the demo until it ends or the user interrupts it, ends the demo's processes, and returns the exit code."""
    logs = running.site.folder.relative_to(running.site.root)
    # If the demo stops early, a process may get SIGTERM before it can handle signals. That counts as no failure (`unclean`).
    code, midway = EXIT_FAILED, True
    try:
        code = _run_and_report(running, console, report)
        midway = False
        if running.options.keep:
            _keep_running(running, console)
    except BytewiseError as error:
        console.print(f"[bold red]The demo stopped: {error}[/]\nLogs of every process are in {logs}.")
        code = EXIT_FAILED
    except KeyboardInterrupt:
        console.print("Interrupted: all processes are told to end.")
    finally:
        # A second interrupt must not leave processes behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        crashed = running.network.unclean(midway)
        shutil.rmtree(running.site.chain_states, ignore_errors=True)
    if crashed:
        console.print(f"[bold red]Processes did not end cleanly: {crashed}[/]\nLogs of every process are in {logs}.")
    return code or (EXIT_FAILED if crashed else 0)


def _keep_running(running: "Demo", console: Console) -> None:
    """Prints the endpoints of the network, and keeps the network running until the user interrupts the demo."""
    from cli.demo.run import make_spare_account, make_spare_platform, show, watch_until_interrupted, write_variables

    assert running.book is not None, "the demo has run"
    spare = make_spare_account(running.site)
    make_spare_platform(running.site)
    write_variables(running.site, running.book, {**running.accounts, "spare": spare})
    show(running.site, console)
    watch_until_interrupted(running.network, console)


def _run_and_report(running: "Demo", console: Console, path: Path) -> int:
    """Runs the demo, prints the facts, and writes the report to `path`. Returns the exit code."""
    from cli.demo import facts
    from cli.demo.run import endpoints, versions

    found = running.run()
    names: dict[str, str] = {account: name for name, account in running.accounts.items()}
    print_state(found.status, console, names)
    for fact, holds in found.facts.items():
        console.print(f"  [{'green]yes' if holds else 'bold red]NO '}[/]  {fact}")
    document = facts.as_document(found, versions(), endpoints(running.site))
    document["names"] = {name: account for account, name in names.items()}
    document["fates"] = {"killed": _failure_entry(running.failures.killed), "absent": _failure_entry(running.failures.absent)}
    document["processes"] = running.network.pids()
    document["folder"] = str(running.site.folder.relative_to(running.site.root))
    data = (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
    # Several runs may be active at one time. So each run writes a report to its own folder, and then replaces the report at
    # `path`.
    (running.site.folder / "demo-report.json").write_bytes(data)
    replace_file(path, data)
    if found.missing:
        console.print(f"[bold red]{len(found.missing)} facts are missing: {'; '.join(found.missing)}[/]")
        return EXIT_MISSING
    console.print(f"[bold green]Every fact was read back.[/] {found.wall_s:.0f} s, {found.peak_pss_mb:.0f} MB; report in {path}")
    return 0


def _failure_entry(failure: "MemberFailure | None") -> dict[str, Any] | None:
    return None if failure is None else {"member": failure.member, "dispute": hex0x(failure.dispute), "round": failure.round}
