"""`bytewise kms log`: what the shards released, fetched and checked by anybody, trusting none of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from bytewise.cli.connect import NETWORK_FILE, TIMEOUT_S, NetworkOption, ReceiptArgument, address_book, chain_of, receipt_argument
from bytewise.cli.exits import Exit
from bytewise.cli.key_log_table import Looked, Subject, looked, print_found, print_story
from bytewise.cli.verify import Output, OutputOption
from bytewise.protocol.errors import ConfigurationError, Fault, ReleaseLogBroken, TryAgain, Unavailable
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.network import Holder, Network
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import ZERO_ADDRESS
from chain.book import verify_code
from chain.dealings import dealings
from chain.reader import DocketReader
from kms.log_copy import LogCopy, client_of, copies_in, pages_of
from kms.log_holders import SharesHistory, history_in, out_of_force
from kms.log_rights import Judged, judge
from kms.log_story import Kept, story_of

app = typer.Typer(no_args_is_help=True, help="Who opened which receipt, when, why, and under which evidence.")

LOGS = Path("release-logs")

LogsOption = Annotated[Path, typer.Option("--logs", help="Folder of your copies of the logs.", show_default=True)]
EpochOption = Annotated[int, typer.Option("--epoch", min=0, help="Key epoch; 0: the newest of the address book.")]
ChainOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rpc",
        help="Also ask this node who had the shares when, and whether every ticket was a right when it was used: a seat in its "
        "dispute, or a drawn audit; repeat it, and most must agree. Needs an archive node for the past.",
    ),
]
HoldersOption = Annotated[
    list[str] | None,
    typer.Option("--rpc", help="Ask this node, not the address book, who had the shares when; repeat it, and most must agree."),
]


class Court(NamedTuple):
    """The chain as a verb asks it."""

    reader: DocketReader
    block: int
    timestamp: int


@app.command()
def verify(
    network: NetworkOption = NETWORK_FILE,
    epoch: EpochOption = 0,
    logs: LogsOption = LOGS,
    rpc: ChainOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Fetch the release log of every shard, check it, hold it against your copy of last time, and keep what is new.

    Also of shards that had shares of the key before they were dealt again. A log proves itself: every record is signed, names the
    one before, and comes with the ticket that the voter signed. That its end was cut off shows only to who kept a copy: run this
    regularly. Nothing that a shard shows replaces what you have.

    Exit codes: 0 every log is whole, 2 a shard altered, cut off or contradicted its log or released without a right, 3 what a
    shard released that has no share any more cannot be told, 5 a shard or the node does not answer, 64 asked wrongly.
    """
    book = address_book(network)
    record, court = _epoch(book, epoch), _court(book, rpc)
    label, history = _label(record, court), _history(book, record, court)
    found = [_look(book, history, each, LogCopy(logs, record.epoch, each.address), court) for each in history.holders().values()]
    print_found(record.epoch, label, found, output)
    if any(each.broken for each in found):
        raise typer.Exit(Exit.MISMATCH)
    if any(each.silent and not each.former for each in found):
        raise typer.Exit(Exit.UNAVAILABLE)
    raise typer.Exit(Exit.INCONCLUSIVE if any(each.untold for each in found) else Exit.OK)


@app.command()
def show(
    receipt: ReceiptArgument,
    network: NetworkOption = NETWORK_FILE,
    epoch: EpochOption = 0,
    logs: LogsOption = LOGS,
    rpc: HoldersOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Tell who asked for the key of a receipt, when, why, and under which evidence, from the copies that `verify` keeps.

    A seat opened a receipt if as many holders of one version of the shares as open with them released to it, under one ticket or
    under several of its own. Where shards released to several seats that many together, it says so: they would have to collude.
    In a key epoch whose key enclaves rebuild, a share opens every receipt, whichever it was released for.

    Exit codes: 0 shown, 3 whether it was opened cannot be told from these copies, 4 not opened and no record of this receipt,
    5 the node does not answer, 64 asked wrongly, or no copies: run `bytewise kms log verify` first.
    """
    book, wanted = address_book(network), receipt_argument(receipt)
    record = _epoch(book, epoch)
    court = _court(book, rpc)
    label, history = _label(record, court), _history(book, record, court)
    kept = list(_kept(book, history, record.epoch, logs))
    if not any(each.seen_at or each.entries for each in kept):
        raise ConfigurationError(str(logs), f"has no log of key epoch {record.epoch}: `bytewise kms log verify` fetches them")
    story = story_of(wanted, history, kept, is_rebuilt(record.epoch))
    print_story(wanted, Subject(record.epoch, label, history, bool(rpc)), story, output)
    if story.untold:
        raise typer.Exit(Exit.INCONCLUSIVE)
    raise typer.Exit(Exit.OK if story.records else Exit.NOT_FOUND)


def _look(book: Network, history: SharesHistory, holder: Holder, copy: LogCopy, court: Court | None) -> Looked:
    domain, broken, silent = book.epochs_domain, [], ""
    try:
        if not holder.url:
            raise TryAgain("network.json", "it does not say where this log is; get the newest book")
        with client_of(holder, TIMEOUT_S) as client:
            copy.extend(pages_of(client, copy.epoch), domain)
    except ReleaseLogBroken as error:
        broken.append(str(error))
    except (Fault, Unavailable) as error:
        silent = str(error)
    entries, _ = copy.read(domain)
    broken.extend(out_of_force(entries, history))
    judged = Judged([], []) if court is None else judge(entries, *court)
    kept = Kept(holder.address, entries, copy.seen_at())
    return looked(history, kept, [*broken, *judged.wrong], silent, judged.undated)


def _kept(book: Network, history: SharesHistory, epoch: int, logs: Path) -> Iterator[Kept]:
    """Copies of everybody who had shares, and of whoever else there is a copy."""
    strangers = (each.shard for each in copies_in(logs, epoch))
    for shard in dict.fromkeys((*history.holders(), *strangers)):
        copy = LogCopy(logs, epoch, shard)
        yield Kept(shard, copy.read(book.epochs_domain)[0], copy.seen_at())


def _history(book: Network, record: EpochRecord, court: Court | None) -> SharesHistory:
    if court is None:
        return history_in(book, record)
    found = dealings(court.reader.client, book, record.epoch, court.block)
    if not found:
        raise ConfigurationError("network.json", f"has key epoch {record.epoch}, which this chain does not have")
    return SharesHistory(found)


def _court(book: Network, rpc: list[str] | None) -> Court | None:
    if not rpc:
        return None
    client = chain_of(rpc, book.chain_id)
    reader = DocketReader(client, verify_code(client, book))
    block = reader.head()
    return Court(reader, block, reader.docket(ZERO_ADDRESS, block).timestamp)


def _label(record: EpochRecord, court: Court | None) -> str:
    """What the address book calls the epoch; `ConfigurationError` if a chain was given that calls it something else."""
    if court is not None:
        on_chain = court.reader.epoch_on_chain(record.epoch, court.block).assurance
        if on_chain != record.assurance:
            said = f"{record.assurance} in the book, {on_chain or 'missing'} on the chain"
            raise ConfigurationError("network.json", f"key epoch {record.epoch} is {said}: get the new book")
    return record.assurance


def _epoch(book: Network, number: int) -> EpochRecord:
    records = {document.record.epoch: document.record for document in book.epochs}
    if not records or (number and number not in records):
        raise ConfigurationError("network.json", f"has no key epoch {number or ''}; it has {sorted(records)}")
    return records[number or max(records)]  # type: ignore[index]
