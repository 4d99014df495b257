"""`bytewise member`: shows members of committees, and carries out commands of the person who runs a member."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.settings import load_settings
from cli.network import read_rows, seat_entry
from cli.node.roles import JUDGES, NodeRole
from cli.options import NETWORK_FILE, RPC_URLS, AccountArgument, NetworkOption, RpcOption
from cli.output import (
    LIMIT,
    Fields,
    LimitOption,
    OutputFormat,
    OutputOption,
    Row,
    emit,
    limited,
    print_entries,
    rows_of,
    rows_with,
)

if TYPE_CHECKING:
    from bytewise.storage.nonce_lease import NonceLease
    from chain.reads.reader import SnapshotReader


ConfigOption = Annotated[Path, typer.Option("--config", help="Settings file of the member (`bytewise member run`).")]

VOTING = (*JUDGES, NodeRole.WATCHTOWER)
"""Roles for which `export-votes` and `import-votes` work."""
SENDING = (*VOTING, NodeRole.OPERATOR)
"""Roles that send transactions. Nodes of these roles have a nonce lease."""

DisputeOption = Annotated[str | None, typer.Option("--dispute", help="Only members of its committee; id, or its first digits.")]


def list_members(
    network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, dispute: DisputeOption = None,
    limit: LimitOption = LIMIT, output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """List members of committees, the newest dispute first: seats, vote, pay and charges.

    Exit codes: 0 listed, 5 the node does not answer, 64 wrong input.

    Example: bytewise member list --dispute 0x71e0
    """
    rows = limited(rows_with("--dispute", dispute, read_rows(network, rpc, _seats), "dispute"), limit)
    emit(output, rows, lambda: print_entries(map(_entry, rows), "members", Console()))


def show(
    account: AccountArgument, network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Show one member in the newest round of each dispute: seats, vote, pay and charges.

    Earlier rounds are not shown; `bytewise status` sums the pay of all rounds.

    Exit codes: 0 shown, 4 no newest round has this member, 5 the node does not answer, 64 wrong input.

    Example: bytewise member show 0x3c44cddd
    """
    rows = rows_of("ACCOUNT", account, read_rows(network, rpc, _seats), "voter")
    emit(output, rows, lambda: print_entries(map(_entry, rows), "members", Console()))


def _seats(reader: "SnapshotReader") -> list[Row]:
    from bytewise_client.network_state import disputes

    return [
        {"dispute": each["dispute"], "round": each["round"], "assurance": each["assurance"], **member}
        for each in disputes(reader)
        for member in each["members"]
    ]


def _entry(row: Mapping[str, Any]) -> tuple[str, Fields]:
    account, fields = seat_entry(row)
    return account, {"dispute": row["dispute"], "round": row["round"], "assurance": row["assurance"], **fields}


def decline(
    config: ConfigOption,
    dispute: Annotated[str, typer.Argument(metavar="DISPUTE", help="Dispute id, 0x-hex.")],
) -> None:
    """Stay away from one dispute, at the known penalty.

    Each seat of the member costs the penalty of an absent seat. If a commit root was posted in the round, each seat costs the
    higher penalty of a vote that was not revealed, even if the member has no commitment under the root.

    A vote that the member has committed, on the chain or to the other members, is still revealed.

    Exit codes: 0 stored (also for a dispute that is not known yet), 6 the dispute or the duty is over, 64 wrong input.

    Example: bytewise member decline 0x71e0… --config member.toml
    """
    from committee import maintenance
    from verifier.settings import NodeSettings

    raise typer.Exit(maintenance.decline(load_settings(NodeSettings, config), dispute))


def export_votes(config: ConfigOption, out: Annotated[Path, typer.Argument(metavar="OUT", help="New file.")]) -> None:
    """Write every vote of a stopped member to a new file that only you can read.

    If the member moves to another machine, never start the old one again.

    Example: bytewise member export-votes votes.json --config member.toml
    """
    from committee import maintenance

    print(f"{maintenance.export_votes(*_lease(config, VOTING), out)} votes written to {out}")


def import_votes(config: ConfigOption, file: Annotated[Path, typer.Argument(metavar="IN", help="An export.")]) -> None:
    """Add the votes of an export to those of a stopped member.

    If one vote of the export contradicts a stored vote, no vote is added.

    Example: bytewise member import-votes votes.json --config member.toml
    """
    from committee import maintenance

    print(f"{maintenance.import_votes(*_lease(config, VOTING), file)} votes read from {file}")


def resume(config: Annotated[Path, typer.Option("--config", help="Settings file of the node, of any role that sends.")]) -> None:
    """Let a stopped account send again, after you found out who else sent with its key.

    The account may be a member's, a verifier's, a watchtower's or an operator's. Stop the node first.

    Exit codes: 0 resumed, or it was not stopped, 6 this account's node runs, 64 wrong input.

    Example: bytewise member resume --config member.toml
    """
    from committee import maintenance

    reason = maintenance.resume(*_lease(config, SENDING))
    print(f"resumed; it was stopped: {reason}" if reason else "it was not stopped")


def _lease(config: Path, roles: tuple[NodeRole, ...]) -> "tuple[NonceLease, Path]":
    """Returns the nonce lease of a node, and the file that is locked while its key is in use. Raises `ConfigurationError` if the
    node's role is not in `roles`."""
    from bytewise.service.clock import SystemClock
    from bytewise.storage.nonce_lease import NonceLease
    from cli.node.view import NodeView

    view = NodeView(config)
    signer = view.signer_settings if view.role in roles else None
    if signer is None:
        raise ConfigurationError("role", f"{config.name} is of a {view.role}; this command is for {', '.join(roles)}")
    return NonceLease(view.database, SystemClock(), view.network.chain_id, view.account), signer.lock_file
