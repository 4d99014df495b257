"""Marks of a release log: which records are, and that no failure of them harms anybody."""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.jobs import key_domain
from bytewise.storage.engine import write_transaction
from kms.shard.release import ADMISSIONS
from kms.storage import log_position
from kms.storage.files import replace_whole
from kms.storage.log_position import FILE, LogPositionFile, LogPositions, read_positions
from tests.fixtures.kms.log_position_fixture import folder_of, full, release, started
from tests.fixtures.kms.memory_chain import CONTRACTS
from tests.fixtures.kms.release_network import World


def test_uncommitted_record_is_not_marked(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a shard whose machine stopped in between would never start again, though nobody had an answer."""
    shard = started(fresh)
    with monkeypatch.context() as patch:
        patch.setattr("bytewise.storage.releases.write_transaction", _stopped)
        with pytest.raises(InterruptedError):
            release(fresh, shard, 1)
    assert read_positions(folder_of(fresh)) == ()
    assert started(fresh).log(0).entries == ()


@contextlib.contextmanager
def _stopped(engine: Engine) -> Iterator[Connection]:
    with write_transaction(engine) as connection:
        yield connection
        raise InterruptedError


def test_marks_that_no_shard_wrote_are_named(fresh: World) -> None:
    release(fresh, started(fresh), 1)
    for content in (b"", b"[]", b'{"logs":[]', b'{"logs":[{"epoch":"1"}]}', b"\xff"):
        (folder_of(fresh) / FILE).write_bytes(content)
        with pytest.raises(ConfigurationError, match=rf"{FILE}: is not as the shard wrote it .*remove it only if you know"):
            started(fresh)


def test_unreadable_marks_are_not_deleted(fresh: World) -> None:
    (folder_of(fresh) / FILE).mkdir()
    with pytest.raises(ConfigurationError, match=rf"{FILE}: Is a directory: it must be the shard's own to read and write"):
        started(fresh)


NOT_MARKED = '"event":"log_position.write_failed","file":"release-log.json","why":"No space left on device"'


def test_mark_that_cannot_be_written_delays_no_answer_and_is_written_later(
    fresh: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log_position, "monotonic_s", lambda: 100.0)
    shard = started(fresh)
    with monkeypatch.context() as patch:
        patch.setattr(log_position, "replace_whole", full)
        release(fresh, shard, 1, 2)
        assert capsys.readouterr().err.count(NOT_MARKED) == 1, "said once, not at each record"
        with pytest.raises(ConfigurationError, match=rf"{FILE}: No space left"):
            started(fresh)
    assert read_positions(folder_of(fresh)) == ()
    release(fresh, shard, 3)
    assert [mark.index for mark in read_positions(folder_of(fresh))] == [2]
    with monkeypatch.context() as patch:
        patch.setattr(log_position, "replace_whole", full)
        patch.setattr(log_position, "MIN_INTERVAL_S", 0)
        release(fresh, shard, 4)
        assert capsys.readouterr().err.count(NOT_MARKED) == 1, "it begins again"
    release(fresh, shard, 5)
    assert [mark.index for mark in read_positions(folder_of(fresh))] == [2], "what is not due is still not due"


def test_marks_of_threads_never_go_back(
    fresh: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log_position, "MAX_RECORDS_BEHIND", 1)
    written, beside = list[int](), list[str]()

    def slowly(path: Path, data: bytes) -> None:
        beside.append("begun")
        threading.Event().wait(0.05)  # for whoever does not wait for its turn
        replace_whole(path, data)
        written.append(decode(LogPositions, data).logs[0].index)
        beside.append("ended")

    monkeypatch.setattr(log_position, "replace_whole", slowly)
    shard = started(fresh)
    cases = [fresh.disputed(number) for number in range(1, 17)]
    with ThreadPoolExecutor(ADMISSIONS) as pool:
        answers = [pool.submit(fresh.release, shard, case) for case in cases]
    assert len({each.result().record.index for each in answers}) == 16
    assert beside == ["begun", "ended"] * len(written), "one after the other"
    assert written == sorted(written) and written[-1] == 15 and "log_position.write_failed" not in capsys.readouterr().err


def test_late_record_is_behind_its_mark(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_position, "MIN_INTERVAL_S", 0)
    release(fresh, started(fresh), 1, 2, 3)
    marks = LogPositionFile(folder_of(fresh), key_domain(CONTRACTS))
    marks.begin(fresh.records(1))
    marks.recorded(fresh.records(1).page(1, 0)[1])
    assert [mark.index for mark in read_positions(folder_of(fresh))] == [2]
