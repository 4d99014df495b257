"""What shards promised one enclave: that their releases to it stand in one log, each behind those before.

A release record is signed before the shard answers, with its place in the log and the digest of the record before it: a promise
that it is, and stays, there. An enclave that lives for many jobs sees when a shard gives a place twice, goes back, or says that
another record stands before the next one: its log was cut off or is kept twice, and its partial is not used.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from bytewise.protocol.errors import ReleaseNotRecorded
from bytewise.protocol.messages import Release
from bytewise.protocol.release_log import LogHead
from bytewise.protocol.units import Address, Digest


@dataclass(frozen=True, slots=True)
class Promise:
    """The newest promise of one shard: what a process that ends hands on to the next."""

    shard: Address
    """Account of the shard."""
    key_epoch: int
    """Of whose log."""
    digest: Digest
    """EIP-712 digest of the record."""
    next_index: int
    """Place behind it."""


class Promises:
    """The newest promise of each shard in each epoch. Thread-safe; forgets at the end of the process."""

    def __init__(self, on_kept: Callable[[Promise], None] = lambda _: None) -> None:
        """`on_kept` is told of each promise that `keep` accepts."""
        self._on_kept = on_kept
        self._heads: dict[tuple[Address, int], LogHead] = {}
        self._lock = threading.Lock()

    def keep(self, index: int, record: Release, digest: Digest) -> Release:
        """The record of shard `index`, if it can stand in one log with those before; else `ReleaseNotRecorded`.

        `digest` is the record's, whose signature was verified. Records of other enclaves may stand between two of ours.
        """
        place = (record.shard, int(record.key_epoch))
        with self._lock:
            head = self._heads.get(place)
            if head is not None and record.index < head.next_index:
                raise ReleaseNotRecorded(index, f"has place {record.index}, after one at {head.next_index - 1}")
            if head is not None and record.index == head.next_index and record.previous != head.digest:
                raise ReleaseNotRecorded(index, f"at place {record.index} does not follow the one that we were given")
            self._heads[place] = LogHead(digest, record.index + 1)
            self._on_kept(Promise(record.shard, int(record.key_epoch), digest, record.index + 1))
        return record

    def learn(self, promise: Promise) -> None:
        """Takes over what another process of this enclave was promised; an older promise than the known one changes nothing."""
        place = (promise.shard, promise.key_epoch)
        with self._lock:
            head = self._heads.get(place)
            if head is None or head.next_index < promise.next_index:
                self._heads[place] = LogHead(promise.digest, promise.next_index)

    def kept(self) -> tuple[Promise, ...]:
        """All of them."""
        with self._lock:
            return tuple(Promise(shard, epoch, *head) for (shard, epoch), head in self._heads.items())
