"""Under which shares a release was made: who held them at the time that its record names, and how many of them open.

Shares of a key that was dealt again open nothing together with those of before. Who asked for them at one version and at the next
has what each version adds up to, and no more.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bytewise.protocol.address_book import DealtShares, Holder, Network, holder
from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import GIVEN, SignedRelease
from bytewise.protocol.keys.release_log import LAG_S
from bytewise.protocol.records.statements import Release
from bytewise.protocol.units import U64, Address

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

    def holders(self) -> dict[Address, Holder]:
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
    own = tuple(map(holder, record.shards))
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
    for record in (each.record for each in entries if each.record.decision in GIVEN):
        if not place_of(record.shard, history.in_force(record.decided_at)):
            version = history.in_force(record.decided_at).version
            yield f"record {record.index} released while others held the shares, of version {version}"
