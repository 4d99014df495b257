"""`bytewise kms log`: what the shards released, fetched and checked by anybody, trusting none of them."""

from pathlib import Path
from typing import Annotated

import typer

from bytewise.cli.connect import NETWORK_FILE, TIMEOUT_S, NetworkOption, ReceiptArgument, address_book, chain_of, receipt_argument
from bytewise.cli.exits import Exit
from bytewise.cli.key_log_table import Looked, print_found, print_story, told
from bytewise.cli.verify import Output, OutputOption
from bytewise.protocol.errors import ConfigurationError, Fault, ReleaseLogBroken, Unavailable
from bytewise.protocol.jobs import EpochRecord, ShardRecord
from bytewise.protocol.network import Network
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import ZERO_ADDRESS
from chain.book import verify_code
from chain.reader import DocketReader
from kms.log_copy import LogCopy, client_of, pages_of
from kms.log_rights import without_right

app = typer.Typer(no_args_is_help=True, help="Who opened which receipt, when, why, and under which evidence.")

LOGS = Path("release-logs")

LogsOption = Annotated[Path, typer.Option("--logs", help="Folder of your copies of the logs.", show_default=True)]
EpochOption = Annotated[int, typer.Option("--epoch", min=0, help="Key epoch; 0: the newest of the address book.")]
ChainOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rpc",
        help="Also ask this node whether every ticket was a right: a seat in its dispute, or a drawn audit; repeat it, and most "
        "must agree.",
    ),
]


@app.command()
def verify(
    network: NetworkOption = NETWORK_FILE,
    epoch: EpochOption = 0,
    logs: LogsOption = LOGS,
    rpc: ChainOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Fetch the release log of every shard, check it, hold it against your copy of last time, and keep what is new.

    A log proves itself: every record is signed, names the one before, and comes with the ticket that the voter signed. That its
    end was cut off shows only to who kept a copy: run this regularly. Nothing that a shard shows replaces what you have.

    Exit codes: 0 every log is whole, 2 a shard altered, cut off or contradicted its log or released without a right, 5 a shard or
    the node does not answer, 64 asked wrongly.
    """
    book = address_book(network)
    record, court = _epoch(book, epoch), _court(book, rpc)
    label = _label(record, court)
    found = [_look(book, record.epoch, shard, logs, court) for shard in record.shards]
    print_found(record.epoch, label, found, output)
    if any(each.broken for each in found):
        raise typer.Exit(Exit.MISMATCH)
    raise typer.Exit(Exit.UNAVAILABLE if any(each.silent for each in found) else Exit.OK)


@app.command()
def show(
    receipt: ReceiptArgument,
    network: NetworkOption = NETWORK_FILE,
    epoch: EpochOption = 0,
    logs: LogsOption = LOGS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Tell who asked for the key of a receipt, when, why, and under which evidence, from the copies that `verify` keeps.

    A seat opened a receipt if as many shards as the threshold released to it, under one ticket or under several of its own. Where
    shards released to several seats that many together, it says so: they would have to collude. In a key epoch whose key
    enclaves rebuild, a share opens every receipt, whichever it was released for.

    Exit codes: 0 shown, 4 no record of this receipt, 64 asked wrongly, or no copies: run `bytewise kms log verify` first.
    """
    book, wanted = address_book(network), receipt_argument(receipt)
    record = _epoch(book, epoch)
    copies = [(shard, LogCopy(logs, record.epoch, shard.address)) for shard in record.shards]
    if not any(copy.path.exists() for _, copy in copies):
        raise ConfigurationError(str(logs), f"has no log of key epoch {record.epoch}: `bytewise kms log verify` fetches them")
    entries = [(shard, each) for shard, copy in copies for each in copy.read(book.epochs_domain)[0]]
    entries.sort(key=lambda entry: (entry[1].record.decided_at, entry[0].index))
    story = [told(shard, each) for shard, each in entries if each.record.receipt_id == wanted]
    good = [told(shard, each) for shard, each in entries] if is_rebuilt(record.epoch) else story
    print_story(wanted, record, story, good, output)
    raise typer.Exit(Exit.OK if story else Exit.NOT_FOUND)


def _look(book: Network, epoch: int, shard: ShardRecord, logs: Path, court: tuple[DocketReader, int, int] | None) -> Looked:
    copy, domain = LogCopy(logs, epoch, shard.address), book.epochs_domain
    broken, silent = [], ""
    try:
        with client_of(shard, TIMEOUT_S) as client:
            copy.extend(pages_of(client, epoch), domain)
    except ReleaseLogBroken as error:
        broken.append(str(error))
    except (Fault, Unavailable) as error:
        silent = str(error)
    entries, _ = copy.read(domain)
    if court is not None:
        broken.extend(without_right(entries, *court))
    return Looked(shard, entries, broken, silent)


def _court(book: Network, rpc: list[str] | None) -> tuple[DocketReader, int, int] | None:
    if not rpc:
        return None
    client = chain_of(rpc, book.chain_id)
    reader = DocketReader(client, verify_code(client, book))
    block = reader.head()
    return reader, block, reader.docket(ZERO_ADDRESS, block).timestamp


def _label(record: EpochRecord, court: tuple[DocketReader, int, int] | None) -> str:
    """What the address book calls the epoch; `ConfigurationError` if a chain was given that calls it something else."""
    if court is not None:
        reader, block, _ = court
        on_chain = reader.epoch_on_chain(record.epoch, block).assurance
        if on_chain != record.assurance:
            said = f"{record.assurance} in the book, {on_chain or 'missing'} on the chain"
            raise ConfigurationError("network.json", f"key epoch {record.epoch} is {said}: get the new book")
    return record.assurance


def _epoch(book: Network, number: int) -> EpochRecord:
    records = {document.record.epoch: document.record for document in book.epochs}
    if not records or (number and number not in records):
        raise ConfigurationError("network.json", f"has no key epoch {number or ''}; it has {sorted(records)}")
    return records[number or max(records)]  # type: ignore[index]
