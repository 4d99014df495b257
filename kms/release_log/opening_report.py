"""Reports which voters could open a receipt. It counts in the copies of release logs how many partials each voter got of each
version of the shares.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bytewise.protocol.address_book import DealtShares, Network, ShareHolder, share_holder
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import RELEASES
from bytewise.protocol.keys.release_log import LAG_S, SignedRelease
from bytewise.protocol.records.statements import Release
from bytewise.protocol.units import U64, Address, Digest

LATE_S = 3600
"""Most seconds from a record's date to the time at which the shard wrote it. A shard dates a record with the time of the newest
final block."""


@dataclass(frozen=True, slots=True)
class SharesHistory:
    """All versions of the shares of one key epoch."""

    versions: tuple[DealtShares, ...]
    """Versions in order, at least one. The last version is in force."""

    @property
    def current(self) -> DealtShares:
        """The version in force."""
        return self.versions[-1]

    def holders(self) -> dict[Address, ShareHolder]:
        """Returns every shard that has or had a share, by its account. URL and certificate of each come from the newest version
        in which this shard has a share."""
        return {each.address: each for shares in self.versions for each in shares.holders}

    def superseded_at(self, shares: DealtShares) -> int | None:
        """Returns the Unix second at which the next version came into force, or None for the version in force."""
        return next((int(each.since) for each in self.versions if each.version > shares.version), None)

    def in_force(self, at: int) -> DealtShares:
        """Returns the shares that were in force at a time of the chain."""
        return [each for each in self.versions if each.since <= at or each is self.versions[0]][-1]

    def shares_of(self, record: Release) -> DealtShares | None:
        """Returns the shares that the record's shard had when it decided, or None if it never had any.

        If the shard had no share in force at that time, this returns the last version of which it had a share, because a shard
        that secretly keeps an old share can still use it.
        """
        owned = [each for each in self.versions if share_index(record.shard, each)]
        before = [each for each in owned if each.version <= self.in_force(record.decided_at).version]
        return before[-1] if before else next(iter(owned), None)

    def is_whole(self, shares: DealtShares, last_read_at: int, newest: int) -> bool:
        """Returns whether the copy of a shard's log is known to contain every release that the shard made with these shares.

        `last_read_at` is the Unix second at which the log was last read to its end, or 0 if it never was. `newest` is the time of
        the copy's newest record, or 0 if it has no record.
        """
        until = self.superseded_at(shares)
        if until is None:
            return bool(last_read_at)
        # No record of a log may be dated more than `LAG_S` before an earlier one.
        return newest >= until + LAG_S or last_read_at >= until + LATE_S


def shares_history(book: Network, record: EpochRecord) -> SharesHistory:
    """Returns the history of an epoch's shares by the address book. Raises `ConfigurationError` if the address book contradicts
    itself."""
    own = tuple(map(share_holder, record.shards))
    listed = sorted((each for each in book.dealt or () if each.epoch == record.epoch), key=lambda each: each.version)
    if not listed:
        return SharesHistory((DealtShares(record.epoch, 0, U64(0), record.threshold, own),))
    newest = listed[-1]
    if (newest.threshold, [each.address for each in newest.holders]) != (record.threshold, [each.address for each in own]):
        raise ConfigurationError(
            "network.json", f"names two sets of holders of key epoch {record.epoch}: get the newest address book"
        )
    return SharesHistory(tuple(listed))


def share_index(shard: Address, shares: DealtShares) -> int:
    """Returns the index of a shard's share, or 0 if it had none of these shares."""
    return next((index for index, each in enumerate(shares.holders, start=1) if each.address == shard), 0)


def releases_out_of_force(entries: Iterable[SignedRelease], history: SharesHistory) -> Iterator[str]:
    """Yields one line for each release by a shard that had no share in force at the record's time."""
    for record in (each.record for each in entries if each.record.decision in RELEASES):
        if not share_index(record.shard, history.in_force(record.decided_at)):
            version = history.in_force(record.decided_at).version
            yield f"record {record.index} released while others held the shares, of version {version}"


class CopiedLog(NamedTuple):
    """The copy of one shard's log."""

    shard: Address
    """Account of the shard."""
    entries: tuple[SignedRelease, ...]
    """Records in the order of the log."""
    last_read_at: int
    """Unix second at which the log was last read to its end, or 0 if it never was."""

    @property
    def newest(self) -> int:
        """Time of the newest record, or 0 if there is none."""
        return int(self.entries[-1].record.decided_at) if self.entries else 0


