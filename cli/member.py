"""`bytewise member`: what a person does with a committee member beside running it."""

from pathlib import Path
from typing import Annotated

import typer

from bytewise.service.settings import load_settings
from committee import maintenance
from verifier.settings import NodeSettings

ConfigOption = Annotated[Path, typer.Option("--config", help="Settings file of the member (`bytewise member run`).")]


def decline(
    config: ConfigOption,
    dispute: Annotated[str, typer.Argument(metavar="DISPUTE", help="Dispute id, 0x-hex.")],
) -> None:
    """Stay away from one dispute, at the known penalty.

    A vote that was committed is still revealed.

    Exit codes: 0 remembered, also of a dispute that is not known yet, 6 the dispute or the duty is over, 64 wrong input.

    Example: bytewise member decline 0x71e0… --config member.toml
    """
    raise typer.Exit(maintenance.decline(_member(config), dispute))


def export_votes(config: ConfigOption, out: Annotated[Path, typer.Argument(metavar="OUT", help="New file.")]) -> None:
    """Write every vote of a stopped member to a new file that only you can read.

    If the member moves to another machine, never start the old one again.

    Example: bytewise member export-votes votes.json --config member.toml
    """
    print(f"{maintenance.export_votes(_member(config), out)} votes written to {out}")


def import_votes(config: ConfigOption, file: Annotated[Path, typer.Argument(metavar="IN", help="An export.")]) -> None:
    """Add the votes of an export to those of a stopped member.

    If one contradicts a known vote, none is added.

    Example: bytewise member import-votes votes.json --config member.toml
    """
    print(f"{maintenance.import_votes(_member(config), file)} votes read from {file}")


def resume(config: ConfigOption) -> None:
    """Let a stopped account send again, once you know who else sent with its key.

    Example: bytewise member resume --config member.toml
    """
    reason = maintenance.resume(_member(config))
    print(f"resumed; it was stopped: {reason}" if reason else "it was not stopped")


def _member(config: Path) -> NodeSettings:
    return load_settings(NodeSettings, config)
