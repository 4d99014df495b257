"""`bytewise journal verify`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from bytewise.protocol.errors.actors import ConfigurationError, StoreCorrupt
from bytewise.protocol.units import hex0x
from bytewise.service.exit_codes import Exit
from cli.new_folder import SETTINGS
from cli.options import NodeConfigOption, digest_argument
from cli.output import OutputFormat, OutputOption, emit, moment, plain

if TYPE_CHECKING:
    from bytewise.storage.journal import VerifiedJournal

HeadOption = Annotated[
    str | None, typer.Option("--head", help="A head that this command printed before, which must still be in it.")
]


def verify(
    config: NodeConfigOption = Path(SETTINGS), head: HeadOption = None, output: OutputOption = OutputFormat.TABLE
) -> None:  # fmt: skip
    """Verify the journal of a node: the chain of its entries, and its own signature on each.

    The journal says what the node meant to do before it did it. Keep the head that is printed elsewhere, and give it with --head
    the next time: a journal whose end was cut off is found by that alone. The node may run meanwhile.

    Exit codes: 0 it holds, 2 an entry was altered, lost or added, or the kept head is not in it, 64 wrong input.

    Example: bytewise journal verify --config bytewise-watchtower/bytewise.toml --head 0x5f1c…
    """
    from bytewise.service.clock import SystemClock
    from bytewise.storage.journal import Journal, journal_key
    from cli.node.view import NodeView
    from kms.settings import ShardSettings

    kept = None if head is None else digest_argument("--head", head)
    view = NodeView(config)
    if isinstance(view.settings, ShardSettings):
        raise ConfigurationError(config.name, "is of a shard, whose release log takes the place of a journal")
    key = view.settings.db.journal_key_file
    if not key.exists():
        raise ConfigurationError(key.name, "is not there: the node writes it when it starts for the first time")
    try:
        found = Journal(view.database, journal_key(key), SystemClock()).verified(kept)
    except StoreCorrupt as error:
        Console(stderr=True).print(plain(str(error), "red"), soft_wrap=True)
        raise typer.Exit(Exit.MISMATCH) from None
    result = {"entries": found.entries, "head": hex0x(found.head), "newest_at": found.newest_at}
    emit(output, result, lambda: _print(found))


def _print(found: "VerifiedJournal") -> None:
    newest = f", the newest of {moment(found.newest_at)}" if found.entries else ""
    Console().print(plain(f"{found.entries} entries{newest}; head {hex0x(found.head)}"), soft_wrap=True)
