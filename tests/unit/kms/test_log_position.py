"""A shard whose database was lost, or went back, does not start beside what it signed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import update

from bytewise.protocol.errors.actors import ConfigurationError, StaleBackup
from bytewise.service.clock import SystemClock
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.tables import ReleaseRow
from kms.backup import back_up, restore
from kms.storage import log_position
from kms.storage.log_position import FILE, read_positions
from tests.fixtures.kms.log_position_fixture import copied, drop, folder_of, full, lost, release, started
from tests.fixtures.kms.release_network import World

KEY = bytes(range(32))


def forked(world: World) -> None:
    """It went back, and another process signed on from there."""
    drop(world, 1)
    release(world, world.shard(1), 7)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """The shard's monotonic clock, which this moves."""
    time = [100.0]
    monkeypatch.setattr(log_position, "monotonic_s", lambda: time[0])

    def passed(more: float) -> None:
        time[0] += more

    return passed


GONE: dict[str, tuple[Callable[[World], None], str]] = {
    "lost": (
        lost,
        "its log of key epoch 1 ends before record 1, which this shard signed: name this folder's database in database_url",
    ),
    "an older copy": (lambda world: drop(world, 1), "its log of key epoch 1 ends before record 1, which this shard signed"),
    "another log": (forked, "its record 1 of key epoch 1 is not the record that was signed"),
}


@pytest.mark.parametrize("how", GONE)
def test_shard_whose_log_lacks_signed_records_does_not_start(fresh: World, how: str, seconds: Callable[[float], None]) -> None:
    change, words = GONE[how]
    shard = started(fresh)
    release(fresh, shard, 1)
    seconds(1)
    release(fresh, shard, 2)
    change(fresh)
    with pytest.raises(StaleBackup, match=words):
        started(fresh)


@pytest.mark.parametrize("how", GONE)
def test_control_shard_without_its_mark_signs_another_log(fresh: World, how: str) -> None:
    release(fresh, started(fresh), 1, 2)
    before = started(fresh).log(0).entries
    GONE[how][0](fresh)
    (folder_of(fresh) / FILE).unlink()
    shard = started(fresh)
    release(fresh, shard, 8, 9)
    after = shard.log(0).entries
    assert before[1].record.index == after[1].record.index and before[1].record.shard == after[1].record.shard
    assert before[1] != after[1], "two records of one number, both signed: they convict it"


def test_burst_of_records_is_marked_in_part_and_later_records_each(
    fresh: World, monkeypatch: pytest.MonkeyPatch, seconds: Callable[[float], None]
) -> None:
    monkeypatch.setattr(log_position, "MAX_RECORDS_BEHIND", 3)
    shard, marked = started(fresh), list[int]()
    for number, later in enumerate((0, 0, 0, 0, 0.9, 0.1, 0, 1, 2), start=1):
        seconds(later)
        release(fresh, shard, number)
        marked.append(read_positions(folder_of(fresh))[0].index)
    assert marked == [0, 0, 0, 3, 3, 5, 5, 7, 8]
    drop(fresh, 8)
    with pytest.raises(StaleBackup, match="ends before record 8"):
        started(fresh)


def test_complete_log_starts_repeatedly_and_from_a_newer_copy(fresh: World, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        release(fresh, started(fresh), number)
    database, copy = folder_of(fresh) / "kms.sqlite", tmp_path / "copy.sqlite"
    copied(database, copy)
    lost(fresh)
    with pytest.raises(StaleBackup):
        started(fresh)
    copied(copy, database)
    assert [each.record.index for each in started(fresh).log(0).entries] == [0, 1, 2]


def test_shard_without_marks_gets_one_at_its_next_start(fresh: World) -> None:
    release(fresh, fresh.shard(1), 1, 2)
    assert read_positions(folder_of(fresh)) == ()
    assert len(started(fresh).log(0).entries) == 2
    [mark] = read_positions(folder_of(fresh))
    assert (mark.epoch, mark.index, mark.digest) == (1, 1, fresh.records(1).digest_of(1, 1))
    assert (folder_of(fresh) / FILE).stat().st_mode & 0o777 == 0o600


def test_start_marks_an_unmarked_log_and_otherwise_writes_nothing(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_position, "MAX_RECORDS_BEHIND", 3)
    release(fresh, started(fresh), 1)
    # The newest may be of a process that was killed in the middle of it.
    for number, marked in ((2, 0), (3, 0), (4, 3)):
        release(fresh, fresh.shard(1), number)
        started(fresh)
        assert [mark.index for mark in read_positions(folder_of(fresh))] == [marked]
    monkeypatch.setattr(log_position, "replace_whole", full)
    started(fresh)


def test_marks_of_other_epochs_are_kept(fresh: World) -> None:
    """A folder has all its epochs in one file, and the database too."""
    release(fresh, started(fresh), 1)
    path = folder_of(fresh) / FILE
    path.write_bytes(path.read_bytes().replace(b'"epoch":"1"', b'"epoch":"9"'))
    with pytest.raises(StaleBackup, match="its log of key epoch 9 ends before record 0"):
        started(fresh)
    with write_transaction(open_database(f"sqlite:///{folder_of(fresh) / 'kms.sqlite'}")) as connection:
        connection.execute(update(ReleaseRow).values(epoch=9))
    release(fresh, started(fresh), 2)
    assert [(mark.epoch, mark.index) for mark in read_positions(folder_of(fresh))] == [(1, 0), (9, 0)]


def test_database_of_another_shard_leaves_no_mark(fresh: World) -> None:
    """Who named it by mistake names the right one, and is served: it signed none of what is there, of whichever epoch."""
    other = fresh.shard(2)
    release(fresh, other, 1)
    own, database = folder_of(fresh) / "kms.sqlite", fresh.settings.shards[1].folder / "kms.sqlite"
    with write_transaction(open_database(f"sqlite:///{database}")) as connection:
        connection.execute(update(ReleaseRow).values(epoch=9))
    fresh.records(1)
    copied(own, fresh.folder / "right.sqlite")
    copied(database, own)
    with pytest.raises(ConfigurationError, match=f"database_url: has the release log of {other.signer.address}"):
        started(fresh)
    assert read_positions(folder_of(fresh)) == ()
    copied(fresh.folder / "right.sqlite", own)
    assert started(fresh).log(0).entries == ()


def test_no_backup_is_made_beside_a_log_that_lacks_signed_records(fresh: World) -> None:
    """It would let the keys come back beside that log."""
    release(fresh, started(fresh), 1)
    file = fresh.folder / "shard.backup"
    lost(fresh)
    with pytest.raises(StaleBackup, match="ends before record 0"):
        back_up(folder_of(fresh), file, KEY, fresh.records(1), SystemClock(), os.urandom)
    assert not file.exists()


def test_no_key_is_restored_into_a_folder_ahead_of_its_database(fresh: World) -> None:
    """A backup of before the first record knows of none."""
    folder, file = folder_of(fresh), fresh.folder / "shard.backup"
    shard = started(fresh)
    back_up(folder, file, KEY, fresh.records(1), SystemClock(), os.urandom)
    release(fresh, shard, 1)
    lost(fresh)
    for path in set(folder.iterdir()) - {folder / FILE} - set(folder.glob("kms.sqlite*")):
        path.unlink()
    with pytest.raises(StaleBackup, match="ends before record 0"):
        restore(file, KEY, folder, fresh.records(1), None)
    assert not (folder / "storage.key").exists()
