"""Backups that a process makes by itself, and copies of databases of both kinds."""

import os
import shutil
import sqlite3
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.units import U64, Blob
from bytewise.service.readiness import ReadinessRegistry
from bytewise.service.sections import BackupSettings
from bytewise.service.settings import load_settings
from bytewise.storage.backups import database_copy
from bytewise.storage.backups.backup import HOUR_S, VOTES, BackupJob, BackupSource, make_backup, restore_database, verify_backup
from bytewise.storage.backups.backup_file import read_manifest, unpack_backup
from bytewise.storage.backups.database_copy import SQLITE, verify_copy
from bytewise.storage.backups.restore_fence import RestoreFence
from bytewise.storage.engine import open_database
from bytewise.storage.protection import Protection
from tests.fixtures.metric_values import value_of
from tests.fixtures.storage.databases import Databases
from tests.fixtures.storage.hand_clock import HandClock
from tests.fixtures.storage.node_folder import KEY, NodeFolder, member_folder
from tests.fixtures.storage.stored_records import vote
from tests.fixtures.verifier.verifier_fixture import NETWORK
from verifier.settings import NodeSettings


@pytest.fixture
def node(tmp_path: Path, url: str) -> Iterator[NodeFolder]:
    """A member on a database of the kind that this run tests."""
    if make_url(url).get_backend_name() == "sqlite":
        folder = tmp_path / "node"
        made = member_folder(folder)
    else:
        made = member_folder(tmp_path / "node", database=url)
    yield made
    made.lease.engine.dispose()


def source_of(node: NodeFolder) -> BackupSource:
    settings = load_settings(NodeSettings, node.config)
    return BackupSource(
        node.config, "member", (settings,), NETWORK, KEY.address, settings.signer.lock_file, node.lease.engine
    )  # fmt: skip


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept"


