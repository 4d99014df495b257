"""Who opened a receipt, as far as copies of release logs tell: what each voter was given of each version of the shares."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bytewise.protocol.address_book import DealtShares
from bytewise.protocol.keys.epochs import GIVEN, SignedRelease
from bytewise.protocol.units import Address, Digest
from kms.release_log.log_holders import SharesHistory, place_of


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
        return self.signed.record.decision in GIVEN


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
