"""Checks that the release records which an enclave received from one shard are of one log, in order.

A shard signs a release record before it answers, with its index in the log and the digest of the record before it. An enclave
that serves many jobs notices when a shard uses an index twice, goes back, or names a wrong previous record. The shard's log was
then cut off or exists twice, and its partial is not used. The process of a job sends only signed records to the next process,
because untrusted input may have taken it over.
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
class RecordedRelease:
    """A release record with the data that prove its shard's signature."""

    chain_id: int
    """Chain id of the network."""
    key_epochs: Address
    """The `KeyEpochs` contract for which it is signed."""
    record: Release
    """The record."""
    signature: Blob
    """The shard's signature."""

    @property
    def domain(self) -> Domain:
        """The EIP-712 domain of the signature."""
        return Domain(self.chain_id, self.key_epochs)


LogKey = tuple[Domain, Address, int]
"""Key of a log: network, shard and epoch."""


class LogContinuity:
    """The newest record of each shard in each epoch. Thread-safe; forgets at the end of the process."""

    def __init__(self, on_kept: Callable[[RecordedRelease], None] = lambda _: None, known: "LogContinuity | None" = None) -> None:
        """`on_kept` is called with each release that `keep` accepts; `known` is the continuity that this process was forked
        with."""
        self._on_kept = on_kept
        self._heads: dict[LogKey, LogHead] = {} if known is None else known.heads()
        self._lock = threading.Lock()

    def keep(self, index: int, release: RecordedRelease, digest: Digest) -> Release:
        """Returns the record of shard `index` if it continues the log of the earlier ones; else raises `ReleaseNotRecorded`.

        `digest` is that of the record, whose signature the caller verified. Records of other enclaves may lie between two of this
        enclave.
        """
        record, key = release.record, _log_key(release)
        with self._lock:
            head = self._heads.get(key)
            if head is not None and record.index < head.next_index:
                raise ReleaseNotRecorded(index, f"has index {record.index}, after a record at {head.next_index - 1}")
            if head is not None and record.index == head.next_index and record.previous != head.digest:
                raise ReleaseNotRecorded(
                    index, f"at index {record.index} does not follow the record that this enclave received before"
                )
            self._heads[key] = LogHead(digest, record.index + 1)
            self._on_kept(release)
        return record

    def learn(self, release: RecordedRelease) -> None:
        """Adds a release that another process of this enclave received; `BadSignature` unless its shard signed it.

        A release older than the known one changes nothing.
        """
        record, key = release.record, _log_key(release)
        digest = typed_digest(release.domain, record)
        verify_signature(f"release record {record.index}", digest, release.signature, record.shard)
        with self._lock:
            head = self._heads.get(key)
            if head is None or head.next_index <= record.index:
                self._heads[key] = LogHead(digest, record.index + 1)

    def heads(self) -> dict[LogKey, LogHead]:
        """Heads of all known logs."""
        with self._lock:
            return dict(self._heads)


def _log_key(release: RecordedRelease) -> LogKey:
    return release.domain, release.record.shard, int(release.record.key_epoch)
