"""A shard whose database was lost, or went back, does not start beside what it signed."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, delete, update

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors import ConfigurationError, StaleBackup
from bytewise.protocol.keys import ReleaseLog
from bytewise.service.clock import SystemClock
from bytewise.storage.engine import open_database, writing
from bytewise.storage.releases import ReleaseRecords
from bytewise.storage.tables_keys import ReleaseRow
from kms import log_mark
from kms.backup import back_up, restore
from kms.files import replace_whole
from kms.log_mark import FILE, LogMarks, MarkFile, read_marks
from kms.policy import key_domain
from kms.release import ADMISSIONS, Shard
from tests.unit.kms.memory_chain import CONTRACTS
from tests.unit.kms.test_policies import start
from tests.unit.kms.world import World, empty_database

KEY = bytes(range(32))


def folder_of(world: World) -> Path:
    return world.settings.shards[0].folder


def started(world: World) -> Shard:
    """As `python -m kms serve` makes it, from what lies in the folder."""
    return start(world, world.policy)


def release(world: World, shard: Shard, *numbers: int) -> None:
    for number in numbers:
        case = world.case(number)
        world.chain.open(case)
        world.release(shard, case)


def lost(world: World) -> None:
    """The database is gone, and its owner made a new one, as a new shard's."""
    for path in folder_of(world).glob("kms.sqlite*"):
        path.unlink()
    (folder_of(world) / "kms.sqlite").write_bytes(empty_database())


def drop(world: World, first: int) -> None:
    """An older copy of the database: records from this one on are not there."""
    with writing(open_database(f"sqlite:///{folder_of(world) / 'kms.sqlite'}")) as connection:
        connection.execute(delete(ReleaseRow).where(ReleaseRow.number >= first))


def forked(world: World) -> None:
    """It went back, and another process signed on from there."""
    drop(world, 1)
    release(world, world.shard(1), 7)


def copied(database: Path, to: Path) -> None:
    """As `sqlite3 .backup` does."""
    with contextlib.closing(sqlite3.connect(database)) as one, contextlib.closing(sqlite3.connect(to)) as other:
        one.backup(other)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """The shard's monotonic clock, which this moves."""
    time = [100.0]
    monkeypatch.setattr(log_mark, "monotonic_s", lambda: time[0])

    def passed(more: float) -> None:
        time[0] += more

    return passed


GONE: dict[str, tuple[Callable[[World], None], str]] = {
    "lost": (lost, "its log of key epoch 1 ends before record 1, which was signed: name this folder's database in database_url"),
    "an older copy": (lambda world: drop(world, 1), "its log of key epoch 1 ends before record 1, which was signed"),
    "another log": (forked, "its record 1 of key epoch 1 is another than was signed"),
}


@pytest.mark.parametrize("how", GONE)
def test_a_shard_whose_log_lacks_what_it_signed_does_not_start_again(
    fresh: World, how: str, seconds: Callable[[float], None]
) -> None:
    change, words = GONE[how]
    shard = started(fresh)
    release(fresh, shard, 1)
    seconds(1)
    release(fresh, shard, 2)
    change(fresh)
    with pytest.raises(StaleBackup, match=words):
        started(fresh)


@pytest.mark.parametrize("how", GONE)
def test_control_without_its_mark_it_signs_another_log(fresh: World, how: str) -> None:
    release(fresh, started(fresh), 1, 2)
    before = started(fresh).log(0).entries
    GONE[how][0](fresh)
    (folder_of(fresh) / FILE).unlink()
    shard = started(fresh)
    release(fresh, shard, 8, 9)
    after = shard.log(0).entries
    assert before[1].record.index == after[1].record.index and before[1].record.shard == after[1].record.shard
    assert before[1] != after[1], "two records of one number, both signed: they convict it"


def test_the_first_record_is_marked_before_its_answer(fresh: World) -> None:
    release(fresh, started(fresh), 1)
    lost(fresh)
    with pytest.raises(StaleBackup, match="ends before record 0, which was signed"):
        started(fresh)


