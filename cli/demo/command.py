"""`bytewise demo`: runs the demo, prints its tables, writes `demo-report.json`, and judges by exit code."""

import enum
import json
import secrets
import shlex
import signal
import sys
import time
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bytewise.protocol.address_book import Network as Book
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.suites import hybrid_epoch, rebuilt_epoch
from bytewise.protocol.units import Address, hex0x
from bytewise.service.files import replace_file
from bytewise.tee_simulated.root import issue
from chain.client.rpc import ChainClient
from chain.deployment.deploy import fund
from chain.sending.keys import devnet_signer, save_signer
from cli.demo import build, plan
from cli.demo.plan import CHAIN_ID, OPERATORS, SHARDS, Options
from cli.demo.processes import ProcessGroup
from cli.demo.site import Site
from cli.network import print_state

# `KEEP=1`: what one needs to go on with a network that stays up: variables to source, a funded account, word of who ended.

LOOK_S = 1.0
"""Between two looks at who is still there."""
LATEST = "latest"
"""Link beside the runs' folders to the one that was kept last."""

COMMANDS = (
    f"source runs/{LATEST}/env",
    'SSL_CERT_FILE="$CERTIFICATE" "$PYTHON" -c "import openai; '
    "print(openai.OpenAI(base_url='$OPERATOR', api_key='none').chat.completions.create(model='$MODEL', "
    "messages=[{'role': 'user', 'content': 'What is a generator?'}], max_tokens=64, temperature=0, "
    f'frequency_penalty={plan.FREQUENCY_PENALTY}).model_dump_json())" > answer.json',
    "RECEIPT_ID=$(\"$PYTHON\" -c \"import json; print(json.load(open('answer.json'))['receipt']['receipt_id'])\")",
    '"$PYTHON" -m bytewise verify "$RECEIPT_ID" --network "$NETWORK" --rpc "$RPC" --da "$DA" --artifact "$ARTIFACT" '
    "--opening answer.json",
)
"""To ask with an own client (any of OpenAI's that trusts the certificate), and to check what it kept. One line each."""


def endpoints(site: Site) -> dict[str, str]:
    """Where an own client can go while the network runs."""
    return {
        "chain": site.rpc_url,
        "da": site.da_url,
        **{f"shard {i + 1}": f"https://127.0.0.1:{port}" for i, port in enumerate(site.ports.shards)},
        **{f"operator {name}": f"{site.operator_url(name)}/v1" for name in OPERATORS},
        **{f"certificate of {name}": str((site.of(name) / "tls.pem").relative_to(site.root)) for name in OPERATORS},
        "address book": str(site.network_file.relative_to(site.root)),
    }


def variables(site: Site, book: Book, accounts: dict[str, Address]) -> dict[str, str]:
    """A network by the names that the commands use; accounts as `ACCOUNT_ADA`, contracts as `CONTRACT_LEDGER`, files absolute."""
    addresses = book.addresses
    cheat = site.of("dishonest")
    found: dict[str, str | Path] = {
        "PYTHON": sys.executable,
        "NETWORK": site.network_file,
        "RPC": site.rpc_url,
        "CHAIN_ID": str(CHAIN_ID),
        "DA": site.da_url,
        "MODEL": build.MODEL_NAME,
        "ARTIFACT": site.artifact,
        "OPERATOR": f"{site.operator_url('honest')}/v1",
        "CERTIFICATE": site.of("honest") / "tls.pem",
        "DISHONEST_OPERATOR": f"{site.operator_url('dishonest')}/v1",
        "DISHONEST_CERTIFICATE": cheat / "tls.pem",
        **{f"SHARD_{number}": site.shard_url(number) for number in range(1, SHARDS + 1)},
        "POLICY": site.policy_file,
        "ENVIRONMENT": site.environment_file,
        "EPOCH_FILE": site.epoch_file,
        "SPARE_KEY": site.spare_key,
        "SPARE_PLATFORM": site.spare_platform,
        **{f"ACCOUNT_{name.upper()}": account for name, account in accounts.items()},
        **{f"CONTRACT_{each.name.upper()}": getattr(addresses, each.name) for each in fields(addresses)},
    }
    return {name: str(value) for name, value in found.items()}


def write_variables(site: Site, book: Book, accounts: dict[str, Address]) -> Path:
    """Writes `env` in the run's folder for a shell to source, and has `runs/latest` name that folder."""
    path = site.folder / "env"
    lines = [f"{name}={shlex.quote(value)}" for name, value in variables(site, book, accounts).items()]
    path.write_text("# For `source`: a network that answers until its demo is ended.\n" + "\n".join(lines) + "\n")
    draft = site.folder.with_name(f".{LATEST}.{secrets.token_hex(8)}")
    draft.symlink_to(site.folder.name)
    draft.replace(site.folder.with_name(LATEST))
    return path


def make_spare(site: Site) -> Address:
    """An account that no process uses, with play money; its key is in a file that only its owner reads."""
    signer = LocalSigner(secrets.token_bytes(32))
    site.spare_key.parent.mkdir()
    save_signer(site.spare_key, signer)
    client = ChainClient(site.rpc_url, CHAIN_ID, build.RPC_TIMEOUT_S)
    fund(client, devnet_signer(CHAIN_ID, 0), {signer.address: plan.FUNDS_WEI})
    return signer.address


def make_spare_machine(site: Site) -> None:
    """A simulated machine that no process uses: with it a sixth verifier can join."""
    issue(site.of("tee"), site.spare_platform)


