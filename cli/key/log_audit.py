"""The checks of `bytewise key log verify`: the command reads the log of each shard, and judges the releases in the log by the
chain. An error at one shard does not hide findings at another shard."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bytewise.protocol.address_book import Network, ShareHolder
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import BytewiseError, Fault, Unavailable
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.release_log import SignedRelease
from bytewise.protocol.units import ZERO_ADDRESS
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise_client.connection import TIMEOUT_S
from chain.client.access import Chain
from chain.client.address_book import verify_code
from chain.client.rpc import OtherChain
from chain.reads.key_epochs import share_history
from chain.reads.reader import SnapshotReader
from kms.release_log.copies import ReleaseLogCopy, read_log
from kms.release_log.entitlement import RETRYABLE, AuditBlock, LogFindings, UnjudgedReason, judge_log, prefetch, unjudged_log
from kms.release_log.opening_report import CopiedLog, SharesHistory, releases_out_of_force, share_index, shares_history

_WORST_FIRST = (Exit.MISMATCH, Exit.USAGE, Exit.UNAVAILABLE, Exit.INCONCLUSIVE, Exit.OK)


class ShardLogAudit(NamedTuple):
    """The findings about the release log of one shard."""

    copy: CopiedLog
    """The stored copy of the shard's log."""
    place: int
    """The shard's index among the holders of the newest shares that it had."""
    versions: list[int]
    """Versions of the shares that the shard has or had."""
    former: bool
    """True if the shard has no share of the version in force."""
    broken: list[str]
    """Provable faults of the log that do not depend on the chain."""
    silent: str
    """Reason why the shard did not show its whole log. Empty if it did."""
    unusable: str
    """Error on this machine, in a copy or a setting, that prevented the check. Empty if there was none."""
    unknown_versions: list[int]
    """Versions whose releases are unknown, because the shard did not show its log and the copy is not complete for them."""
    findings: LogFindings
    """Findings of the judge about the shard's releases. Empty if the chain was not asked."""

    @property
    def exits(self) -> set[Exit]:
        """The exit codes that follow from these findings."""
        codes = {Exit.MISMATCH} if self.broken or self.findings.wrong else {Exit.OK}
        if self.unusable:
            codes.add(Exit.USAGE)
        if (self.silent and not self.former) or RETRYABLE & self.findings.unjudged.keys():
            codes.add(Exit.UNAVAILABLE)
        if self.unknown_versions or self.findings.unjudged.keys() - RETRYABLE:
            codes.add(Exit.INCONCLUSIVE)
        return codes


class EpochHolders(NamedTuple):
    """The shards that have or had shares of a key epoch, from the chain or from the address book."""

    history: SharesHistory
    """The holders of each version of the epoch's shares."""
    reader: SnapshotReader | None = None
    """Reader of the chain from which the holders come. None if they come from the address book."""
    failure: BytewiseError | None = None
    """Error that prevented reading the chain. None if the chain was read or not asked."""


class ReleaseJudge(NamedTuple):
    """The judge of the releases for one run of the command. It judges by the chain at one block. If the chain is not asked, it
    finds nothing."""

    judge: Callable[[Sequence[SignedRelease]], LogFindings]
    """Function that judges the releases of one log."""
    failure: str = ""
    """Reason why no release can be judged. Empty if the chain can be read, or is not asked."""
    exit: Exit = Exit.OK
    """Exit code that follows from `failure`."""


def holders_of(book: Network, record: EpochRecord, client: Chain | None) -> EpochHolders:
    """Finds the shards that have or had shares of the key epoch. The function asks the chain, or reads the address book if
    `client` is None.

    Raises `ConfigurationError` if the chain is of another network than the address book, or lacks the epoch, or gives the epoch
    another assurance label than the address book.
    """
    if client is None:
        return EpochHolders(shares_history(book, record))
    reader = SnapshotReader(client, verify_code(client, book))
    block = reader.head()
    on_chain, found = reader.epoch_on_chain(record.epoch, block).assurance, share_history(client, book, record.epoch, block)
    if on_chain != record.assurance:
        said = f"{record.assurance} in the book, {on_chain or 'missing'} on the chain"
        raise _LabelInDoubt("network.json", f"key epoch {record.epoch} is {said}: get the new book")
    if not found:
        raise ConfigurationError("network.json", f"has key epoch {record.epoch}, which this chain does not have")
    return EpochHolders(SharesHistory(found), reader)