def test_in_a_burst_some_records_are_marked_and_after_it_each(
    fresh: World, monkeypatch: pytest.MonkeyPatch, seconds: Callable[[float], None]
) -> None:
    monkeypatch.setattr(log_mark, "EVERY", 3)
    shard, marked = started(fresh), list[int]()
    for number, later in enumerate((0, 0, 0, 0, 0.9, 0.1, 0, 1, 2), start=1):
        seconds(later)
        release(fresh, shard, number)
        marked.append(read_marks(folder_of(fresh))[0].index)
    assert marked == [0, 0, 0, 3, 3, 5, 5, 7, 8]
    drop(fresh, 8)
    with pytest.raises(StaleBackup, match="ends before record 8"):
        started(fresh)


def test_a_record_that_was_not_committed_is_not_marked(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a shard whose machine stopped in between would never start again, though nobody had an answer."""
    shard = started(fresh)
    with monkeypatch.context() as patch:
        patch.setattr("bytewise.storage.releases.writing", _stopped)
        with pytest.raises(InterruptedError):
            release(fresh, shard, 1)
    assert read_marks(folder_of(fresh)) == ()
    assert started(fresh).log(0).entries == ()


@contextlib.contextmanager
def _stopped(engine: Engine) -> Iterator[Connection]:
    with writing(engine) as connection:
        yield connection
        raise InterruptedError


def test_a_log_that_is_whole_starts_again_and_again_and_from_a_newer_copy(fresh: World, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        release(fresh, started(fresh), number)
    database, copy = folder_of(fresh) / "kms.sqlite", tmp_path / "copy.sqlite"
    copied(database, copy)
    lost(fresh)
    with pytest.raises(StaleBackup):
        started(fresh)
    copied(copy, database)
    assert [each.record.index for each in started(fresh).log(0).entries] == [0, 1, 2]


def test_a_shard_of_before_marks_gets_one_at_its_next_start(fresh: World) -> None:
    release(fresh, fresh.shard(1), 1, 2)
    assert read_marks(folder_of(fresh)) == ()
    log: ReleaseLog = started(fresh).log(0)
    [mark] = read_marks(folder_of(fresh))
    assert (mark.epoch, mark.index) == (1, 1) and fresh.records(1).digest_of(1, 1) == mark.digest and len(log.entries) == 2


def test_a_start_marks_a_log_that_went_on_without_and_leaves_the_disk_alone_otherwise(
    fresh: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_mark, "EVERY", 3)
    release(fresh, started(fresh), 1)
    # The newest may be of a process that was killed in the middle of it.
    for count, marked in ((1, 0), (1, 0), (1, 3)):
        release(fresh, fresh.shard(1), *range(10 * marked + count + 1, 10 * marked + 2 * count + 1))
        started(fresh)
        assert [mark.index for mark in read_marks(folder_of(fresh))] == [marked]
    monkeypatch.setattr(log_mark, "replace_whole", _full)
    started(fresh)


def test_marks_of_other_epochs_stay(fresh: World) -> None:
    """A folder has all its epochs in one file, and the database too."""
    release(fresh, started(fresh), 1)
    path = folder_of(fresh) / FILE
    path.write_bytes(path.read_bytes().replace(b'"epoch":"1"', b'"epoch":"9"'))
    with pytest.raises(StaleBackup, match="its log of key epoch 9 ends before record 0"):
        started(fresh)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"logs":[]', b'{"logs":[{"epoch":"1"}]}', b"\xff"])
def test_marks_that_no_shard_wrote_are_named(fresh: World, content: bytes) -> None:
    release(fresh, started(fresh), 1)
    (folder_of(fresh) / FILE).write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"{FILE}: is not as the shard wrote it .*remove it only if you know"):
        started(fresh)


def test_marks_that_cannot_be_read_are_not_to_be_removed(fresh: World) -> None:
    (folder_of(fresh) / FILE).mkdir()
    with pytest.raises(ConfigurationError, match=rf"{FILE}: Is a directory: it must be the shard's own to read and write"):
        started(fresh)


def _full(_path: Path, _data: bytes) -> None:
    raise OSError(28, "No space left on device")


NOT_MARKED = '"event":"kms.log_not_marked","file":"release-log.json","why":"No space left on device"'


def test_a_mark_that_cannot_be_written_keeps_no_enclave_from_its_answer_and_is_made_up_for(
    fresh: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shard = started(fresh)
    with monkeypatch.context() as patch:
        patch.setattr(log_mark, "replace_whole", _full)
        release(fresh, shard, 1, 2)
        assert capsys.readouterr().err.count(NOT_MARKED) == 1, "said once, not at each record"
        with pytest.raises(ConfigurationError, match=rf"{FILE}: No space left"):
            started(fresh)
    assert read_marks(folder_of(fresh)) == ()
    release(fresh, shard, 3)
    assert [mark.index for mark in read_marks(folder_of(fresh))] == [2]
    with monkeypatch.context() as patch:
        patch.setattr(log_mark, "replace_whole", _full)
        patch.setattr(log_mark, "SPACING_S", 0)
        release(fresh, shard, 4)
        assert capsys.readouterr().err.count(NOT_MARKED) == 1, "it begins again"
    release(fresh, shard, 5)
    assert [mark.index for mark in read_marks(folder_of(fresh))] == [2], "what is not due is still not due"


def test_marks_of_many_threads_never_go_back(
    fresh: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log_mark, "EVERY", 1)
    written = list[int]()

    def slowly(path: Path, data: bytes) -> None:
        replace_whole(path, data)
        written.append(decode(LogMarks, data).logs[0].index)

    monkeypatch.setattr(log_mark, "replace_whole", slowly)
    shard = started(fresh)
    cases = [fresh.case(number) for number in range(1, 17)]
    for case in cases:
        fresh.chain.open(case)
    with ThreadPoolExecutor(ADMISSIONS) as pool:
        answers = [pool.submit(fresh.release, shard, case) for case in cases]
    assert len({each.result().record.index for each in answers}) == 16
    assert written == sorted(written) and written[-1] == 15 and "kms.log_not_marked" not in capsys.readouterr().err


def test_a_record_that_comes_late_is_behind_its_mark(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_mark, "SPACING_S", 0)
    release(fresh, started(fresh), 1, 2, 3)
    marks = MarkFile(folder_of(fresh), key_domain(CONTRACTS))
    marks.begin(fresh.records(1))
    marks.recorded(fresh.records(1).page(1, 0)[1])
    assert [mark.index for mark in read_marks(folder_of(fresh))] == [2]


def test_the_database_of_another_shard_leaves_no_mark(fresh: World) -> None:
    """Who named it by mistake names the right one, and is served: it signed none of what is there, of whichever epoch."""
    other = fresh.shard(2)
    release(fresh, other, 1)
    own, database = folder_of(fresh) / "kms.sqlite", fresh.settings.shards[1].folder / "kms.sqlite"
    with writing(open_database(f"sqlite:///{database}")) as connection:
        connection.execute(update(ReleaseRow).values(epoch=9))
    fresh.records(1)
    copied(own, fresh.folder / "right.sqlite")
    copied(database, own)
    with pytest.raises(ConfigurationError, match=f"database_url: has the release log of {other.signer.address}"):
        started(fresh)
    assert read_marks(folder_of(fresh)) == ()
    copied(fresh.folder / "right.sqlite", own)
    assert started(fresh).log(0).entries == ()


def test_no_backup_is_made_beside_a_log_that_lacks_what_was_signed(fresh: World) -> None:
    """It would let the keys come back beside that log."""
    release(fresh, started(fresh), 1)
    file = fresh.folder / "shard.backup"
    lost(fresh)
    with pytest.raises(StaleBackup, match="ends before record 0"):
        back_up(folder_of(fresh), file, KEY, fresh.records(1), SystemClock(), os.urandom)
    assert not file.exists()


def test_no_key_comes_back_into_a_folder_that_knows_of_more_than_the_database(fresh: World) -> None:
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


def test_the_file_has_nothing_but_marks_and_only_the_owner_reads_it(fresh: World) -> None:
    release(fresh, started(fresh), 1)
    path = folder_of(fresh) / FILE
    records: ReleaseRecords = fresh.records(1)
    [mark] = decode(LogMarks, path.read_bytes()).logs
    assert mark.digest == records.digest_of(1, 0) and path.stat().st_mode & 0o777 == 0o600


def test_a_shard_without_records_starts_without_marks(fresh: World) -> None:
    for _ in range(2):
        assert started(fresh).log(0).entries == ()
        assert read_marks(folder_of(fresh)) == ()