def show(site: Site, console: Console) -> None:
    """Endpoints, and commands to copy: each is one line, however wide the terminal is."""
    console.print("\nThe network stays up until Ctrl-C. Endpoints:")
    for name, where in endpoints(site).items():
        _line(console, f"  {name:24} {where}")
    ether = plan.FUNDS_WEI // plan.ETHER
    _line(console, f"  {'account with ' + str(ether) + ' ETH':24} {site.spare_key.relative_to(site.root)}")
    console.print("\nAsk with your own client, then (within a minute its receipt is on the chain) check what it kept:")
    for command in COMMANDS:
        _line(console, command)


def stay(network: ProcessGroup, console: Console) -> None:
    """Until Ctrl-C; meanwhile it says which process ended, once each."""
    told: set[str] = set()
    while True:
        for sentence in news_of_the_dead(network, told):
            console.print(Text(sentence, style="bold red"), soft_wrap=True)
        time.sleep(LOOK_S)


def news_of_the_dead(network: ProcessGroup, told: set[str]) -> list[str]:
    """Which processes ended since the last time, how, and where each one's log is."""
    fresh = {name: code for name, code in network.ended().items() if name not in told}
    told.update(fresh)
    return [f"{name} {_manner(code)}; its log is {network.log_of(name)}" for name, code in fresh.items()]


def _manner(code: int) -> str:
    return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"


def _line(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)


if TYPE_CHECKING:
    from cli.demo.director import Fate
    from cli.demo.run import Demo

EXIT_MISSING = 3
"""Inconclusive: the network ran, but not every fact was read back."""
EXIT_FAILED = 1
PLAIN_WIDTH = 120
"""Columns where the output is no terminal."""


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
    report: Annotated[
        Path, typer.Option(help="Where the report goes, in place of the last run's; the run's folder has one too.")
    ] = Path("demo-report.json"),
) -> None:
    """Run a whole network on this machine and watch it catch four frauds.

    One chain, a data availability store, three key shards, two operators, five staked verifiers with an enclave each and a
    watchtower start as processes of their own. What they write is in the folder `runs` here. Exit code 0: every fact was read
    back; 3: some are missing, and named.
    """
    # Here, for no other verb should wait until torch and the client of OpenAI are loaded.
    from cli.demo.actors import anvil
    from cli.demo.run import Demo

    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    here = Path.cwd()
    anvil(here)
    folder = here / "runs" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    options = Options(adversary is Adversary.ONE, audits is Switch.ON, watchtower is Switch.ON, _EPOCHS[keys], keep, folder)
    running = Demo(here, options, f"canary-{secrets.token_hex(8)}", console)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    raise typer.Exit(_conduct(running, console, report))


def _conduct(running: "Demo", console: Console, report: Path) -> int:
    """Runs it to its end, or until it is interrupted, and ends its processes; the exit code."""
    logs = running.site.folder.relative_to(running.site.root)
    # Until everything is said, whoever is told to end may only just be starting.
    code, midway = EXIT_FAILED, True
    try:
        code = _tell(running, console, report)
        midway = False
        if running.options.keep:
            _keep(running, console)
    except BytewiseError as error:
        console.print(f"[bold red]The demo stopped: {error}[/]\nLogs of every process are in {logs}.")
        code = EXIT_FAILED
    except KeyboardInterrupt:
        console.print("Interrupted: all processes are told to end.")
    finally:
        # Nobody who interrupts twice leaves processes behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        crashed = running.network.unclean(midway)
    if crashed:
        console.print(f"[bold red]Processes did not end cleanly: {crashed}[/]\nLogs of every process are in {logs}.")
    return code or (EXIT_FAILED if crashed else 0)


def _keep(running: "Demo", console: Console) -> None:
    pass

    assert running.book is not None, "the story was told"
    spare = make_spare(running.site)
    make_spare_machine(running.site)
    write_variables(running.site, running.book, {**running.accounts, "spare": spare})
    show(running.site, console)
    stay(running.network, console)


def _tell(running: "Demo", console: Console, path: Path) -> int:
    from cli.demo import facts

    pass
    from cli.demo.run import versions

    found = running.run()
    names: dict[str, str] = {account: name for name, account in running.accounts.items()}
    print_state(found.status, console, names)
    for fact, holds in found.facts.items():
        console.print(f"  [{'green]yes' if holds else 'bold red]NO '}[/]  {fact}")
    document = facts.as_document(found, versions(), endpoints(running.site))
    document["names"] = {name: account for account, name in names.items()}
    document["fates"] = {"killed": _fate(running.fates.killed), "absent": _fate(running.fates.absent)}
    document["processes"] = running.network.pids()
    document["folder"] = str(running.site.folder.relative_to(running.site.root))
    data = (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
    # Of runs at the same time each keeps its own, and the last one's is where the documents say, whole.
    (running.site.folder / "demo-report.json").write_bytes(data)
    replace_file(path, data)
    if found.missing:
        console.print(f"[bold red]{len(found.missing)} facts are missing: {'; '.join(found.missing)}[/]")
        return EXIT_MISSING
    console.print(f"[bold green]Every fact was read back.[/] {found.wall_s:.0f} s, {found.peak_pss_mb:.0f} MB; report in {path}")
    return 0


def _fate(fate: "Fate | None") -> dict[str, Any] | None:
    return None if fate is None else {"member": fate.member, "dispute": hex0x(fate.dispute), "round": fate.round}
