"""What shards promised one enclave: that their releases to it stand in one log, each behind those before.

A release record is signed before the shard answers, with its place in the log and the digest of the record before it: a promise
that it is, and stays, there. An enclave that lives for many jobs sees when a shard gives a place twice, goes back, or says that
another record stands before the next one: its log was cut off or is kept twice, and its partial is not used. One job's process
hands promises on to the next as they were signed, because it may have been broken by what it read.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from bytewise.protocol.errors.actors import ReleaseNotRecorded
from bytewise.protocol.keys.release_log import LogHead
from bytewise.protocol.records.statements import Release
from bytewise.protocol.signing import Domain, typed_digest, verify_signature
from bytewise.protocol.units import Address, Blob, Digest


@dataclass(frozen=True, slots=True)
class Promise:
    """A release record, and what proves that its shard signed it."""

    chain_id: int
    """Of the network."""
    key_epochs: Address
    """`KeyEpochs` there, for which it is signed."""
    record: Release
    """It."""
    signature: Blob
    """The shard's."""

    @property
    def domain(self) -> Domain:
        """In which it is signed."""
        return Domain(self.chain_id, self.key_epochs)


Place = tuple[Domain, Address, int]
"""Network, shard and epoch: whose log."""


class Promises:
    """The newest promise of each shard in each epoch. Thread-safe; forgets at the end of the process."""

    def __init__(self, on_kept: Callable[[Promise], None] = lambda _: None, known: "Promises | None" = None) -> None:
        """`on_kept` is told of each promise that `keep` accepts; `known` is what this process was forked with."""
        self._on_kept = on_kept
        self._heads: dict[Place, LogHead] = {} if known is None else known.heads()
        self._lock = threading.Lock()

    def keep(self, index: int, promise: Promise, digest: Digest) -> Release:
        """The record of shard `index`, if it can stand in one log with those before; else `ReleaseNotRecorded`.

        `digest` is the record's, whose signature was verified. Records of other enclaves may stand between two of ours.
        """
        record, place = promise.record, _place(promise)
        with self._lock:
            head = self._heads.get(place)
            if head is not None and record.index < head.next_index:
                raise ReleaseNotRecorded(index, f"has place {record.index}, after one at {head.next_index - 1}")
            if head is not None and record.index == head.next_index and record.previous != head.digest:
                raise ReleaseNotRecorded(index, f"at place {record.index} does not follow the one that we were given")
            self._heads[place] = LogHead(digest, record.index + 1)
            self._on_kept(promise)
        return record

    def learn(self, promise: Promise) -> None:
        """Takes over what another process of this enclave says that it was promised; `BadSignature` unless its shard did.

        An older promise than the known one changes nothing.
        """
        record, place = promise.record, _place(promise)
        digest = typed_digest(promise.domain, record)
        verify_signature(f"release record {record.index}", digest, promise.signature, record.shard)
        with self._lock:
            head = self._heads.get(place)
            if head is None or head.next_index <= record.index:
                self._heads[place] = LogHead(digest, record.index + 1)

    def heads(self) -> dict[Place, LogHead]:
        """Of all logs that were heard of."""
        with self._lock:
            return dict(self._heads)


def _place(promise: Promise) -> Place:
    return promise.domain, promise.record.shard, int(promise.record.key_epoch)
