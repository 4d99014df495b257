"""The checks of `bytewise key log verify`: it reads the log of each shard, and judges the releases by the chain. An error at one
shard does not hide findings at another shard."""

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


class Looked(NamedTuple):
    """The findings about the release log of one shard."""

    kept: CopiedLog
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
    """Error of this machine, in a copy or setting, that prevented the check. Empty if there was none."""
    untold: list[int]
    """Versions whose releases are unknown, because the shard did not show its log and the copy is not complete for them."""
    judged: LogFindings
    """Findings of the chain about the shard's releases. Empty if the chain was not asked."""

    @property
    def exits(self) -> set[Exit]:
        """The exit codes that follow from these findings."""
        codes = {Exit.MISMATCH} if self.broken or self.judged.wrong else {Exit.OK}
        if self.unusable:
            codes.add(Exit.USAGE)
        if (self.silent and not self.former) or RETRYABLE & self.judged.unjudged.keys():
            codes.add(Exit.UNAVAILABLE)
        if self.untold or self.judged.unjudged.keys() - RETRYABLE:
            codes.add(Exit.INCONCLUSIVE)
        return codes


class Known(NamedTuple):
    """The shards that have or had shares of a key epoch, from the chain or from the address book."""

    history: SharesHistory
    """The holders of each version of the epoch's shares."""
    reader: SnapshotReader | None = None
    """Reader of the chain from which the holders come. None if they come from the address book."""
    failure: BytewiseError | None = None
    """Error of the chain if it was asked and could not be read. None otherwise."""


class Court(NamedTuple):
    """The judge of releases for one run of the command: the chain at one block, or nothing if the chain is not asked."""

    judge: Callable[[Sequence[SignedRelease]], LogFindings]
    """Function that judges the releases of one log."""
    failure: str = ""
    """Reason why no release can be judged. Empty if the chain can be read, or is not asked."""
    exit: Exit = Exit.OK
    """Exit code that follows from `failure`."""


def known_of(book: Network, record: EpochRecord, client: Chain | None) -> Known:
    """Finds which shards have or had shares of the key epoch. It asks the chain, or reads the address book if `client` is None.

    Raises `ConfigurationError` if the chain is of another network than the address book, or lacks the epoch, or gives the epoch
    another assurance label than the address book.
    """
    if client is None:
        return Known(shares_history(book, record))
    reader = SnapshotReader(client, verify_code(client, book))
    block = reader.head()
    on_chain, found = reader.epoch_on_chain(record.epoch, block).assurance, share_history(client, book, record.epoch, block)
    if on_chain != record.assurance:
        said = f"{record.assurance} in the book, {on_chain or 'missing'} on the chain"
        raise _LabelInDoubt("network.json", f"key epoch {record.epoch} is {said}: get the new book")
    if not found:
        raise ConfigurationError("network.json", f"has key epoch {record.epoch}, which this chain does not have")
    return Known(SharesHistory(found), reader)


def known_or_booked(book: Network, record: EpochRecord, client: Chain | None) -> Known:
    """Finds the holders of shares like `known_of`, but takes them from the address book if the chain cannot be read. The result
    then has the error of the chain.

    A different assurance label, or a node on another chain, still raises an error. In these cases the address book itself may be
    wrong, and then the signatures in a log would not match the shards of the address book.
    """
    try:
        return known_of(book, record, client)
    except (_LabelInDoubt, OtherChain):
        raise
    except (ConfigurationError, Fault, Unavailable) as error:
        return Known(shares_history(book, record), failure=error)


def look(book: Network, history: SharesHistory, holder: ShareHolder, copy: ReleaseLogCopy) -> Looked:
    """Fetches the new records of a shard's release log, adds them to the copy, and checks the log. Errors are part of the result
    and are not raised. `holder` is the shard."""
    read = read_log(holder, copy, book.epochs_domain, TIMEOUT_S)
    broken = [*read.broken, *releases_out_of_force(read.entries, history)]
    return _looked(history, CopiedLog(holder.address, read.entries, read.last_read_at), broken, read.silent, read.unusable)


def court_of(known: Known, ahead: Chain | None = None, tell: Callable[[int], object] = lambda _: None) -> Court:
    """Returns the judge of releases, at the newest block of the chain. If the block cannot be read, the result judges nothing and
    has the reason.

    `ahead` is a client of the same chain for reads in batches, or None. `tell` shows the progress while a log is read. Its
    argument is the number of entries for which all reads of the chain are done.
    """
    if known.failure is not None:
        return _without_chain(known.failure)
    if (reader := known.reader) is None:
        return Court(lambda _: LogFindings())
    try:
        block = reader.head()
        seen = AuditBlock(block, reader.snapshot(ZERO_ADDRESS, block).timestamp, SystemClock().now())
    except (Fault, Unavailable) as error:
        return _without_chain(error)
    if ahead is None:
        return Court(lambda entries: judge_log(entries, reader, seen))
    quick = SnapshotReader(ahead, reader.network)

    def judged_ahead(entries: Sequence[SignedRelease]) -> LogFindings:
        prefetch(entries, quick, seen, tell)
        return judge_log(entries, quick, seen)

    return Court(judged_ahead)


def judged(looked: Sequence[Looked], court: Court, told: Callable[[Looked], object]) -> list[Looked]:
    """Adds the chain's findings to each log, and returns the logs in the same order. `told` is called after each log.

    The longest log is judged last, because each release costs up to a dozen reads of the chain, and a shard can write as many
    releases as it likes.
    """
    found: dict[int, Looked] = {}
    for place in sorted(range(len(looked)), key=lambda place: len(looked[place].kept.entries)):
        found[place] = looked[place]._replace(judged=court.judge(looked[place].kept.entries))
        told(found[place])
    return [found[place] for place in range(len(looked))]


def worst(exits: Iterable[Exit]) -> Exit:
    """Returns the worst of several exit codes. A proof against a shard comes first, then errors of this machine, then errors that
    may pass. Returns `Exit.OK` if there are none."""
    found = set(exits)
    return next((each for each in _WORST_FIRST if each in found), Exit.OK)


class _LabelInDoubt(ConfigurationError):
    """Error: the address book and the chain have different assurance labels for a key epoch."""


def _looked(history: SharesHistory, kept: CopiedLog, broken: list[str], silent: str, unusable: str) -> Looked:
    held = [each for each in history.versions if share_index(kept.shard, each)]
    gaps = [each.version for each in held if silent and not history.is_whole(each, kept.last_read_at, kept.newest)]
    return Looked(
        kept=kept,
        place=share_index(kept.shard, held[-1]),
        versions=[each.version for each in held],
        former=held[-1] is not history.current,
        broken=broken,
        silent=silent,
        unusable=unusable,
        untold=gaps,
        judged=LogFindings(),
    )


def _without_chain(error: BytewiseError) -> Court:
    is_ours = isinstance(error, ConfigurationError)
    why, code = (UnjudgedReason.NOT_ASKED, Exit.USAGE) if is_ours else (UnjudgedReason.NO_ANSWER, Exit.UNAVAILABLE)
    return Court(lambda entries: unjudged_log(entries, why), str(error), code)
