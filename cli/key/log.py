"""`bytewise key log`: fetches and checks the release logs of the shards. Anybody can do this without trusting a shard."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import ZERO_DIGEST, Digest, hex0x
from bytewise.service.exit_codes import Exit
from cli.options import NETWORK_FILE, NetworkOption, ReceiptArgument, receipt_argument
from cli.output import OutputFormat, OutputOption, by_prefix, progress_bars

if TYPE_CHECKING:
    from bytewise.protocol.address_book import Network
    from bytewise.protocol.jobs import EpochRecord
    from chain.client.access import Chain
    from cli.key.log_audit import EpochHolders, ReleaseJudge, ShardLogAudit
    from kms.release_log.opening_report import CopiedLog, SharesHistory


LOGS = Path("release-logs")

LogsOption = Annotated[Path, typer.Option("--logs", help="Folder of your copies of the logs.", show_default=True)]
EpochOption = Annotated[int, typer.Option("--epoch", min=0, max=2**64 - 1, help="Key epoch; 0: the newest of the address book.")]
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


def verify(
    network: NetworkOption = NETWORK_FILE,
    epoch: EpochOption = 0,
    logs: LogsOption = LOGS,
    rpc: ChainOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Fetch the release log of every shard, check it, and keep what is new.

    Each log is compared with your earlier copy.

    The command also asks former shards, which had shares of the key before a reshare. Each record of a log is signed, names the
    previous record, and contains the ticket that the voter signed. Only an earlier copy shows that the end of a log was cut off,
    so run this command regularly. Your copy is never overwritten.

    Exit codes: 0 every log is complete, 2 a shard altered, cut off or contradicted its log or released without entitlement, 3 a
    release cannot be judged, or the releases of a former shard cannot be known, 5 a shard or the node does not answer, 64 wrong
    input, or a copy was altered. If several apply, 2 goes before 64, 64 before 5, and 5 before 3. The findings at each shard are
    printed.
    """
    from chain.client.address_book import read_network
    from cli.key.log_audit import audit_log, holders_or_booked, worst_exit
    from cli.key.log_table import print_found, print_progress
    from kms.release_log.copies import ReleaseLogCopy

    book = read_network(network)
    record, client = _epoch(book, epoch), _client(book, rpc)
    holders = holders_or_booked(book, record, client)
    audits, on_audited = [], print_progress if output is OutputFormat.TABLE else _print_nothing
    for each in holders.history.holders().values():
        audits.append(audit_log(book, holders.history, each, ReleaseLogCopy(logs, record.epoch, each.address)))
        on_audited(audits[-1])
    # The command asks the node after the shards, so that the node has every block that a shard had, unless the node is behind.
    judge, found = _judge_all(book, holders, audits, rpc, on_audited if rpc else _print_nothing)
    print_found(record, found, judge.failure, output)
    others = sorted({each.record.epoch for each in book.epochs} - {record.epoch})
    if others and not epoch:
        typer.echo(f"not looked at, for this is the newest key epoch: {others}; --epoch names one of them", err=True)
    raise typer.Exit(worst_exit([judge.exit, *(code for each in found for code in each.exits)]))


