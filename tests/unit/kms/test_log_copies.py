"""An auditor's copy of a log: two runs at once, what a shard says twice, and logs that are long."""

import fcntl
import os
import threading
import time
from dataclasses import replace

import pytest

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, ReleaseLogBroken, TryAgain
from bytewise.protocol.evidence.appraisal_policy import GpuUse
from bytewise.protocol.keys.release_log import START, ReleaseLog, SignedRelease, verify_log
from bytewise.protocol.units import U64
from kms.release_log import copies
from kms.release_log.copies import ReleaseLogCopy, page_reader
from kms.shard_client import ShardBusy, ShardClient
from tests.fixtures.kms.log_entries import DOMAIN, Entries, copy, grounded, logged, paged, signed
from tests.fixtures.kms.memory_chain import NOW
from tests.fixtures.kms.release_network import World

__all__ = ["copy", "logged"]


def test_two_concurrent_runs_leave_one_copy(logged: Entries, copy: ReleaseLogCopy) -> None:
    both, inner, errors = threading.Barrier(2), paged(logged), []

    def run() -> None:
        def pages(first: int) -> Entries:
            # Two that read at the same time meet here; with a lock the first goes on alone.
            try:
                both.wait(0.5)
            except threading.BrokenBarrierError:
                pass
            return inner(first)

        try:
            copy.extend(pages, DOMAIN)
        except Exception as error:  # noqa: BLE001  (collected and asserted below)
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert errors == [] and copy.read(DOMAIN)[0] == logged