def files(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_backup_is_made_when_due_and_the_oldest_goes(
    node: NodeFolder, kept: Path, clock: HandClock, capsys: pytest.CaptureFixture[str]
) -> None:
    job = BackupJob(source_of(node), BackupSettings(kept, every_h=2, keep=3), clock)
    for number in range(5):
        job.run()
        assert len(files(kept)) == min(number + 1, 3)
        assert value_of("bytewise_backup_timestamp_seconds") == clock.now()
        clock.seconds += 2 * HOUR_S - 1
        before = files(kept)
        job.run()
        assert files(kept) == before, "not due yet"
        clock.seconds += 1
    assert capsys.readouterr().err.count('"backup.made"') == 5
    assert value_of("bytewise_backup_interval_seconds") == 2 * HOUR_S


def test_restarted_process_goes_on_with_the_age_of_the_newest(node: NodeFolder, kept: Path, clock: HandClock) -> None:
    BackupJob(source_of(node), BackupSettings(kept), clock).run()
    clock.seconds += HOUR_S
    BackupJob(source_of(node), BackupSettings(kept), clock).run()
    assert len(files(kept)) == 1


def test_backups_of_others_are_neither_counted_nor_deleted(node: NodeFolder, kept: Path, clock: HandClock) -> None:
    (kept / "notes.tar").write_text("not a backup")
    for _ in range(2):
        BackupJob(source_of(node), BackupSettings(kept, every_h=1, keep=1), clock).run()
        clock.seconds += 2 * HOUR_S
    assert len(files(kept)) == 2 and "notes.tar" in files(kept)


def header(kind: bytes, size: int, body: bytes) -> bytes:
    """A header of a tar archive that says that this many bytes follow it, and the bytes that do."""
    entry = tarfile.TarInfo("PaxHeader")
    entry.type, entry.size = kind, size
    return entry.tobuf(tarfile.GNU_FORMAT) + body.ljust(-(-len(body) // 512) * 512, b"\0")


def extended(body: bytes) -> bytes:
    return header(tarfile.XHDTYPE, len(body), body)


DAMAGED = {
    "length of a record": extended(b"99999999999999999999 x=y\n"),
    "length of 5000 digits": extended(b"9" * 5000 + b" x=y\n"),
    "sparse map without numbers": extended(b"22 GNU.sparse.map=1,x\n"),
    "sparse size without a number": extended(b"22 GNU.sparse.size=nan\n"),
    "header of many exabytes": header(tarfile.XHDTYPE, 2**63 - 1024, b""),
    "header beyond an integer": header(tarfile.GNUTYPE_LONGNAME, 2**70, b""),
    "header of negative length": header(tarfile.XHDTYPE, -1024, b""),
    "thousands of nested headers": extended(b"6 x=y\n") * 1000,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_archive_in_the_folder_stops_no_backup(node: NodeFolder, kept: Path, clock: HandClock, name: str) -> None:
    file = kept / "damaged.tar"
    make_backup(source_of(node), kept / "whole.tar", clock)
    file.write_bytes(DAMAGED[name] + (kept / "whole.tar").read_bytes())
    (kept / "whole.tar").unlink()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # the default, which importing web3 changes
    try:
        with pytest.raises(ConfigurationError, match=r"damaged\.tar: is damaged or truncated: .*[A-Za-z].*\. Take another"):
            read_manifest(file)
        BackupJob(source_of(node), BackupSettings(kept), clock).run()
    finally:
        sys.setrecursionlimit(limit)
    assert len(files(kept)) == 2


def test_late_backup_fails_the_check_and_duties_go_on(
    node: NodeFolder, kept: Path, clock: HandClock, capsys: pytest.CaptureFixture[str]
) -> None:
    readiness = ReadinessRegistry()
    job = BackupJob(source_of(node), BackupSettings(kept, every_h=1), clock)
    job.add_check(readiness)
    assert not job.check().ok and value_of("bytewise_backup_timestamp_seconds") == 0
    job.run()
    assert job.check().ok and "backup_age" in {each.name for each in readiness.checks()}
    clock.seconds += 2 * HOUR_S + 1
    assert not job.check().ok
    shutil.rmtree(kept)
    job.run()
    job.run()
    said = capsys.readouterr().err
    assert '"backup.failed"' in said and not job.check().ok


@pytest.mark.parametrize("name", ["absent", "x" * 300], ids=["missing", "unreadable"])
def test_node_without_its_backup_folder_runs_and_its_check_fails(
    node: NodeFolder, tmp_path: Path, clock: HandClock, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mount that is missing after a reboot keeps no member from its votes. The operating system refuses the long name."""
    job = BackupJob(source_of(node), BackupSettings(tmp_path / name), clock)
    assert not job.check().ok and f"{name} is no folder" in job.check().value
    assert value_of("bytewise_backup_timestamp_seconds") == 0, "BytewiseBackupLate fires"
    job.run()
    assert capsys.readouterr().err.count('"backup.failed"') == 1


def test_impossible_number_of_backups_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        BackupSettings(tmp_path, keep=0)


def test_copy_of_either_kind_is_restored_whole(
    node: NodeFolder, tmp_path: Path, clock: HandClock, databases: Databases, fresh: Callable[[], str]
) -> None:
    manifest = make_backup(source_of(node), tmp_path / "node.tar", clock)
    into = tmp_path / "into"
    into.mkdir()
    unpack_backup(tmp_path / "node.tar", into)
    verify_backup(into, manifest, into / "files" / "journal.key")
    copy = next(into.glob("database.*"))
    if manifest.database == "sqlite":
        target = f"sqlite:///{tmp_path / 'new.db'}"
    else:
        target = empty_server_database(fresh())
    done = restore_database(copy, {}, target, manifest, clock, is_newest=False)
    assert done == (2, 0)
    engine = open_database(target)
    assert Protection(engine, clock).rows() == node.table.rows()
    fence = RestoreFence(engine).restored
    assert fence is not None and fence.restored_at == clock.now()
    with pytest.raises(ConfigurationError, match="never overwritten"):
        restore_database(copy, {}, target, manifest, clock, is_newest=False)
    engine.dispose()


def empty_server_database(url: str) -> str:
    """A database of the server without a table."""
    engine = open_database(url)
    with engine.connect() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
        connection.commit()
    engine.dispose()
    return url


def test_copy_that_no_database_can_be_read_from_is_refused(tmp_path: Path) -> None:
    noise, folder = tmp_path / "a" / SQLITE, tmp_path / "b" / SQLITE
    folder.mkdir(parents=True)
    noise.parent.mkdir()
    noise.write_bytes(b"no database " * 1000)
    for copy in (noise, folder):
        with pytest.raises(ConfigurationError, match="is no sound database"):
            verify_copy(copy)


@pytest.mark.parametrize(
    ("script", "limit_s", "error", "why"),
    [
        ("exec sleep 60", 0.2, TryAgain, "pg_dump is unavailable: it was stopped after 0.2 s"),
        ("printf '\\374ber\\n' >&2; exit 1", 60.0, ConfigurationError, "pg_dump: .ber"),
    ],
    ids=["too slow", "message that is no UTF-8"],
)
def test_failure_of_pg_dump_is_one_that_a_job_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, limit_s: float, error: type[BytewiseError], why: str
) -> None:
    tool = tmp_path / "pg_dump"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(database_copy, "LIMIT_S", limit_s)
    # The tool connects, and this engine never does, so the driver of PostgreSQL need not be installed.
    engine = create_engine("postgresql+pg8000://ada:secret@127.0.0.1:1/node", module=sqlite3)
    with pytest.raises(error, match=why):
        database_copy.copy_database(engine, tmp_path)


def test_sqlite_file_that_cannot_be_opened_fails_the_backup_alone(tmp_path: Path) -> None:
    gone = open_database(f"sqlite:///{tmp_path / 'absent' / 'node.db'}")
    with pytest.raises(TryAgain, match="unable to open database file"):
        database_copy.copy_database(gone, tmp_path)
    whole = open_database(f"sqlite:///{tmp_path / 'node.db'}")
    with pytest.raises(ConfigurationError, match="unable to open database file: the database was not copied"):
        database_copy.copy_database(whole, tmp_path / "absent")


def test_votes_that_come_during_the_copy_are_in_the_export(node: NodeFolder, tmp_path: Path, clock: HandClock) -> None:
    """The export is read after the copy, so a restore misses no vote that was there when the backup ended."""
    manifest = make_backup(source_of(node), tmp_path / "node.tar", clock)
    into = tmp_path / "into"
    into.mkdir()
    unpack_backup(tmp_path / "node.tar", into)
    node.table.sign_once(vote(dispute=7, voter=KEY.address), Blob(b""))
    (into / VOTES).write_bytes(node.table.export())
    verify_backup(into, manifest, None)
    if manifest.database == "sqlite":
        done = restore_database(next(into.glob("database.*")), {}, f"sqlite:///{tmp_path / 'n.db'}", manifest, clock, True)
        assert done.votes == 3


def test_backup_of_another_schema_is_refused(node: NodeFolder, tmp_path: Path, clock: HandClock) -> None:
    manifest = make_backup(source_of(node), tmp_path / "node.tar", clock)
    with pytest.raises(ConfigurationError, match="0000"):
        verify_backup(tmp_path, replace(manifest, revision="0000", made_at=U64(1)), None)
