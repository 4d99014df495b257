"""The inbox of a watchtower: old receipts go, so that the folder and what is read at each step stay bounded."""

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bytewise.protocol.encoding import to_json
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.records.receipt import SignedReceipt
from bytewise.protocol.units import U64
from bytewise.service.sections import HousekeepingSettings
from bytewise.service.settings import load_settings
from bytewise.storage.engine import open_database
from bytewise.storage.retention import Horizon, housekeeping_job
from tests.fixtures.builders import ANCHOR
from tests.fixtures.metric_values import value_of
from tests.fixtures.storage.special_files import SPECIAL_FILES
from tests.fixtures.verifier.node_file import node_file
from tests.fixtures.verifier.verifier_fixture import WORLD, VerifierFixture
from verifier.settings import NodeSettings
from verifier.watch.receipt_inbox import MAX_PROMISE_S, ReceiptInbox

DISPUTE_S, STAKE_S = 1_000, 2_000


@pytest.fixture
def signed(tmp_path: Path) -> SignedReceipt:
    (tmp_path / "node").mkdir()
    return VerifierFixture(tmp_path / "node").signed(1)


@pytest.fixture
def folder(tmp_path: Path, signed: SignedReceipt) -> Path:
    """A receipt, and files that are none."""
    made = tmp_path / "inbox"
    made.mkdir()
    (made / "receipt.json").write_text(json.dumps(to_json(signed)))
    os.utime(made / "receipt.json", (signed.receipt.issued_at,) * 2)
    (made / "broken.json").write_text("{")
    (made / "notes.txt").write_text("mine")
    return made


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_receipt_goes_once_nothing_can_be_done_with_it(folder: Path, signed: SignedReceipt) -> None:
    inbox, at = ReceiptInbox(folder, ANCHOR), int(signed.receipt.anchor_by)
    os.utime(folder / "broken.json", (at, at))
    assert len(inbox.receipts()) == 1
    assert inbox.prune(at) == 0 and len(names(folder)) == 3
    assert inbox.prune(at + 1) == 2 and names(folder) == ["notes.txt"]
    assert inbox.receipts() == {} and inbox.prune(at + 1) == 0


def test_promise_without_bound_is_logged_once_and_not_kept_for_ever(
    folder: Path, signed: SignedReceipt, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.json").unlink()
    endless = WORLD.sign(replace(signed.receipt, anchor_by=U64(2**64 - 1)))
    (folder / "receipt.json").write_text(json.dumps(to_json(endless)))
    at = int(signed.receipt.issued_at)
    os.utime(folder / "receipt.json", (at, at))
    inbox = ReceiptInbox(folder, ANCHOR)
    assert [len(inbox.receipts()) for _ in range(2)] == [1, 1]
    assert capfd.readouterr().err.count("inbox.promise_too_late") == 1
    assert inbox.prune(at + MAX_PROMISE_S) == 0
    assert inbox.prune(at + MAX_PROMISE_S + 1) == 1 and names(folder) == ["notes.txt"]


@pytest.mark.parametrize("name", ["network.json", "bytewise.toml", "other.toml"])
def test_folder_with_files_of_the_node_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_text("{}")
    with pytest.raises(ConfigurationError, match="settings or an address book"):
        ReceiptInbox(folder, ANCHOR)


@pytest.mark.parametrize(
    "changes", [{}, {"signer": {"key_file": "k", "password_file": "in/pw"}}, {"attention": {"folder": "in"}}]
)
def test_inbox_is_no_folder_of_the_nodes_own_files(tmp_path: Path, changes: dict[str, Any]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "alias").symlink_to("in" if changes else ".")
    settings = {"role": "watchtower", "executor": None, **changes}
    assert load_settings(NodeSettings, node_file(tmp_path, "sqlite:///x", inbox_folder="receipts", **settings)).inbox_folder
    with pytest.raises(ConfigurationError, match="deletes old files"):
        load_settings(NodeSettings, node_file(tmp_path, "sqlite:///x", inbox_folder="alias", **settings))


def test_file_that_changed_since_it_was_read_stays(folder: Path, signed: SignedReceipt) -> None:
    (folder / "broken.json").unlink()
    inbox = ReceiptInbox(folder, ANCHOR)
    inbox.receipts()
    (folder / "receipt.json").write_text("another receipt, still being copied")
    assert inbox.prune(int(signed.receipt.anchor_by) + 1) == 0
    assert "receipt.json" in names(folder)


@pytest.mark.parametrize("special", SPECIAL_FILES)
def test_special_file_in_the_inbox_is_refused_and_delays_nothing(
    folder: Path, signed: SignedReceipt, special: str, capfd: pytest.CaptureFixture[str]
) -> None:
    SPECIAL_FILES[special](folder / "special.json")
    inbox = ReceiptInbox(folder, ANCHOR)
    found, _ = inbox.receipts(), inbox.receipts()
    assert [each.receipt for each in found.values()] == [signed.receipt]
    assert capfd.readouterr().err.count('"file":"special.json"') == 1
    inbox.prune(2**40)
    assert names(folder) == ["notes.txt", "special.json"], "it deletes files only"


def test_young_unreadable_file_stays(folder: Path) -> None:
    inbox = ReceiptInbox(folder, ANCHOR)
    inbox.receipts()
    inbox.prune(int((folder / "broken.json").stat().st_mtime))
    assert "broken.json" in names(folder)


@pytest.mark.parametrize(("days", "age_s"), [(0, STAKE_S), (5, 5 * 86_400)])
def test_housekeeping_prunes_the_inbox_as_it_prunes_receipts(
    folder: Path, tmp_path: Path, signed: SignedReceipt, days: int, age_s: int
) -> None:
    engine: Engine = open_database(f"sqlite:///{tmp_path / 'node' / 'node.db'}")
    inbox, at = ReceiptInbox(folder, ANCHOR), int(signed.receipt.anchor_by)
    inbox.receipts()
    horizon = Horizon(at + age_s, DISPUTE_S, STAKE_S)
    settings = HousekeepingSettings(receipts_days=days)
    before = value_of("bytewise_housekeeping_deleted_total", what="inbox")
    housekeeping_job(engine, settings, lambda: horizon, threading.Event(), inbox.prune).run()
    assert "receipt.json" in names(folder)
    later = horizon._replace(clock=at + age_s + 1)
    housekeeping_job(engine, settings, lambda: later, threading.Event(), inbox.prune).run()
    assert "receipt.json" not in names(folder)
    assert value_of("bytewise_housekeeping_deleted_total", what="inbox") >= before + 1
    engine.dispose()
