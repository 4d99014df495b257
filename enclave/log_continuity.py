"""Checks the release records that an enclave received from one shard: they must belong to one log, in order.

A shard signs a release record before it answers. The record has its index in the log and the digest of the record before it. So
an enclave that serves many jobs notices when a shard uses an index twice, goes back, or names a wrong previous record. In each of
these cases, the shard's log was cut off or exists twice, and the enclave does not use the shard's partial.

Each job has its own process, so the supervisor collects the records and gives them to later processes. A job's process could be
taken over by untrusted input. The supervisor therefore accepts a record from such a process only with the shard's signature.
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
    """A release record with everything that proves the shard's signature."""

    chain_id: int
    """Chain id of the network."""
    key_epochs: Address
    """Address of the contract `KeyEpochs` for which the record is signed."""
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
    """The newest record of each shard in each epoch. It is thread-safe, and is lost at the end of the process."""

    def __init__(self, on_kept: Callable[[RecordedRelease], None] = lambda _: None, known: "LogContinuity | None" = None) -> None:
        """The object calls `on_kept` with each release that `keep` accepts. `known` has the records that were known when this
        process was forked."""
        self._on_kept = on_kept
        self._heads: dict[LogKey, LogHead] = {} if known is None else known.heads()
        self._lock = threading.Lock()

    def keep(self, index: int, release: RecordedRelease, digest: Digest) -> Release:
        """Stores a new record of shard `index` as the newest one, and returns it. Raises `ReleaseNotRecorded` if the record
        cannot follow the records that this enclave knows.

        `digest` is the record's digest. The caller has verified its signature. Indices may be skipped, because other enclaves
        receive records from the same log.
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
        """Adds a release that another process of this enclave received. Raises `BadSignature` if the shard did not sign it.

        A release that is older than the known one changes nothing.
        """
        record, key = release.record, _log_key(release)
        digest = typed_digest(release.domain, record)
        verify_signature(f"release record {record.index}", digest, release.signature, record.shard)
        with self._lock:
            head = self._heads.get(key)
            if head is None or head.next_index <= record.index:
                self._heads[key] = LogHead(digest, record.index + 1)

    def heads(self) -> dict[LogKey, LogHead]:
        """Returns the heads of all known logs."""
        with self._lock:
            return dict(self._heads)


def _log_key(release: RecordedRelease) -> LogKey:
    return release.domain, release.record.shard, int(release.record.key_epoch)
