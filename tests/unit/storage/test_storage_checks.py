"""Readiness of a process's storage: the database, the disk, the lease and a stop."""

import threading
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bytewise.protocol.units import Blob
from bytewise.service import readiness
from bytewise.service.readiness import ReadinessRegistry, watch_disk
from bytewise.storage.engine import open_database
from bytewise.storage.journal import Journal
from bytewise.storage.nonce_lease import NonceLease, hold_lease
from bytewise.storage.protection import Protection
from bytewise.storage.storage_checks import add_storage_checks, database_check, lease_check, sending_check
from tests.fixtures.metric_values import value_of
from tests.fixtures.storage.children import JOURNAL_KEY
from tests.fixtures.storage.hand_clock import HandClock
from tests.fixtures.storage.stored_records import ACCOUNT, vote


def lease(engine: Engine, clock: HandClock) -> NonceLease:
    return NonceLease(engine, clock, 1, ACCOUNT)


def test_lease_is_ready_only_in_the_process_that_holds_it(engine: Engine, clock: HandClock) -> None:
    ours, other = lease(engine, clock), lease(engine, clock)
    assert not lease_check(ours).ok
    with hold_lease(ours, threading.Event()):
        assert lease_check(ours).ok and not lease_check(other).ok
    assert not lease_check(ours).ok


def test_lease_that_ended_is_not_ours(engine: Engine, clock: HandClock) -> None:
    ours = lease(engine, clock)
    ours.acquire()
    assert ours.is_ours()
    clock.seconds += ours.ttl_s
    assert not ours.is_ours()


def test_stopped_sending_is_reported_with_its_reason(engine: Engine, clock: HandClock) -> None:
    ours = lease(engine, clock)
    assert sending_check(ours).ok
    ours.stop("nonce 7 was used by somebody else")
    found = sending_check(ours)
    assert not found.ok and found.value == "nonce 7 was used by somebody else" and "resume" in found.advice


def test_database_of_this_program_is_ready_and_measured(engine: Engine, clock: HandClock) -> None:
    assert database_check(engine).ok and value_of("bytewise_db_size_bytes") > 1000
    assert (value_of("bytewise_log_entries"), value_of("bytewise_protect_records")) == (0, 0)
    journal = Journal(engine, JOURNAL_KEY, clock)
    for number in range(3):
        journal.append("intent", b"", {"number": number})
    for round_number in (1, 2, 2):
        Protection(engine, clock).sign_once(vote(round_number=round_number), Blob(b""))
    assert database_check(engine).ok
    assert (value_of("bytewise_log_entries"), value_of("bytewise_protect_records")) == (3, 2)


def test_database_without_schema_is_not_ready(tmp_path: Path) -> None:
    found = database_check(open_database(f"sqlite:///{tmp_path / 'empty.db'}"))
    assert not found.ok and "no revision" in found.value


def test_storage_of_a_file_has_four_checks(tmp_path: Path, clock: HandClock) -> None:
    registry = ReadinessRegistry()
    file = open_database(f"sqlite:///{tmp_path / 'node.db'}")
    add_storage_checks(registry, file, lease(file, clock))
    names = {check.name for check in registry.checks()}
    assert names == {"database", "disk", "nonce_lease", "sending", "started"}
    assert value_of("bytewise_disk_free_bytes", path="data") > 0


def test_full_disk_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ReadinessRegistry()
    watch_disk(registry, tmp_path)
    monkeypatch.setattr(readiness, "MIN_FREE_BYTES", 2**62)
    found = next(check for check in registry.checks() if check.name == "disk")
    assert not found.ok and "Free space" in found.advice


def test_lost_folder_fails_its_check_and_hides_no_metric(tmp_path: Path) -> None:
    registry, folder = ReadinessRegistry(), tmp_path / "data"
    folder.mkdir()
    watch_disk(registry, folder)
    folder.rmdir()
    found = next(check for check in registry.checks() if check.name == "disk")
    assert not found.ok and str(folder) in found.value
    free = value_of("bytewise_disk_free_bytes", path="data")
    assert free != free