def test_run_that_waits_too_long_says_for_what(logged: Entries, copy: ReleaseLogCopy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "LOCK_WAIT_S", 0.2)
    copy.folder.mkdir()
    with copy.path.with_suffix(".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TryAgain, match="another process adds to it"):
            copy.extend(paged(logged), DOMAIN)
    assert copy.extend(paged(logged), DOMAIN).next_index == 3


@pytest.mark.parametrize("what", ["grounds", "record"])
def test_double_signed_record_is_kept_beside_the_copy(world: World, logged: Entries, copy: ReleaseLogCopy, what: str) -> None:
    copy.extend(paged(logged), DOMAIN)
    kept = copy.path.read_bytes()
    other = signed(world, logged[2], decided_at=U64(NOW - 1)) if what == "record" else grounded(world, logged[2], gpu=GpuUse.NONE)
    assert other != logged[2]
    verify_log((*logged[:2], other), START, DOMAIN)
    evidence = copy.path.with_suffix(".contradicts")
    for _ in range(2):
        with pytest.raises(ReleaseLogBroken, match=f"record 2 .*see {evidence.name}"):
            copy.extend(paged((*logged[:2], other)), DOMAIN)
    assert copy.path.read_bytes() == kept
    assert [decode(SignedRelease, line) for line in evidence.read_bytes().splitlines()] == [other]


def test_log_longer_than_one_run_is_incomplete(logged: Entries, copy: ReleaseLogCopy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MAX_PAGES", 2)
    with pytest.raises(TryAgain, match="run this again for the rest"):
        copy.extend(paged(logged, 1), DOMAIN)
    assert copy.extend(paged(logged, 1), DOMAIN).next_index == 3


def test_some_conflicting_records_of_a_liar_are_kept_beside_a_torn_line(
    world: World, logged: Entries, copy: ReleaseLogCopy
) -> None:
    copy.extend(paged(logged), DOMAIN)
    evidence, others = (
        copy.path.with_suffix(".contradicts"),
        [signed(world, logged[2], decided_at=U64(NOW - n)) for n in range(1, 12)],
    )
    for number, other in enumerate(others):
        with pytest.raises(ReleaseLogBroken, match=f"record 2 .*see {evidence.name}"):
            copy.extend(paged((*logged[:2], other)), DOMAIN)
        if number == 1:
            with evidence.open("ab") as file:
                file.write(b'{"half')
    kept = [decode(SignedRelease, line) for line in evidence.read_bytes().splitlines()]
    assert kept == others[: copies.MAX_PROOFS]


def test_slow_shard_has_a_total_time_and_received_pages_are_kept(
    world: World, logged: Entries, copy: ReleaseLogCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page is in time, and there is one after the other."""
    monkeypatch.setattr(copies, "WAIT_S", 0.5)
    asked: list[float] = []

    class Slow(ShardClient):
        def call(self, method: str, path: str, body: bytes, timeout_s: float | None = None) -> bytes:
            asked.append(timeout_s or 0)
            time.sleep(0.3)
            first = int(path.rpartition("=")[2])
            return encode(ReleaseLog(logged[first : first + 1]))

    with Slow(world.document.record.shards[0]) as client:
        with pytest.raises(TryAgain, match="of waiting: run this again for the rest"):
            copy.extend(page_reader(client, 1, 20.0), DOMAIN)
        assert asked[0] == 0.5 and asked[1] < 0.25 and len(asked) == 2 and len(copy.read(DOMAIN)[0]) == 2
        monkeypatch.setattr(copies, "WAIT_S", 120.0)
        assert copy.extend(page_reader(client, 1, 20.0), DOMAIN).next_index == 3 and asked[2] == 20.0


class Busy(ShardClient):
    """A client of a shard that is busy so many times before each page, and asks to be asked again."""

    times, asked = 0, 0

    def call(self, method: str, path: str, body: bytes, timeout_s: float | None = None) -> bytes:
        self.asked += 1
        if self.asked % (self.times + 1):
            raise ShardBusy("shard", "TryAgain")
        return encode(ReleaseLog(()))


@pytest.mark.parametrize("times", [0, 1, 4, 5, 100])
def test_busy_shard_is_retried_a_bounded_number_of_times(
    world: World, copy: ReleaseLogCopy, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(copies, "BUSY_PAUSE_S", 0.01)
    client = Busy(world.document.record.shards[0])
    with client:
        client.times = times
        pages = page_reader(client, 1, 20.0)
        if times < copies.BUSY_TRIES:
            assert pages(0) == () and client.asked == times + 1
            return
        with pytest.raises(ShardBusy):
            pages(0)
        assert client.asked == copies.BUSY_TRIES


def test_always_busy_shard_gets_the_time_of_a_slow_one(
    world: World, copy: ReleaseLogCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "WAIT_S", 0.3)
    monkeypatch.setattr(copies, "BUSY_PAUSE_S", 0.2)
    client = Busy(world.document.record.shards[0])
    with client:
        client.times = 100
        with pytest.raises(TryAgain, match="of waiting"):
            page_reader(client, 1, 20.0)(0)
        assert client.asked == 2


def test_altered_mark_is_named(copy: ReleaseLogCopy) -> None:
    copy.folder.mkdir()
    copy.read_time_file.write_bytes(b"soon")
    with pytest.raises(ConfigurationError, match=r"\.seen: was altered: remove it"):
        copy.last_read_at()


def test_copy_is_synced_before_completion(
    world: World, logged: Entries, copy: ReleaseLogCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut is what tells: so the calls are watched."""
    synced, sync = list[tuple[str, bool]](), os.fsync

    def watched(file: int) -> None:
        synced.append((os.path.basename(os.readlink(f"/proc/self/fd/{file}")), copy.read_time_file.exists()))
        sync(file)

    monkeypatch.setattr(os, "fsync", watched)
    copy.extend(paged(logged), DOMAIN)
    assert set(synced) == {(copy.path.name, False)} and copy.read_time_file.exists()
    synced.clear()
    with pytest.raises(ReleaseLogBroken):
        copy.extend(paged((*logged[:2], grounded(world, logged[2], gpu=GpuUse.NONE))), DOMAIN)
    assert synced == [(copy.path.with_suffix(".contradicts").name, True)]


def test_log_of_another_shard_or_epoch_is_refused_as_a_copy(world: World, logged: Entries, copy: ReleaseLogCopy) -> None:
    """Well signed, in its place, and somebody else's: a shard that has none of its own to show."""
    another = world.document.record.shards[1].address
    for other in (replace(copy, shard=another), replace(copy, epoch=2)):
        with pytest.raises(ReleaseLogBroken, match=f"record 0 is by {copy.shard} for key epoch 1"):
            other.extend(paged(logged), DOMAIN)
        assert other.read(DOMAIN) == ((), START) and not other.last_read_at()
