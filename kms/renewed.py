"""A key that is dealt again while actors run: the share that a shard answers with, and the keys that partials are held against.

Both follow the chain, so that nobody has to restart at the moment when new shares count. Files follow at leisure.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from bytewise.protocol.errors import ConfigurationError, StaleBackup, TryAgain
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys import ChainFacts, EpochDocument
from bytewise.protocol.units import Blob
from bytewise.service import telemetry
from kms.curve import decode_point, encode_point
from kms.keyring import HeldShare, points_of
from kms.shares import verification_key

Find = Callable[[Sequence[Blob]], HeldShare]
"""The share that fits commitments; `ConfigurationError` if there is none (`kms.keyring.find_share`)."""


class Renewal:
    """Finds a running shard the share that the chain means. For one thread at a time."""

    def __init__(self, document: EpochDocument, index: int, find: Find) -> None:
        self._record = document.record
        self._index = index
        self._find = find
        self._fits = b"".join(document.commitments)
        self._left: set[bytes] = set()

    def at(self, facts: ChainFacts) -> HeldShare | None:
        """The share that the chain means at the block of `facts`, out of the folder; None if it is the one that it meant before.

        `TryAgain` while it is not there, or the view is behind one that was served; `StaleBackup` if the shares that the chain
        means are for others, or this shard's place is another.
        """
        if facts.commitments == self._fits:
            return None
        found = self._renewed(facts)
        self._left.add(self._fits)
        self._fits = bytes(facts.commitments)
        telemetry.log("kms.share_renewed", epoch=self._record.epoch, block=facts.number)
        return found

    def _renewed(self, facts: ChainFacts) -> HeldShare:
        what = f"shares of key epoch {self._record.epoch}"
        if self._record.hybrid or facts.holders != tuple(each.address for each in self._record.shards):
            raise StaleBackup(what, f"the chain means others, of other shards, at block {facts.number}")
        if bytes(facts.commitments) in self._left:
            raise TryAgain("chain view", f"block {facts.number} has shares that were dealt again")
        try:
            found = self._find(points_of(facts.commitments))
        except ConfigurationError:
            raise TryAgain(what, f"the chain means others at block {facts.number}, and ours is not there yet") from None
        if found.index != self._index:
            raise StaleBackup(what, f"ours is number {found.index} at block {facts.number}, and was {self._index}")
        return found


@lru_cache(maxsize=16)
def as_dealt(record: EpochRecord, commitments: bytes) -> EpochRecord:
    """A key epoch with its shards' verification keys as these commitments, the chain's, make them, whatever the book has."""
    points = [decode_point(each) for each in points_of(commitments)]
    shards = (replace(each, verification_key=encode_point(verification_key(each.index, points))) for each in record.shards)
    return replace(record, shards=tuple(shards))
