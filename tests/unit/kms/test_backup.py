"""A shard's folder from a sealed file: back with what the chain means, and never with what it means no more."""

import json
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete

from bytewise.protocol.errors.actors import ConfigurationError, StaleBackup, StoreCorrupt
from bytewise.protocol.keys.epochs import EpochState
from bytewise.protocol.units import Blob
from bytewise.service.clock import SystemClock
from bytewise.service.secret import write_secret
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.tables import ReleaseRow
from kms import backup
from kms.backup import RestoreResult, back_up, open_backup, restore
from kms.shard.service import verify_epoch_document
from kms.storage import keyring
from kms.storage.files import write_whole
from kms.storage.sealing import StorageKeySource
from tests.fixtures.kms.backup_station import KEY, OTHER_KEY, Station
from tests.fixtures.kms.release_network import World


@pytest.fixture
def station(fresh: World) -> Station:
    return Station(fresh)


def test_backup_changes_nothing_beside_its_file_and_names_a_bad_place(tmp_path: Path, station: Station) -> None:
    beside = tmp_path / "my.draft"
    beside.write_bytes(b"somebody's")
    given = (KEY, station.records, SystemClock(), os.urandom)
    back_up(station.folder, tmp_path / "my.backup", *given)
    assert beside.read_bytes() == b"somebody's"
    with pytest.raises(ConfigurationError, match="name a file in a folder that is there"):
        back_up(station.folder, tmp_path / "nowhere" / "my.backup", *given)


def test_all_keys_and_shares_are_restored_readable_by_the_owner_only(station: Station) -> None:
    """And the entry that new plans need. The log may have grown since the backup."""
    (station.folder / keyring.ENTRY).write_bytes(b"entry")
    station.back_up()
    assert open_backup(station.file, KEY).logs[0].index == 1
    station.release(3)
    before = station.lose()
    done = station.restore()
    assert station.content() == before and done.dropped == () and set(done.written) == set(before) and len(before) == 6
    assert {stat.S_IMODE((station.folder / name).stat().st_mode) for name in before} == {0o600}
    assert station.restore().written == done.written, "a restore that is asked for again is done already"
    station.release(4)


def test_backup_file_is_unreadable_without_its_key_and_no_byte_can_change(station: Station) -> None:
    sealed = station.file.read_bytes()
    assert stat.S_IMODE(station.file.stat().st_mode) == 0o600
    storage = bytes.fromhex((station.folder / "storage.key").read_text())
    for secret in (storage, keyring.open_account(station.folder).secret):
        assert secret not in sealed and secret.hex().encode() not in sealed
    with pytest.raises(ConfigurationError, match="another key"):
        open_backup(station.file, OTHER_KEY)
    for altered in (b"", sealed[:20], sealed[:-1], sealed + b"\0", *(_flipped(sealed, at) for at in range(0, len(sealed), 97))):
        station.file.write_bytes(altered)
        with pytest.raises(ConfigurationError, match="was altered"):
            open_backup(station.file, KEY)
    with pytest.raises(ConfigurationError):
        open_backup(station.folder / "nothing", KEY)
    with pytest.raises(ConfigurationError, match="exists"):
        back_up(station.folder, station.file, KEY, station.records, SystemClock(), os.urandom)


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_backup_from_before_a_resharing_is_refused_and_nothing_written(station: Station) -> None:
    station.deal_again()
    station.lose()
    with pytest.raises(StaleBackup, match="no share of version 1 of key epoch 1"):
        station.restore()
    assert station.content() == {}
    done = restore(station.file, KEY, station.folder, station.records, None)
    assert done.dropped == ("share-1.json",) and "signing.sealed" in done.written, "the others can repair the share now"


def test_wrong_external_storage_key_is_named_and_backup_not_called_stale(station: Station, tmp_path: Path) -> None:
    own, other = tmp_path / "own.key", tmp_path / "other.key"
    own.write_bytes((station.folder / "storage.key").read_bytes())
    own.chmod(0o600)
    write_secret(other, OTHER_KEY.hex().encode())
    (station.folder / "storage.key").unlink()
    station.back_up()
    before = station.lose()

    def under(key: Path) -> RestoreResult:
        return restore(station.file, KEY, station.folder, station.records, station.chain, StorageKeySource(key))

    with pytest.raises(ConfigurationError, match=r"other\.key.*does not open share-1\.json of the backup.*storage_key_file"):
        under(other)
    with pytest.raises(ConfigurationError, match=r"storage_key_file.*the backup contains no storage key"):
        station.restore()
    assert station.content() == {}
    under(own)
    assert station.content() == before, "the control: the file has the share that the chain means"
    shutil.copyfile(own, station.folder / "storage.key")
    (station.folder / "storage.key").chmod(0o600)
    station.deal_again()
    station.lose()
    with pytest.raises(StaleBackup, match="no share of version 1 of key epoch 1"):
        under(own)


