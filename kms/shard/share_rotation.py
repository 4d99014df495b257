"""Lets running processes use new shares of a key without a restart. It chooses the share with which a shard answers, and the
verification keys with which partials are checked.

Both choices follow the commitments of the shares that are in force on the chain.
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
from bytewise.service import metrics, telemetry
from kms.storage import files
from kms.storage.keyring import OpenedShare, split_commitments

ShareFinder = Callable[[Sequence[Blob]], OpenedShare]
"""Function that returns the share that fits commitments. Raises `ConfigurationError` if there is none
(`kms.storage.keyring.find_share`)."""

SETTLE_S = 120.0
"""Seconds to wait for shares whose version is not above the known version. If a later block of the chain still shows them after
this time, they are accepted."""


class SharesInForce(NamedTuple):
    """The shares of a key epoch that are in force at one block."""

    number: int
    """Number of the block."""
    version: int
    """Version of the shares: how often the key was dealt again."""
    commitments: Blob
    """Feldman commitments of the shares, one after the other."""
    holders: tuple[Address, ...]
    """Accounts of the shards that have the shares, by index from 1."""


def shares_in_force(facts: ChainFacts) -> SharesInForce:
    """Returns the shares in force according to the facts about a ticket."""
    return SharesInForce(facts.number, facts.version, facts.commitments, facts.holders)


class ShareStatus(NamedTuple):
    """The share with which a running shard answers."""

    shares: Digest
    """keccak256 of the commitments that belong to the share, one after the other."""
    version: int | None
    """Version of these shares by the chain, or None before the first read of the chain."""
    in_force: bool | None
    """Whether these shares were in force at the last read of the chain, or None if there was no read or it failed."""


class _Contradiction(NamedTuple):
    """Shares that contradict an earlier answer of the chain, because versions never go back."""

    version: int
    commitments: bytes
    number: int
    """First block that showed these shares since the chain last showed others."""
    since: float
    """Monotonic time, in seconds, at which the chain showed that block."""


class ShareRotation:
    """Keeps the share with which a running shard answers equal to the share in force on the chain. Methods are thread-safe."""

    def __init__(
        self,
        document: EpochDocument,
        share: OpenedShare,
        find: ShareFinder,
        report: files.ShareReporter = files.ignore_share,
    ) -> None:
        """The object calls `report` now and after each change. The argument is the commitments of the only share in memory, or
        b"" if there are several."""
        self._record = document.record
        self._share = share
        self._find = find
        self._commitments = b"".join(document.commitments)
        self._report_share = report
        self._version: int | None = None
        self._in_force: bool | None = None
        self._contradiction: _Contradiction | None = None
        self._users: Counter[bytes] = Counter()
        """Number of requests that are being answered, by the commitments that their share fits."""
        self._lock = threading.Lock()
        report(self._commitments)

    def share(self) -> OpenedShare:
        """Returns the share with which the shard answers now. Only `follow_chain` and `borrow` compare it with the chain."""
        with self._lock:
            return self._share

    def status(self) -> ShareStatus:
        """Returns the status of the share with which the shard answers."""
        with self._lock:
            return ShareStatus(digests.keccak256(self._commitments), self._version, self._in_force)

    def mark_unknown(self) -> None:
        """Marks the status as unknown because the chain could not be read."""
        with self._lock:
            self._in_force = None
            metrics.SHARE_IN_FORCE.set(0)

    @contextlib.contextmanager
    def borrow(self, current: SharesInForce) -> Iterator[OpenedShare]:
        """Context manager that yields the share in force at the block of `current`, for one request (see `follow_chain`).

        While a request uses an old share, this object does not report a newer share as the only share in memory. So nobody signs
        that the old share is erased.
        """
        with self._lock:
            share, fits = self._follow(current), self._commitments
            self._users[fits] += 1
        try:
            yield share
        finally:
            with self._lock:
                self._users[fits] -= 1
                if not self._users[fits]:
                    del self._users[fits]
                    if fits != self._commitments:
                        self._report()

    def follow_chain(self, current: SharesInForce) -> OpenedShare:
        """Returns this shard's share among the shares in force. Opens the share from the folder if it differs from the present
        one.

        Raises `TryAgain` while the folder lacks the share, or while the chain contradicts its earlier answer (`SETTLE_S`). Raises
        `StaleBackup` if the shares in force belong to other shards, if this shard's new share has another index than its old one,
        or if the chain has other shares of a hybrid key, which is never dealt again.
        """
        with self._lock:
            return self._follow(current)

    def _follow(self, current: SharesInForce) -> OpenedShare:
        self._in_force = False
        metrics.SHARE_IN_FORCE.set(0)
        if current.commitments != self._commitments:
            self._share = self._find_share(current)
            self._commitments = bytes(current.commitments)
            self._report()
            telemetry.log("share.replaced", epoch=self._record.epoch, block=current.number, version=current.version)
        self._version, self._contradiction, self._in_force = current.version, None, True
        metrics.SHARE_IN_FORCE.set(1)
        metrics.HEAD_BLOCK.set(current.number)
        return self._share

    def _report(self) -> None:
        # A request that began before the change answers with its old share, however long it takes. This method does not wait for
        # it.
        self._report_share(self._commitments if self._users.keys() <= {self._commitments} else b"")

    def _find_share(self, current: SharesInForce) -> OpenedShare:
        what = f"shares of key epoch {self._record.epoch}"
        if self._record.hybrid or current.holders != tuple(each.address for each in self._record.shards):
            raise StaleBackup(what, f"the chain has other shares, of other shards, at block {current.number}")
        if self._version is not None and current.version <= self._version:
            self._verify_settled(current, self._version)
        try:
            found = self._find(split_commitments(current.commitments))
        except ConfigurationError:
            raise TryAgain(
                what, f"the chain has newer shares at block {current.number}, and the folder lacks this shard's"
            ) from None
        if found.index != self._share.index:
            raise StaleBackup(
                what, f"this shard's is number {found.index} at block {current.number}, and was {self._share.index}"
            )
        return found

    def _verify_settled(self, current: SharesInForce, version: int) -> SharesInForce:
        """Raises `TryAgain` for a version that is not above the known version, until the chain has shown it for `SETTLE_S`.
        Versions only grow, so either the node is behind or one of its answers was false, and the shard cannot know which."""
        first, now = self._contradiction, time.monotonic()
        # If this block is earlier than the first block, either answer may be false, so the wait begins again.
        is_other = first is None or (first.version, first.commitments) != (current.version, current.commitments)
        if first is None or is_other or current.number < first.number:
            first = self._contradiction = _Contradiction(current.version, current.commitments, current.number, now)
            telemetry.log(
                "share.contradicted", epoch=self._record.epoch, block=current.number, before=version, version=current.version
            )
        if current.number <= first.number or now - first.since < SETTLE_S:
            why = f"block {current.number} has version {current.version} of the shares, and version {version} was shown before"
            raise TryAgain("chain view", f"{why}: it is accepted if a later block shows it after {SETTLE_S:g} s")
        return current


@lru_cache(maxsize=16)
def with_verification_keys(record: EpochRecord, commitments: bytes) -> EpochRecord:
    """Returns `record` with new verification keys for its shards, computed from the commitments that the chain has in force.
    After a refresh, the keys in `record` are old."""
    points = [decode_point(each) for each in split_commitments(commitments)]
    shards = (replace(each, verification_key=encode_point(verification_key(each.index, points))) for each in record.shards)
    return replace(record, shards=tuple(shards))
