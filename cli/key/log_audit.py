"""The checks of `bytewise key log verify` at each shard and on the chain. A failure at one shard does not hide findings at
another."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bytewise.protocol.address_book import Network, ShareHolder
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import BytewiseError, Fault, Unavailable
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import SignedRelease
from bytewise.protocol.units import ZERO_ADDRESS
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise_client.connection import TIMEOUT_S
from chain.client.access import Chain
from chain.client.address_book import verify_code
from chain.client.rpc import OtherChain
from chain.reads.reader import SnapshotReader
from chain.reads.share_history import share_history
from kms.release_log.copies import ReleaseLogCopy, read_log
from kms.release_log.entitlement import RETRYABLE, AuditBlock, LogFindings, UnjudgedReason, judge_log, prefetch, unjudged_log
from kms.release_log.opening_report import CopiedLog, SharesHistory, releases_out_of_force, share_index, shares_history

_WORST_FIRST = (Exit.MISMATCH, Exit.USAGE, Exit.UNAVAILABLE, Exit.INCONCLUSIVE, Exit.OK)


class Looked(NamedTuple):
    """Findings at one shard."""

    kept: CopiedLog
    """The stored copy of its log."""
    place: int
    """Its index among the holders of the newest shares that it had."""
    versions: list[int]
    """Versions of the shares that it has or had."""
    former: bool
    """Whether other shards have the shares now."""
    broken: list[str]
    """Provable faults of the log that do not depend on the chain."""
    silent: str
    """Why the shard did not show its whole log; empty if it did."""
    unusable: str
    """Error of this machine, in a copy or setting, that prevented the check; empty if there was none."""
    untold: list[int]
    """Versions whose releases are unknown: the shard did not show its log, and the copy is not complete for them."""
    judged: LogFindings
    """Findings about its releases by the chain; empty if the chain was not asked."""

    @property
    def exits(self) -> set[Exit]:
        """Every exit code that these findings can cause."""
        codes = {Exit.MISMATCH} if self.broken or self.judged.wrong else {Exit.OK}
        if self.unusable:
            codes.add(Exit.USAGE)
        if (self.silent and not self.former) or RETRYABLE & self.judged.unjudged.keys():
            codes.add(Exit.UNAVAILABLE)
        if self.untold or self.judged.unjudged.keys() - RETRYABLE:
            codes.add(Exit.INCONCLUSIVE)
        return codes


class Known(NamedTuple):
    """A key epoch as the chain has it, or the address book."""

    history: SharesHistory
    """The holders of its shares."""
    reader: SnapshotReader | None = None
    """Reader of the chain that gave the holders; None if the address book gave them."""
    failure: BytewiseError | None = None
    """Error of the chain if it was asked and failed."""


class Court(NamedTuple):
    """The chain as judge of releases, for one run."""

    judge: Callable[[Sequence[SignedRelease]], LogFindings]
    """Judges the releases of one log."""
    failure: str = ""
    """Why nothing is judged; empty if the chain is available, or is not asked."""
    exit: Exit = Exit.OK
    """Exit code for that reason."""


def known_of(book: Network, record: EpochRecord, client: Chain | None) -> Known:
    """Finds which shards held the shares of the epoch: from the chain, or from the address book without a client.

    `ConfigurationError` if chain and address book belong to different networks or give the epoch different assurance labels.
    With different labels, nothing is reported.
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
    """As `known_of`, but from the address book, with the failure as reason, if the chain cannot be read.

    A different assurance label and a node on another chain are still errors: the address book itself may be wrong, and then the
    signatures in a log would not match its shards.
    """
    try:
        return known_of(book, record, client)
    except (_LabelInDoubt, OtherChain):
        raise
    except (ConfigurationError, Fault, Unavailable) as error:
        return Known(shares_history(book, record), failure=error)


def look(book: Network, history: SharesHistory, holder: ShareHolder, copy: ReleaseLogCopy) -> Looked:
    """Adds the new records of a shard's log to the copy and checks the log. Errors are part of the result."""
    read = read_log(holder, copy, book.epochs_domain, TIMEOUT_S)
    broken = [*read.broken, *releases_out_of_force(read.entries, history)]
    return _looked(history, CopiedLog(holder.address, read.entries, read.last_read_at), broken, read.silent, read.unusable)


def court_of(known: Known, ahead: Chain | None = None, tell: Callable[[int], object] = lambda _: None) -> Court:
    """Reads the newest block of the chain, at which releases are judged. If that fails, the result judges nothing and has the
    reason.

    `ahead`: a client of the same chain for reads in batches. `tell`: called with the number of entries of a log whose reads are
    complete.
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
    """Adds the chain's judgement to each log and returns them in the same order. The longest log is judged last; `told` is called
    after each.

    Each release costs up to a dozen reads of the chain, and a shard can write as many as it likes.
    """
    found: dict[int, Looked] = {}
    for place in sorted(range(len(looked)), key=lambda place: len(looked[place].kept.entries)):
        found[place] = looked[place]._replace(judged=court.judge(looked[place].kept.entries))
        told(found[place])
    return [found[place] for place in range(len(looked))]


def worst(exits: Iterable[Exit]) -> Exit:
    """The exit code of a run: first a proof against a shard, then errors of this machine, then errors that may pass."""
    found = set(exits)
    return next((each for each in _WORST_FIRST if each in found), Exit.OK)


class _LabelInDoubt(ConfigurationError):
    """Address book and chain have different labels for a key epoch."""


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
