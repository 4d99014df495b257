"""What `bytewise key log verify` does at each shard, and with the chain: what fails at one hides nothing of another."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bytewise.protocol.address_book import Network, ShareHolder
from bytewise.protocol.errors.actors import ConfigurationError, ReleaseLogBroken, TryAgain
from bytewise.protocol.errors.branches import BytewiseError, Fault, Unavailable
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import SignedRelease
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import ZERO_ADDRESS
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise_client.connection import TIMEOUT_S
from chain.client.access import Chain
from chain.client.address_book import verify_code
from chain.client.rpc import OtherChain
from chain.reads.reader import SnapshotReader
from chain.reads.share_history import share_history
from kms.release_log.copies import ReleaseLogCopy, log_client, ordering_problems, page_reader
from kms.release_log.entitlement import RETRYABLE, AuditBlock, LogFindings, UnjudgedReason, judge_log, prefetch, unjudged_log
from kms.release_log.opening_report import CopiedLog, SharesHistory, releases_out_of_force, share_index, shares_history

_WORST_FIRST = (Exit.MISMATCH, Exit.USAGE, Exit.UNAVAILABLE, Exit.INCONCLUSIVE, Exit.OK)


class Looked(NamedTuple):
    """What was found at one shard."""

    kept: CopiedLog
    """What is kept of its log."""
    place: int
    """Its place among those who hold the newest shares that it had."""
    versions: list[int]
    """Of the shares that it has or had."""
    former: bool
    """Whether others have the shares now."""
    broken: list[str]
    """What is wrong with it, provably, whatever the chain says of its releases."""
    silent: str
    """Why it showed nothing, or not all; empty if it did."""
    unusable: str
    """What of our own, a copy or a setting, kept it from being looked at; empty if nothing did."""
    untold: list[int]
    """Versions of which it showed nothing, and the copy has not all."""
    judged: LogFindings
    """What the chain says of its releases; nothing if it was not asked."""

    @property
    def exits(self) -> set[Exit]:
        """All that it could end the verb with."""
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
    """Who had its shares."""
    reader: SnapshotReader | None = None
    """Who reads the chain that said so; None: the book said so."""
    failure: BytewiseError | None = None
    """Why the chain, though asked, said nothing."""


class Court(NamedTuple):
    """The chain as one run asks it."""

    judge: Callable[[Sequence[SignedRelease]], LogFindings]
    """Of the releases of one log."""
    failure: str = ""
    """Why it judges nothing; empty if it can, or if nobody asks."""
    exit: Exit = Exit.OK
    """What that alone ends the verb with."""


def known_of(book: Network, record: EpochRecord, client: Chain | None) -> Known:
    """Finds which shards held the shares of the epoch: from the chain, or from the address book without a client.

    `ConfigurationError` if chain and address book belong to different networks or give the epoch different assurance labels.
    Nothing is reported under a label that is in doubt.
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

    A different assurance label and a node on another chain are still errors: the address book itself may be wrong, and then no
    signature in a log would fit its shard.
    """
    try:
        return known_of(book, record, client)
    except (_LabelInDoubt, OtherChain):
        raise
    except (ConfigurationError, Fault, Unavailable) as error:
        return Known(shares_history(book, record), failure=error)


def look(book: Network, history: SharesHistory, holder: ShareHolder, copy: ReleaseLogCopy) -> Looked:
    """Adds what is new of a shard's log to the copy and finds what is wrong with it; what fails is in the answer."""
    broken, silent, unusable = [], "", ""
    entries: tuple[SignedRelease, ...] = ()
    last_read_at = 0
    try:
        _extend(holder, copy, book.epochs_domain)
    except ReleaseLogBroken as error:
        broken.append(str(error))
    except (ConfigurationError, OSError) as error:
        unusable = str(error)
    except (Fault, Unavailable) as error:
        silent = str(error)
    try:
        entries, _ = copy.read(book.epochs_domain)
        last_read_at = copy.last_read_at()
    except (ConfigurationError, OSError) as error:
        unusable = str(error)
    # What is broken has these among its problems, or a worse one.
    broken.extend([] if broken else ordering_problems(entries))
    broken.extend(releases_out_of_force(entries, history))
    return _looked(history, CopiedLog(holder.address, entries, last_read_at), broken, silent, unusable)


def court_of(known: Known, ahead: Chain | None = None, tell: Callable[[int], object] = lambda _: None) -> Court:
    """The newest block of the chain, read now; a court that judges nothing, and says why, if that fails.

    `ahead` is the same chain for reads that are fetched many at a time; `tell` is told how many entries of a log have theirs.
    """
    if known.failure is not None:
        return _absent(known.failure)
    if (reader := known.reader) is None:
        return Court(lambda _: LogFindings())
    try:
        block = reader.head()
        seen = AuditBlock(block, reader.snapshot(ZERO_ADDRESS, block).timestamp, SystemClock().now())
    except (Fault, Unavailable) as error:
        return _absent(error)
    if ahead is None:
        return Court(lambda entries: judge_log(entries, reader, seen))
    quick = SnapshotReader(ahead, reader.network)

    def judged_ahead(entries: Sequence[SignedRelease]) -> LogFindings:
        prefetch(entries, quick, seen, tell)
        return judge_log(entries, quick, seen)

    return Court(judged_ahead)


def judged(looked: Sequence[Looked], court: Court, told: Callable[[Looked], object]) -> list[Looked]:
    """The same with what the chain says of each, in this order; the longest log is judged last, and each is told when it is.

    Each release costs up to a dozen reads of the chain, and a shard can write as many as it likes.
    """
    found: dict[int, Looked] = {}
    for place in sorted(range(len(looked)), key=lambda place: len(looked[place].kept.entries)):
        found[place] = looked[place]._replace(judged=court.judge(looked[place].kept.entries))
        told(found[place])
    return [found[place] for place in range(len(looked))]


def worst(exits: Iterable[Exit]) -> Exit:
    """The exit code of a run: a proof goes before everything, and what only this machine can mend before what may pass."""
    found = set(exits)
    return next((each for each in _WORST_FIRST if each in found), Exit.OK)


class _LabelInDoubt(ConfigurationError):
    """Book and chain call a key epoch two things."""


def _extend(holder: ShareHolder, copy: ReleaseLogCopy, domain: Domain) -> None:
    if not holder.url:
        raise TryAgain("network.json", "it does not say where this log is; get the newest book")
    with log_client(holder) as client:
        copy.extend(page_reader(client, copy.epoch, TIMEOUT_S), domain)


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


def _absent(error: BytewiseError) -> Court:
    is_ours = isinstance(error, ConfigurationError)
    why, code = (UnjudgedReason.NOT_ASKED, Exit.USAGE) if is_ours else (UnjudgedReason.NO_ANSWER, Exit.UNAVAILABLE)
    return Court(lambda entries: unjudged_log(entries, why), str(error), code)
