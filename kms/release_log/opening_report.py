"""Who opened a receipt, as far as copies of release logs tell: what each voter was given of each version of the shares."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bytewise.protocol.address_book import DealtShares, Network, ShareHolder, share_holder
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import RELEASES, SignedRelease
from bytewise.protocol.keys.release_log import LAG_S
from bytewise.protocol.records.statements import Release
from bytewise.protocol.units import U64, Address, Digest

# Under which shares a release was made: who held them at the time that its record names, and how many of them open.

LATE_S = 3600
"""A shard decides at the newest final block, so that a record may be written so much later than the time that it names."""


@dataclass(frozen=True, slots=True)
class SharesHistory:
    """All versions of the shares of one key epoch."""

    versions: tuple[DealtShares, ...]
    """In order, at least one; the last are in force."""

    @property
    def current(self) -> DealtShares:
        """Those in force."""
        return self.versions[-1]

    def holders(self) -> dict[Address, ShareHolder]:
        """Everybody who has or had a share, as the newest version names it."""
        return {each.address: each for shares in self.versions for each in shares.holders}

    def until(self, shares: DealtShares) -> int | None:
        """Unix seconds from which on other shares counted; None of those in force."""
        return next((int(each.since) for each in self.versions if each.version > shares.version), None)

    def in_force(self, at: int) -> DealtShares:
        """The shares that counted at a time of the chain."""
        return [each for each in self.versions if each.since <= at or each is self.versions[0]][-1]

    def of(self, record: Release) -> DealtShares | None:
        """The shares of which a record's shard had one when it decided; None if it never had any.

        Of who had none any more it is the last that it had: whoever keeps a share in secret can use it.
        """
        held = [each for each in self.versions if place_of(record.shard, each)]
        before = [each for each in held if each.version <= self.in_force(record.decided_at).version]
        return before[-1] if before else next(iter(held), None)

    def is_whole(self, shares: DealtShares, seen_at: int, newest: int) -> bool:
        """Whether a copy of a holder's log has all that it released with these shares.

        `seen_at`: when the log was last read to its end, 0 if never; `newest`: time of the newest record of the copy, 0 without.
        """
        until = self.until(shares)
        if until is None:
            return bool(seen_at)
        # No record of a log is dated more than that before an earlier one.
        return newest >= until + LAG_S or seen_at >= until + LATE_S


def history_in(book: Network, record: EpochRecord) -> SharesHistory:
    """What the address book says of an epoch; `ConfigurationError` if it says two things."""
    own = tuple(map(share_holder, record.shards))
    listed = sorted((each for each in book.dealt or () if each.epoch == record.epoch), key=lambda each: each.version)
    if not listed:
        return SharesHistory((DealtShares(record.epoch, 0, U64(0), record.threshold, own),))
    newest = listed[-1]
    if (newest.threshold, [each.address for each in newest.holders]) != (record.threshold, [each.address for each in own]):
        raise ConfigurationError("network.json", f"names two sets of holders of key epoch {record.epoch}: get the newest book")
    return SharesHistory(tuple(listed))


def place_of(shard: Address, shares: DealtShares) -> int:
    """The index of a shard's share; 0 if it had none."""
    return next((index for index, each in enumerate(shares.holders, start=1) if each.address == shard), 0)


def out_of_force(entries: Iterable[SignedRelease], history: SharesHistory) -> Iterator[str]:
    """A line for each release by a shard that had no share in force at the time that its record names."""
    for record in (each.record for each in entries if each.record.decision in RELEASES):
        if not place_of(record.shard, history.in_force(record.decided_at)):
            version = history.in_force(record.decided_at).version
            yield f"record {record.index} released while others held the shares, of version {version}"


class Kept(NamedTuple):
    """What is kept of one shard's log."""

    shard: Address
    """Whose."""
    entries: tuple[SignedRelease, ...]
    """In order."""
    seen_at: int
    """Unix seconds when it was last read to its end; 0 if never."""

    @property
    def newest(self) -> int:
        """Time of its newest record; 0 without any."""
        return int(self.entries[-1].record.decided_at) if self.entries else 0


