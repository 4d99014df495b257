"""Reads the shards' release logs for the monitor into copies that only grow. Each release is judged once, by the chain."""

from bytewise.protocol.address_book import Network, ShareHolder
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import Address
from chain.client.access import Chain
from chain.reads.reader import SnapshotReader
from chain.reads.share_history import share_history
from dashboard.monitor.observation import EpochLogs, ShardLog
from dashboard.monitor.settings import ReleaseLogSettings
from kms.release_log.copies import LogReading, ReleaseLogCopy, read_log
from kms.release_log.entitlement import RETRYABLE, AuditBlock, judge_log
from kms.release_log.opening_report import SharesHistory, releases_out_of_force


class ReleaseLogReader:
    """Reader of the release logs of one network's shards."""

    def __init__(self, client: Chain, network: Network, settings: ReleaseLogSettings) -> None:
        self._client, self._network, self._settings = client, network, settings
        self._reader = SnapshotReader(client, network)
        self._judged: dict[tuple[int, Address], int] = {}
        self._wrong: dict[tuple[int, Address], tuple[str, ...]] = {}

    def read(self, epoch: int, seen: AuditBlock) -> EpochLogs:
        """Reads the logs of all shards of one key epoch and judges their releases by the chain at the block `seen`."""
        try:
            history = SharesHistory(share_history(self._client, self._network, epoch, seen.block))
        except (Fault, Unavailable) as error:
            return EpochLogs(epoch, 0, False, (), str(error))
        if not history.versions:
            return EpochLogs(epoch, 0, False, (), "the chain has no shares of it")
        logs = [self._log(history, epoch, place, each, seen) for place, each in enumerate(history.holders().values(), 1)]
        threshold = min(each.threshold for each in history.versions)
        return EpochLogs(epoch, threshold, is_rebuilt(epoch), tuple(logs), "")

    def _log(self, history: SharesHistory, epoch: int, place: int, holder: ShareHolder, seen: AuditBlock) -> ShardLog:
        copy = ReleaseLogCopy(self._settings.folder, epoch, holder.address)
        read = read_log(holder, copy, self._network.epochs_domain, self._settings.timeout_s)
        wrong, unjudged = self._judge(epoch, holder.address, read, seen)
        broken = (*read.broken, *releases_out_of_force(read.entries, history), *wrong)
        return ShardLog(epoch, place, holder.address, read.entries, broken, read.silent or read.unusable or unjudged)

    def _judge(self, epoch: int, shard: Address, read: LogReading, seen: AuditBlock) -> tuple[tuple[str, ...], str]:
        """Judges the records that were not judged before. Returns all faults of the whole log, and the reason why some records
        are not judged yet; empty if all are judged."""
        key = (epoch, shard)
        done = self._judged.get(key, 0)
        found = judge_log(read.entries[done:], self._reader, seen)
        self._wrong[key] = (*self._wrong.get(key, ()), *(each for each in found.wrong if each not in self._wrong.get(key, ())))
        if waiting := sum(found.unjudged[reason] for reason in RETRYABLE):
            return self._wrong[key], f"{waiting} releases are not judged yet {found.failure}".rstrip()
        self._judged[key] = len(read.entries)
        return self._wrong[key], ""
