"""`bytewise`, or `python -m cli`: the verbs."""

import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from typer.exceptions import TyperException

from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.service.exit_codes import Exit, advice_of
from bytewise.service.settings import load_settings
from cli import certify, chain, dispute, key, model, pinned, verify
from cli.connect import DA_URLS, NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption, connected
from cli.demo.command import demo
from cli.gate import gate
from cli.status import collect
from cli.status_table import show as show_status
from cli.terminal import plain
from cli.verify import Output, OutputOption
from kms.shard.process_hardening import close_process
from verifier.settings import NodeSettings

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Receipts for LLM answers that anyone may question.")
receipts = typer.Typer(no_args_is_help=True, help="Look at receipts.")
protect = typer.Typer(no_args_is_help=True, help="What keeps a member from voting twice; its process must not run.")
duties = typer.Typer(no_args_is_help=True, help="Duties of a committee member.")
app.add_typer(model.app, name="model")
model.app.command()(pinned.pin)
model.app.command()(pinned.fingerprint)
model.app.command()(certify.vectors)
app.add_typer(chain.app, name="chain")
app.add_typer(key.app, name="kms")
app.add_typer(receipts, name="receipt")
app.add_typer(dispute.app, name="dispute")
app.add_typer(duties, name="duty")
app.add_typer(protect, name="protect")
app.command()(demo)
app.command()(gate)
app.command("verify")(verify.verify)
receipts.command("show")(verify.show)
duties.command("certify")(certify.certify)


@app.command()
def status(network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, output: OutputOption = Output.TABLE) -> None:
    """Receipts, verdicts and money of a network, read from the chain alone.

    Exit codes: 0 read, 5 the node does not answer, 64 asked wrongly.
    """
    with connected(network, rpc, DA_URLS) as connection:
        state = collect(connection.reader)
    if output is Output.JSON:
        print(json.dumps(state, indent=2))
    else:
        show_status(state, Console(), {})


ConfigOption = Annotated[Path, typer.Option("--config", help="Settings file of the member (`python -m committee`).")]


@duties.command()
def decline(
    config: ConfigOption,
    dispute: Annotated[str, typer.Argument(metavar="DISPUTE", help="Dispute id, 0x-hex.")],
) -> None:
    """Stay away from one dispute, at the known penalty. A vote that was committed is still revealed.

    Exit codes: 0 remembered, also of a dispute that is not known yet, 6 the dispute or the duty is over, 64 asked wrongly.
    """
    from committee.maintenance import decline as decline_duty

    raise typer.Exit(decline_duty(_member(config), dispute))


@protect.command("export")
def export_votes(config: ConfigOption, out: Annotated[Path, typer.Argument(metavar="OUT", help="New file.")]) -> None:
    """Write every vote of a stopped member to a new file that only you can read. If it moves, never start the old one again."""
    from committee.maintenance import export_votes as export

    print(f"{export(_member(config), out)} votes written to {out}")


@protect.command("import")
def import_votes(config: ConfigOption, file: Annotated[Path, typer.Argument(metavar="IN", help="An export.")]) -> None:
    """Add the votes of an export to those of a stopped member; if one contradicts a known vote, none is added."""
    from committee.maintenance import import_votes as add

    print(f"{add(_member(config), file)} votes read from {file}")


@protect.command("resume")
def resume(config: ConfigOption) -> None:
    """Let a stopped account send again, once you know who else sent with its key."""
    from committee.maintenance import resume as resume_lane

    reason = resume_lane(_member(config))
    print(f"resumed; it was stopped: {reason}" if reason else "it was not stopped")


def _member(config: Path) -> NodeSettings:
    return load_settings(NodeSettings, config)


@app.command("version")
def tell_version(output: OutputOption = Output.TABLE) -> None:
    """Version of this program and of the arithmetic profile that it speaks."""
    try:
        number = version("bytewise")
    except PackageNotFoundError:
        number = "unknown"
    told = {"bytewise": number, "profile": PROFILE_EXACT_1, "python": sys.version.split()[0]}
    print(json.dumps(told) if output is Output.JSON else " ".join(f"{name} {value}" for name, value in told.items()))


def main(arguments: list[str] | None = None) -> int:
    """Runs one verb, by default the process's own; the exit code (`bytewise.service.exit_codes`)."""
    errors = Console(stderr=True)
    if arguments is None and sys.argv[1:2] == ["kms"]:
        # The process's own verb, which may read a shard's secrets. Who calls this from another program answers for that one.
        close_process()
    try:
        return int(typer.main.get_command(app).main(arguments, "bytewise", standalone_mode=False) or Exit.OK)
    except TyperException as error:
        if error.format_message():
            errors.print(f"{error.format_message()}\nTry --help.", style="red", markup=False)
        return Exit.USAGE
    except typer.Abort:
        return Exit.INTERNAL
    except BytewiseError as error:
        code, advice = advice_of(error)
        for line in (*str(error).splitlines(), advice):
            errors.print(plain(line, "red"))
        return code


if __name__ == "__main__":
    sys.exit(main())
