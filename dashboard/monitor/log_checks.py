"""Invariants of release logs: they only grow, every release had a right, and every vote that needed a key is in them."""

from bytewise.protocol.keys.epochs import RELEASES
from bytewise.protocol.records.statements import Outcome
from bytewise.storage.index.reader import Row
from bytewise.storage.index.tables import DisputeFact, VoteFact
from dashboard.monitor.findings import CheckReport
from dashboard.monitor.observation import EpochLogs, Observation, ShardLog


def logs_extend(seen: Observation, report: CheckReport) -> None:
    """A shard's log continues what the shard showed before, and releases only what somebody had a right to."""
    for epoch in seen.logs:
        _note_unread(epoch, report)
        for log in epoch.logs:
            for line in log.broken:
                report.note(log.shard, f"shard {log.place} of key epoch {log.epoch}: {line}")


def logs_cover(seen: Observation, report: CheckReport) -> None:
    """Enough logs have a release for each vote that re-executed: a log that stands still hides releases."""
    epochs = {each.epoch: each for each in seen.logs}
    for each in seen.logs:
        _note_unread(each, report)
    for row in seen.recent_disputes():
        known = epochs.get(row["key_epoch"])
        if known is None or known.failure:
            report.doubts.append(f"the logs of key epoch {row['key_epoch']} were not read")
            continue
        for vote in seen.scene.index.all(VoteFact, dispute=row["id"], said=int(Outcome.EXECUTED)):
            _compare(report, known, row, vote)


def _compare(report: CheckReport, epoch: EpochLogs, row: Row, vote: Row) -> None:
    having = [log for log in epoch.logs if _has_release(log, row["receipt_id"], vote["voter"], epoch.rebuilt)]
    silent = [log for log in epoch.logs if log.silent and log not in having]
    if len(having) >= epoch.threshold:
        return
    told = f"{vote['voter']} re-executed in round {vote['round']}, and {len(having)} of {epoch.threshold} logs have its release"
    if len(having) + len(silent) >= epoch.threshold:
        report.doubts.append(f"dispute 0x{row['id'].hex()}: {told}, {len(silent)} logs are not known")
    else:
        lacking = ", ".join(f"shard {log.place}" for log in epoch.logs if log not in having)
        report.note(row["id"], f"{told}; it is missing at {lacking}", (DisputeFact, (row["id"],)))


def _has_release(log: ShardLog, receipt: bytes, voter: str, rebuilt: bool) -> bool:
    return any(
        each.record.decision in RELEASES and each.record.voter == voter and (rebuilt or each.record.receipt_id == receipt)
        for each in log.entries
    )


def _note_unread(epoch: EpochLogs, report: CheckReport) -> None:
    if epoch.failure:
        report.doubts.append(f"key epoch {epoch.epoch}: {epoch.failure}")
    for log in epoch.logs:
        if log.silent:
            report.doubts.append(f"shard {log.place} of key epoch {epoch.epoch}: {log.silent}")
