"""A key that is dealt again while actors run: the share that a shard answers with, and the keys that partials are held against.

Both follow the chain, so that nobody has to restart at the moment when new shares count. Files follow at leisure.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from bytewise.crypto.curve import decode_point, encode_point
from bytewise.crypto.shares import verification_key
from bytewise.protocol import digests
from bytewise.protocol.errors.actors import ConfigurationError, StaleBackup, TryAgain
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import ChainFacts, EpochDocument
from bytewise.protocol.units import Address, Blob, Digest
from bytewise.service import telemetry
from kms.storage import folder_lock
from kms.storage.keyring import HeldShare, points_of

Find = Callable[[Sequence[Blob]], HeldShare]
"""The share that fits commitments; `ConfigurationError` if there is none (`kms.storage.keyring.find_share`)."""

SETTLE_S = 120.0
"""A version that is not above the one before is believed if the chain still shows it after this time, at a later block."""


class SharesInForce(NamedTuple):
    """The shares of a key epoch that the chain means at one block."""

    number: int
    """The block."""
    version: int
    """How often the key was dealt again."""
    commitments: Blob
    """Feldman commitments, one after the other."""
    holders: tuple[Address, ...]
    """Accounts of the shards that have the shares, by index, from 1."""


def shares_in_force(facts: ChainFacts) -> SharesInForce:
    """Those of the facts that a request is decided by."""
    return SharesInForce(facts.number, facts.version, facts.commitments, facts.holders)


class Held(NamedTuple):
    """What a running shard answers with."""

    shares: Digest
    """keccak256 of the commitments that its share fits, one after the other."""
    version: int | None
    """Their version, as the chain said; None before it was asked."""
    in_force: bool | None
    """Whether the chain meant them when it was last asked; None if it was not, or did not answer."""


class _Doubt(NamedTuple):
    """Shares that the chain cannot mean if what it showed before was true."""

    version: int
    commitments: bytes
    number: int
    """The first block at which it showed them since it last showed others."""
    since: float
    """When that was."""


class Renewal:
    """The share that a running shard answers with: the one that the chain means. Methods are thread-safe."""

    def __init__(
        self, document: EpochDocument, share: HeldShare, find: Find, tell: folder_lock.Held = folder_lock.unsaid
    ) -> None:
        """`tell`: told, now and after each change, of what share there is no other in memory, or b"" where there is one."""
        self._record = document.record
        self._share = share
        self._find = find
        self._fits = b"".join(document.commitments)
        self._tell = tell
        self._version: int | None = None
        self._in_force: bool | None = None
        self._doubt: _Doubt | None = None
        self._users: Counter[bytes] = Counter()
        """Requests that are being answered, by the commitments that their share fits."""
        self._lock = threading.Lock()
        tell(self._fits)

    def share(self) -> HeldShare:
        """The share as of the last look at the chain."""
        with self._lock:
            return self._share

    def held(self) -> Held:
        """What that is."""
        with self._lock:
            return Held(digests.keccak256(self._fits), self._version, self._in_force)

    def lost_sight(self) -> None:
        """The chain could not be read."""
        with self._lock:
            self._in_force = None

    @contextlib.contextmanager
    def using(self, meant: SharesInForce) -> Iterator[HeldShare]:
        """The share to answer a request with, as `follow` gives it; until it is answered, no other is said to be the only one."""
        with self._lock:
            share, fits = self._followed(meant), self._fits
            self._users[fits] += 1
        try:
            yield share
        finally:
            with self._lock:
                self._users[fits] -= 1
                if not self._users[fits]:
                    del self._users[fits]
                    if fits != self._fits:
                        self._say()

    def follow(self, meant: SharesInForce) -> HeldShare:
        """The share that the chain means, out of the folder if it is another than before.

        `TryAgain` while it is not there, or the chain contradicts what it showed before (`SETTLE_S`); `StaleBackup` if the
        shares that the chain means are for others, or this shard's place is another.
        """
        with self._lock:
            return self._followed(meant)

    def _followed(self, meant: SharesInForce) -> HeldShare:
        self._in_force = False
        if meant.commitments != self._fits:
            self._share = self._renewed(meant)
            self._fits = bytes(meant.commitments)
            self._say()
            telemetry.log("kms.share_renewed", epoch=self._record.epoch, block=meant.number, version=meant.version)
        self._version, self._doubt, self._in_force = meant.version, None, True
        return self._share

    def _say(self) -> None:
        # A request that began before answers with the share of then, however long that takes: nobody waits for it here.
        self._tell(self._fits if self._users.keys() <= {self._fits} else b"")

    def _renewed(self, meant: SharesInForce) -> HeldShare:
        what = f"shares of key epoch {self._record.epoch}"
        if self._record.hybrid or meant.holders != tuple(each.address for each in self._record.shards):
            raise StaleBackup(what, f"the chain means others, of other shards, at block {meant.number}")
        if self._version is not None and meant.version <= self._version:
            self._verify_settled(meant, self._version)
        try:
            found = self._find(points_of(meant.commitments))
        except ConfigurationError:
            raise TryAgain(what, f"the chain means others at block {meant.number}, and ours is not there yet") from None
        if found.index != self._share.index:
            raise StaleBackup(what, f"ours is number {found.index} at block {meant.number}, and was {self._share.index}")
        return found

    def _verify_settled(self, meant: SharesInForce, version: int) -> SharesInForce:
        """Versions only grow, so the node is behind, or one of its answers was false: who knows which?"""
        first, now = self._doubt, time.monotonic()
        # An earlier block than the first: either of them may be the false one, so that the wait begins anew.
        is_other = first is None or (first.version, first.commitments) != (meant.version, meant.commitments)
        if first is None or is_other or meant.number < first.number:
            first = self._doubt = _Doubt(meant.version, meant.commitments, meant.number, now)
            telemetry.log(
                "kms.chain_contradicts", epoch=self._record.epoch, block=meant.number, before=version, version=meant.version
            )
        if meant.number <= first.number or now - first.since < SETTLE_S:
            why = f"block {meant.number} has version {meant.version} of the shares, and version {version} was shown before"
            raise TryAgain("chain view", f"{why}: believed if a later block says so {SETTLE_S:g} s later")
        return meant


@lru_cache(maxsize=16)
def as_dealt(record: EpochRecord, commitments: bytes) -> EpochRecord:
    """A key epoch with its shards' verification keys as these commitments, the chain's, make them, whatever the book has."""
    points = [decode_point(each) for each in points_of(commitments)]
    shards = (replace(each, verification_key=encode_point(verification_key(each.index, points))) for each in record.shards)
    return replace(record, shards=tuple(shards))