class Entry(NamedTuple):
    """A record, and under which shares it was made."""

    signed: SignedRelease
    """The record."""
    shares: DealtShares | None
    """None: nobody says that its shard ever had any."""
    place: int
    """The shard's place among their holders, 0 without."""

    @property
    def gave(self) -> bool:
        """Whether an enclave got something."""
        return self.signed.record.decision in RELEASES


@dataclass(frozen=True, slots=True)
class Reach:
    """What was given of one version of the shares, and what nobody can tell of it."""

    shares: DealtShares
    """The version."""
    given: dict[Address, set[int]]
    """By voter, the indices of the shards that gave it something that opens the receipt."""
    unread: tuple[int, ...]
    """Indices of holders of whose logs there is no copy, or none that is long enough."""

    @property
    def owners(self) -> list[Address]:
        """Voters that were given enough."""
        return [voter for voter, shards in self.given.items() if len(shards) >= self.shares.threshold]

    @property
    def released(self) -> list[int]:
        """Shards that gave somebody something."""
        return sorted(set().union(*self.given.values()))

    @property
    def together(self) -> bool:
        """Whether all voters together were given enough."""
        return len(self.released) >= self.shares.threshold

    @property
    def untold(self) -> bool:
        """Whether shards of which nobody knows may have given one voter what it lacked."""
        most = max(len(each | set(self.unread)) for each in (set[int](), *self.given.values()))
        return not self.owners and most >= self.shares.threshold


@dataclass(frozen=True, slots=True)
class Story:
    """All that the copies tell of one receipt."""

    records: tuple[Entry, ...]
    """Those of the receipt, oldest first."""
    reaches: tuple[Reach, ...]
    """One for each version of the shares."""
    strangers: tuple[Address, ...]
    """Shards that gave something for it, of which nobody says that they ever had a share."""

    @property
    def opened(self) -> bool:
        """Whether somebody was given enough."""
        return any(each.owners for each in self.reaches)

    @property
    def untold(self) -> bool:
        """Whether the copies cannot tell if it was opened."""
        return not self.opened and (bool(self.strangers) or any(each.untold for each in self.reaches))

    def reach(self, shares: DealtShares) -> Reach:
        """What was given of a version."""
        return next(each for each in self.reaches if each.shares == shares)


def story_of(receipt: Digest, history: SharesHistory, logs: Sequence[Kept], rebuilt: bool) -> Story:
    """What these copies tell of a receipt.

    `rebuilt`: enclaves rebuild its epoch's key, so that a share opens it whichever receipt it was given for.
    """
    entries = sorted(_entries(history, logs), key=lambda each: (each.signed.record.decided_at, each.place))
    records = tuple(each for each in entries if each.signed.record.receipt_id == receipt)
    good = [each for each in (entries if rebuilt else records) if each.gave]
    strangers = dict.fromkeys(each.signed.record.shard for each in good if each.shares is None)
    reaches = tuple(_reach(shares, history, good, logs) for shares in history.versions)
    return Story(records, reaches, tuple(sorted(strangers)))


def _entries(history: SharesHistory, logs: Sequence[Kept]) -> Iterator[Entry]:
    for signed in (signed for log in logs for signed in log.entries):
        shares = history.of(signed.record)
        yield Entry(signed, shares, 0 if shares is None else place_of(signed.record.shard, shares))


def _reach(shares: DealtShares, history: SharesHistory, good: Sequence[Entry], logs: Sequence[Kept]) -> Reach:
    given: dict[Address, set[int]] = {}
    for each in good:
        if each.shares == shares:
            given.setdefault(each.signed.record.voter, set()).add(each.place)
    whole = {log.shard for log in logs if history.is_whole(shares, log.seen_at, log.newest)}
    unread = (index for index, each in enumerate(shares.holders, start=1) if each.address not in whole)
    return Reach(shares, given, tuple(unread))