def holders_or_booked(book: Network, record: EpochRecord, client: Chain | None) -> EpochHolders:
    """Finds the holders of shares like `holders_of`. If the chain cannot be read, takes them from the address book, and puts the
    error into the result.

    If the assurance label differs, or if the node is on another chain, the function still raises the error. In these cases the
    address book itself may be wrong, and then the signatures in a log would not match the shards of the address book.
    """
    try:
        return holders_of(book, record, client)
    except (_LabelInDoubt, OtherChain):
        raise
    except (ConfigurationError, Fault, Unavailable) as error:
        return EpochHolders(shares_history(book, record), failure=error)


def audit_log(book: Network, history: SharesHistory, holder: ShareHolder, copy: ReleaseLogCopy) -> ShardLogAudit:
    """Fetches the new records of a shard's release log, adds them to the copy, and checks the log. Does not raise errors, but
    returns them in the result. `holder` is the shard."""
    read = read_log(holder, copy, book.epochs_domain, TIMEOUT_S)
    broken = [*read.broken, *releases_out_of_force(read.entries, history)]
    return _log_audit(history, CopiedLog(holder.address, read.entries, read.last_read_at), broken, read.silent, read.unusable)


def judge_of(
    holders: EpochHolders, batch_client: Chain | None = None, on_progress: Callable[[int], object] = lambda _: None
) -> ReleaseJudge:
    """Returns the judge of releases, at the newest block of the chain. If that block cannot be read, the judge judges no release
    and has the reason.

    `batch_client` is a client of the same chain for reads in batches, or None. `on_progress` shows the progress while the chain
    is read for a log. Its argument is the number of entries for which all reads of the chain are done.
    """
    if holders.failure is not None:
        return _judge_without_chain(holders.failure)
    if (reader := holders.reader) is None:
        return ReleaseJudge(lambda _: LogFindings())
    try:
        block = reader.head()
        seen = AuditBlock(block, reader.snapshot(ZERO_ADDRESS, block).timestamp, SystemClock().now())
    except (Fault, Unavailable) as error:
        return _judge_without_chain(error)
    if batch_client is None:
        return ReleaseJudge(lambda entries: judge_log(entries, reader, seen))
    batch_reader = SnapshotReader(batch_client, reader.network)

    def judge_in_batches(entries: Sequence[SignedRelease]) -> LogFindings:
        prefetch(entries, batch_reader, seen, on_progress)
        return judge_log(entries, batch_reader, seen)

    return ReleaseJudge(judge_in_batches)


def judge_logs(
    audits: Sequence[ShardLogAudit], judge: ReleaseJudge, on_judged: Callable[[ShardLogAudit], object]
) -> list[ShardLogAudit]:
    """Adds the judge's findings to each audit, and returns the audits in the same order. Calls `on_judged` after each log.

    The longest log is judged last, because each release costs up to a dozen reads of the chain, and a shard can write any number
    of releases.
    """
    found: dict[int, ShardLogAudit] = {}
    for place in sorted(range(len(audits)), key=lambda place: len(audits[place].copy.entries)):
        found[place] = audits[place]._replace(findings=judge.judge(audits[place].copy.entries))
        on_judged(found[place])
    return [found[place] for place in range(len(audits))]


def worst_exit(exits: Iterable[Exit]) -> Exit:
    """Returns the worst of several exit codes, or `Exit.OK` if there are none. The worst code stands for a proof against a shard.
    Then come errors on this machine, then errors that may pass, then questions that stay open."""
    found = set(exits)
    return next((each for each in _WORST_FIRST if each in found), Exit.OK)


class _LabelInDoubt(ConfigurationError):
    """The address book and the chain have different assurance labels for a key epoch."""


def _log_audit(history: SharesHistory, copy: CopiedLog, broken: list[str], silent: str, unusable: str) -> ShardLogAudit:
    held = [each for each in history.versions if share_index(copy.shard, each)]
    gaps = [each.version for each in held if silent and not history.is_whole(each, copy.last_read_at, copy.newest)]
    return ShardLogAudit(
        copy=copy,
        place=share_index(copy.shard, held[-1]),
        versions=[each.version for each in held],
        former=held[-1] is not history.current,
        broken=broken,
        silent=silent,
        unusable=unusable,
        unknown_versions=gaps,
        findings=LogFindings(),
    )


def _judge_without_chain(error: BytewiseError) -> ReleaseJudge:
    is_local = isinstance(error, ConfigurationError)
    why, code = (UnjudgedReason.NOT_ASKED, Exit.USAGE) if is_local else (UnjudgedReason.NO_ANSWER, Exit.UNAVAILABLE)
    return ReleaseJudge(lambda entries: unjudged_log(entries, why), str(error), code)