def test_share_altered_before_the_backup_is_named(station: Station) -> None:
    share = station.folder / "share-1.json"
    stored = json.loads(share.read_bytes())
    stored["ciphertext"] = "0x" + _flipped(bytes.fromhex(stored["ciphertext"][2:]), 0).hex()
    share.write_bytes(json.dumps(stored, sort_keys=True, separators=(",", ":")).encode())
    station.back_up()
    station.lose()
    with pytest.raises(StaleBackup, match=r"share-1\.json does not open under the storage key that is in it"):
        station.restore()
    assert station.content() == {}


def test_restore_takes_only_shares_in_force_from_a_file_of_old_and_new(station: Station) -> None:
    commitments = station.deal_again()
    station.back_up()
    station.lose()
    assert station.restore().dropped == ("share-1.json",)
    assert keyring.find_share(station.folder, 1, commitments).index == 1
    with pytest.raises(ConfigurationError):
        keyring.find_share(station.folder, 1, station.world.document.commitments)


def drop(station: Station, *numbers: int) -> None:
    with write_transaction(open_database(f"sqlite:///{station.folder / 'kms.sqlite'}")) as connection:
        connection.execute(delete(ReleaseRow).where(ReleaseRow.number.in_(numbers)))


def fork(station: Station) -> None:
    """The shard served from an older database meanwhile: as long a log, with another last record."""
    drop(station, 1)
    station.release(3)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda station: drop(station, 0, 1), "ends before record 1, which this shard signed"),
        (lambda station: drop(station, 1), "ends before record 1, which this shard signed"),
        (fork, "is not the record that was signed"),
        (lambda station: drop(station, 0), "release records"),
    ],
    ids=["lost", "older", "forked", "with a hole"],
)
def test_keys_are_not_restored_beside_a_log_that_contradicts_signatures(
    station: Station, change: Callable[[Station], None], problem: str
) -> None:
    change(station)
    station.lose()
    with pytest.raises((StaleBackup, StoreCorrupt), match=problem):
        station.restore()
    assert station.content() == {}


def test_control_keys_beside_another_log_sign_two_records_of_one_number(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack 21 with the log not asked: whoever got the first record holds one that the shard's log contradicts."""
    first = station.world.shard(1).log(1).entries[-1]
    drop(station, 1)
    before = station.lose()
    monkeypatch.setattr(backup, "verify_logs", lambda backup, records: backup)
    station.restore()
    assert station.content() == before
    station.release(3)
    other = station.world.shard(1).log(1).entries[-1]
    assert (first.record.index, first.record.shard) == (other.record.index, other.record.shard) and first != other


def test_restore_replaces_nothing_in_the_folder(station: Station, tmp_path: Path) -> None:
    station.lose()
    keyring.create_keys(station.folder, "https://127.0.0.1:1", os.urandom)
    before = station.content()
    with pytest.raises(ConfigurationError, match="exists and differs"):
        station.restore()
    assert station.content() == before


def test_killed_restore_is_resumed(station: Station) -> None:
    before = station.lose()
    draft = station.folder / ".restoring"
    draft.mkdir()
    (draft / "share-9.json").write_bytes(b"half of a")
    write_whole(station.folder / "storage.key", before["storage.key"])
    station.restore()
    assert station.content() == before and not draft.exists()


def test_folder_restored_as_a_whole_does_not_serve_superseded_shares(station: Station) -> None:
    """An operator's own copy of the whole folder, epoch file included: its start asks the chain."""
    document = station.world.document
    assert verify_epoch_document(document, station.chain) == document
    whole = station.world.folder / "copy"
    shutil.copytree(station.folder, whole)
    station.deal_again()
    assert keyring.open_share(whole, document).index == 1, "the control: the folder itself is perfect"
    with pytest.raises(StaleBackup, match="the chain has version 1"):
        verify_epoch_document(document, station.chain)
    station.chain.epoch = replace(station.chain.epoch, state=EpochState.NONE, commitments=Blob(b""))
    assert verify_epoch_document(document, station.chain) == document, "an epoch that is not on the chain yet"