class ReportedRelease(NamedTuple):
    """A release record, and the shares under which it was made."""

    signed: SignedRelease
    """The signed record."""
    shares: DealtShares | None
    """The version of the shares, or None if the shard is not known to have ever had a share."""
    place: int
    """Index of the shard among the holders of that version, or 0 if it is none of them."""

    @property
    def is_released(self) -> bool:
        """True if the shard released a partial or share to an enclave."""
        return self.signed.record.decision in RELEASES


@dataclass(frozen=True, slots=True)
class VersionReport:
    """Releases with one version of the shares, and the holders whose releases are unknown."""

    shares: DealtShares
    """The version of the shares."""
    given: dict[Address, set[int]]
    """For each voter, the indices of the shards that gave it a partial or share with which the receipt can be opened."""
    missing_logs: tuple[int, ...]
    """Indices of the holders without a copy of their log, or with a copy that is too short."""

    @property
    def openers(self) -> list[Address]:
        """Voters that received enough partials to open the receipt."""
        return [voter for voter, shards in self.given.items() if len(shards) >= self.shares.threshold]

    @property
    def released(self) -> list[int]:
        """Indices of the shards that released something with which the receipt can be opened."""
        return sorted(set().union(*self.given.values()))

    @property
    def is_joint(self) -> bool:
        """True if all voters together received enough partials to open the receipt."""
        return len(self.released) >= self.shares.threshold

    @property
    def is_unknown(self) -> bool:
        """True if shards with missing logs may have given one voter the partials that this voter lacks."""
        most = max(len(each | set(self.missing_logs)) for each in (set[int](), *self.given.values()))
        return not self.openers and most >= self.shares.threshold


@dataclass(frozen=True, slots=True)
class OpeningReport:
    """Report whether one receipt could be opened, from the copies of the logs."""

    records: tuple[ReportedRelease, ...]
    """Records about the receipt, oldest first."""
    reaches: tuple[VersionReport, ...]
    """Reports for each version of the shares."""
    unknown_shards: tuple[Address, ...]
    """Shards that released something for the receipt although they are not known to have ever had a share."""

    @property
    def opened(self) -> bool:
        """True if a voter received enough partials to open the receipt."""
        return any(each.openers for each in self.reaches)

    @property
    def is_unknown(self) -> bool:
        """True if the copies do not show whether the receipt was opened."""
        return not self.opened and (bool(self.unknown_shards) or any(each.is_unknown for each in self.reaches))

    def reach(self, shares: DealtShares) -> VersionReport:
        """Returns the report of one version of the shares."""
        return next(each for each in self.reaches if each.shares == shares)


def report_opening(receipt: Digest, history: SharesHistory, logs: Sequence[CopiedLog], rebuilt: bool) -> OpeningReport:
    """Makes the report of a receipt from these copies.

    If `rebuilt` is true, enclaves rebuild the epoch's key, so a share that was released for any receipt also opens this one.
    """
    entries = sorted(_entries(history, logs), key=lambda each: (each.signed.record.decided_at, each.place))
    records = tuple(each for each in entries if each.signed.record.receipt_id == receipt)
    good = [each for each in (entries if rebuilt else records) if each.is_released]
    strangers = dict.fromkeys(each.signed.record.shard for each in good if each.shares is None)
    reaches = tuple(_version_report(shares, history, good, logs) for shares in history.versions)
    return OpeningReport(records, reaches, tuple(sorted(strangers)))


def _entries(history: SharesHistory, logs: Sequence[CopiedLog]) -> Iterator[ReportedRelease]:
    for signed in (signed for log in logs for signed in log.entries):
        shares = history.shares_of(signed.record)
        yield ReportedRelease(signed, shares, 0 if shares is None else share_index(signed.record.shard, shares))


def _version_report(
    shares: DealtShares, history: SharesHistory, good: Sequence[ReportedRelease], logs: Sequence[CopiedLog]
) -> VersionReport:
    given: dict[Address, set[int]] = {}
    for each in good:
        if each.shares == shares:
            given.setdefault(each.signed.record.voter, set()).add(each.place)
    whole = {log.shard for log in logs if history.is_whole(shares, log.last_read_at, log.newest)}
    unread = (index for index, each in enumerate(shares.holders, start=1) if each.address not in whole)
    return VersionReport(shares, given, tuple(unread))
