"""`bytewise demo`: runs the demo, prints its tables, writes `demo-report.json`, and judges by exit code."""

import enum
import json
import secrets
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bytewise.cli import status_table
from bytewise.cli.demo.plan import OPERATORS, Options
from bytewise.cli.demo.site import Site
from bytewise.protocol.errors import BytewiseError
from bytewise.protocol.suites import hybrid_epoch, rebuilt_epoch
from bytewise.protocol.units import hex0x

if TYPE_CHECKING:
    from bytewise.cli.demo.director import Fate
    from bytewise.cli.demo.run import Demo

EXIT_MISSING = 3
"""Inconclusive: the network ran, but not every fact was read back."""
EXIT_FAILED = 1
PLAIN_WIDTH = 120
"""Columns where the output is no terminal."""
ROOT = Path(__file__).parents[3]


class Adversary(enum.StrEnum):
    """How many operators cheat."""

    ONE = "one"
    NONE = "none"


class Switch(enum.StrEnum):
    """Whether a part of the network works."""

    ON = "on"
    OFF = "off"


class Keys(enum.StrEnum):
    """Of which suite the shards' key is."""

    PLAIN = "plain"
    HYBRID = "hybrid"
    REBUILT = "rebuilt"


_EPOCHS = {Keys.PLAIN: 1, Keys.HYBRID: hybrid_epoch(1), Keys.REBUILT: rebuilt_epoch(1)}
"""Number of the key epoch."""
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
    keep: Annotated[bool, typer.Option(help="Leave the network running and print its endpoints.")] = False,
    report: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("demo-report.json"),
) -> None:
    """Run a whole network on this machine and watch it catch four frauds.

    One chain, a data availability store, three key shards, two operators, five staked verifiers with an enclave each and a
    watchtower start as processes of their own. Exit code 0: every fact was read back; 3: some are missing, and named.
    """
    # Here, for no other verb should wait until torch and the client of OpenAI are loaded.
    from bytewise.cli.demo.run import Demo

    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    folder = ROOT / "runs" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    options = Options(adversary is Adversary.ONE, audits is Switch.ON, watchtower is Switch.ON, _EPOCHS[keys], keep, folder)
    running = Demo(ROOT, options, f"canary-{secrets.token_hex(8)}", console)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = _tell(running, console, report)
        if keep:
            _stay(running, console)
    except BytewiseError as error:
        console.print(f"[bold red]The demo stopped: {error}[/]\nLogs of every process are in {folder.relative_to(ROOT)}.")
        code = EXIT_FAILED
    except KeyboardInterrupt:
        code = 0 if keep else EXIT_FAILED
    finally:
        ends = running.network.end()
    crashed = {name: status for name, status in ends.items() if status != 0 and name not in running.network.killed}
    if crashed:
        console.print(f"[bold red]Processes did not end cleanly: {crashed}[/]")
    raise typer.Exit(code or (EXIT_FAILED if crashed else 0))


def _tell(running: "Demo", console: Console, path: Path) -> int:
    from bytewise.cli.demo import facts
    from bytewise.cli.demo.run import versions

    found = running.run()
    names: dict[str, str] = {account: name for name, account in running.accounts.items()}
    status_table.show(found.status, console, names)
    for fact, holds in found.facts.items():
        console.print(f"  [{'green]yes' if holds else 'bold red]NO '}[/]  {fact}")
    document = facts.as_document(found, versions(), endpoints(running.site))
    document["names"] = {name: account for account, name in names.items()}
    document["fates"] = {"killed": _fate(running.fates.killed), "absent": _fate(running.fates.absent)}
    document["processes"] = running.network.pids()
    document["folder"] = str(running.site.folder.relative_to(ROOT))
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    if found.missing:
        console.print(f"[bold red]{len(found.missing)} facts are missing: {'; '.join(found.missing)}[/]")
        return EXIT_MISSING
    console.print(f"[bold green]Every fact was read back.[/] {found.wall_s:.0f} s, {found.peak_pss_mb:.0f} MB; report in {path}")
    return 0


def _fate(fate: "Fate | None") -> dict[str, Any] | None:
    return None if fate is None else {"member": fate.member, "dispute": hex0x(fate.dispute), "round": fate.round}


def endpoints(site: Site) -> dict[str, str]:
    """Where an own client can go while the network runs."""
    return {
        "chain": site.rpc_url,
        "da": site.da_url,
        **{f"shard {i + 1}": f"https://127.0.0.1:{port}" for i, port in enumerate(site.ports.shards)},
        **{f"operator {name}": f"{site.operator_url(name)}/v1" for name in OPERATORS},
        **{f"certificate of {name}": str((site.of(name) / "tls.pem").relative_to(ROOT)) for name in OPERATORS},
        "address book": str(site.network_file.relative_to(ROOT)),
    }


def _stay(running: "Demo", console: Console) -> None:
    console.print("\nThe network stays up until Ctrl-C. Endpoints:")
    for name, where in endpoints(running.site).items():
        console.print(f"  {name:24} {where}", highlight=False)
    site = running.site
    console.print(
        "\nAsk with your own client (any OpenAI client that trusts the certificate):\n"
        f'  SSL_CERT_FILE={(site.of("honest") / "tls.pem").relative_to(ROOT)} .venv/bin/python -c "import openai; '
        f"print(openai.OpenAI(base_url='{site.operator_url('honest')}/v1', api_key='none').chat.completions.create("
        "model='lighthouse', messages=[{'role': 'user', 'content': 'What is a generator?'}], max_tokens=64).model_dump_json())\""
        " > answer.json\n"
        "Check a receipt by what the client kept (the whole answer will do; its `receipt.receipt_id` is the id):\n"
        f"  .venv/bin/bytewise verify RECEIPT_ID --network {site.network_file.relative_to(ROOT)} --rpc {site.rpc_url} "
        f"--da {site.da_url} --artifact build/models/lighthouse --opening answer.json",
        highlight=False,
        markup=False,
    )
    while True:
        signal.pause()