def show(
    receipt: ReceiptArgument,
    network: NetworkOption = NETWORK_FILE,
    epoch: EpochOption = 0,
    logs: LogsOption = LOGS,
    rpc: HoldersOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show who asked for the key of a receipt, when, why, and with which evidence.

    The command reads the copies that `bytewise key log verify` stores.
    A voter could open a receipt if enough shards with one version of the shares (the threshold) released partials to the voter,
    under one or several tickets. If only several voters together got enough partials, they would have to collude, and the command
    says so. In a rebuilt key epoch, a released share opens every receipt of the epoch. Without `--epoch`, the command takes the
    key epoch whose copies have a record of the receipt, or else the newest epoch.

    Exit codes: 0 shown, 3 these copies leave open whether the receipt was opened, 4 not opened and no record of this receipt,
    5 the node does not answer, 64 wrong input, or no copies: run `bytewise key log verify` first.
    """
    from bytewise.protocol.suites import is_rebuilt
    from chain.client.address_book import read_network
    from cli.key.log_audit import holders_of
    from cli.key.log_table import Subject, print_report
    from kms.release_log.opening_report import report_opening

    book = read_network(network)
    wanted = _receipt_named(book, logs, receipt)
    found, unread = _copies_with(book, logs, wanted)
    record = _epoch(book, epoch or found)
    history = holders_of(book, record, _client(book, rpc)).history
    report = report_opening(wanted, history, _read_copies(book, history, record.epoch, logs), is_rebuilt(record.epoch))
    print_report(wanted, Subject(record.epoch, record.assurance, history, bool(rpc)), report, output)
    elsewhere = unread if not (epoch or found) else []
    if elsewhere:
        do = "fetch their logs (`verify --epoch`), or name the receipt's own (its `keyEpoch`) by --epoch"
        typer.echo(f"cannot tell: the receipt may be of key epoch {elsewhere}, of which there is no copy; {do}", err=True)
    if report.is_unknown or elsewhere:
        raise typer.Exit(Exit.INCONCLUSIVE)
    raise typer.Exit(Exit.OK if report.records else Exit.NOT_FOUND)


_RECORDED = re.compile(rb'"receipt_id":"(0x[0-9a-f]{64})"')


def _receipt_named(book: "Network", logs: Path, text: str) -> Digest:
    """Returns the id of the receipt that a user typed in full or by its first digits. The function looks first digits up in the
    copies of the logs.

    Raises `ConfigurationError` if the text is no id, or if the first digits fit several receipts in the copies, or none.
    """
    from kms.release_log.copies import find_copies

    if len(text) == _IDENTIFIER_LENGTH:
        return receipt_argument(text)
    copies = [each.path for epoch in book.epochs for each in find_copies(logs, epoch.record.epoch) if each.path.is_file()]
    recorded = {found.decode() for path in copies for found in _RECORDED.findall(path.read_bytes())}
    name = by_prefix("RECEIPT_ID", text, recorded)
    if name is None:
        raise ConfigurationError("RECEIPT_ID", f"no copy has a record of a receipt that begins with {text}: give the id in full")
    return receipt_argument(name)


_IDENTIFIER_LENGTH = len(hex0x(ZERO_DIGEST))


def _copies_with(book: "Network", logs: Path, receipt: Digest) -> tuple[int, list[int]]:
    """Returns the newest key epoch whose copies mention a receipt, or 0 if no copy does. Also returns the key epochs without a
    copy.

    The function verifies nothing. It only finds out which copies the caller must read.
    """
    from kms.release_log.copies import find_copies

    unread: list[int] = []
    named, wanted = 0, hex0x(receipt).encode()
    for epoch in sorted(each.record.epoch for each in book.epochs):
        copies = [each for each in find_copies(logs, epoch) if each.path.is_file()]
        if any(wanted in each.path.read_bytes() for each in copies):
            named = epoch
        # Of a shard that released nothing, the folder only has the file with the time at which the log was read.
        if not copies and not any(logs.glob(f"releases-{epoch}-0x*.seen")):
            unread.append(epoch)
    return named, unread


def _read_copies(book: "Network", history: "SharesHistory", epoch: int, logs: Path) -> "list[CopiedLog]":
    """Reads the copies of the release logs of a key epoch: those of all shards that have or had shares, and all other copies in
    the folder. Raises `ConfigurationError` if no log of the epoch was ever fetched."""
    from kms.release_log.copies import ReleaseLogCopy, find_copies
    from kms.release_log.opening_report import CopiedLog

    others = (each.shard for each in find_copies(logs, epoch))
    copies = [ReleaseLogCopy(logs, epoch, shard) for shard in dict.fromkeys((*history.holders(), *others))]
    kept = [CopiedLog(each.shard, each.read(book.epochs_domain)[0], each.last_read_at()) for each in copies]
    if not any(each.last_read_at or each.entries for each in kept):
        do = "`bytewise key log verify` fetches them; --epoch names another"
        raise ConfigurationError(str(logs), f"has no log of key epoch {epoch}: {do}")
    return kept


def _judge_all(
    book: "Network",
    holders: "EpochHolders",
    audits: "Sequence[ShardLogAudit]",
    rpc: list[str] | None,
    on_audited: "Callable[[ShardLogAudit], None]",
) -> "tuple[ReleaseJudge, list[ShardLogAudit]]":
    """Judges the releases in each log by the chain. Returns the judge, and the audits with the judge's findings.

    The function shows a progress bar, because each release needs up to a dozen reads of the chain.
    """
    from bytewise_client.connection import read_ahead_of
    from cli.key.log_audit import judge_logs, judge_of

    batch_client, judged = read_ahead_of(rpc, book.chain_id) if rpc else None, 0
    with progress_bars() as bars:
        task = bars.add_task("judging releases", total=sum(len(each.copy.entries) for each in audits), visible=bool(rpc))

        def on_progress(done: int) -> None:
            bars.update(task, completed=judged + done)

        def on_judged(each: "ShardLogAudit") -> None:
            nonlocal judged
            judged += len(each.copy.entries)
            on_progress(0)
            on_audited(each)

        judge = judge_of(holders, batch_client, on_progress)
        return judge, judge_logs(audits, judge, on_judged)


def _print_nothing(_: "ShardLogAudit") -> None:
    """Prints no progress: the output is JSON, which is printed at the end, or the chain has judged nothing."""


def _client(book: "Network", rpc: list[str] | None) -> "Chain | None":
    from bytewise_client.connection import chain_of

    return chain_of(rpc, book.chain_id) if rpc else None


def _epoch(book: "Network", number: int) -> "EpochRecord":
    """Returns a key epoch of the address book by its number. The number 0 stands for the newest epoch."""
    records = {document.record.epoch: document.record for document in book.epochs}
    if not records:
        raise ConfigurationError("network.json", "has no key epoch yet: `bytewise key list` shows the chain's")
    if number and number not in records:
        raise ConfigurationError("network.json", f"has no key epoch {number}; it has {sorted(records)}")
    return records[number or max(records)]  # type: ignore[index]
