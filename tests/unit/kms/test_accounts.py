"""A shard's account at rest: sealed for its own address, and taken out of the open file of older folders, also after a crash."""

import contextlib
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import kms.__main__
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import Blob
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise.service.secret import write_secret
from kms import backup
from kms.backup import back_up, restore
from kms.storage import files, keyring
from kms.storage.keyring import PLAIN_KEY, SEALED_KEY, SealedAccount
from kms.storage.sealing import STORAGE_KEY, StorageKeySource, open_sealer
from tests.fixtures.kms.process_settings import config
from tests.fixtures.kms.release_network import World


def folder_of(world: World, index: int = 1) -> Path:
    return world.settings.shards[index - 1].folder


def as_before(folder: Path) -> bytes:
    """A folder of before ADR-041: the signing key as hex in a file. The key."""
    key = keyring.open_account(folder).secret
    (folder / SEALED_KEY).unlink()
    write_secret(folder / PLAIN_KEY, key.hex().encode())
    return key


def test_account_key_is_in_no_file_and_its_address_needs_no_storage_key(fresh: World) -> None:
    folder = folder_of(fresh)
    key, storage = keyring.open_account(folder).secret, folder / "storage.key"
    for path in folder.iterdir():
        assert key not in path.read_bytes() and key.hex().encode() not in path.read_bytes(), path.name
    storage.rename(folder.parent / "elsewhere.key")
    assert keyring.address_of(folder) == fresh.document.record.shards[0].address
    with pytest.raises(ConfigurationError, match=r"storage\.key"):
        keyring.open_account(folder)
    assert keyring.open_account(folder, open_sealer(folder, StorageKeySource(folder.parent / "elsewhere.key"))).secret == key


@pytest.mark.parametrize("how", ["other address", "other shard's", "cut off", "no account", "missing"])
def test_altered_account_or_one_of_another_shard_is_named(fresh: World, how: str) -> None:
    folder, other = folder_of(fresh), folder_of(fresh, 2)
    path = folder / SEALED_KEY
    stored = decode(SealedAccount, path.read_bytes())
    match how:
        case "other address":
            path.write_bytes(encode(replace(stored, address=keyring.address_of(other))))
        case "other shard's":
            shutil.copy(other / SEALED_KEY, path)
        case "cut off":
            path.write_bytes(encode(replace(stored, sealed=Blob(stored.sealed[:-1]))))
        case "no account":
            path.write_bytes(b"{}")
        case _:
            path.unlink()
    problem = {"missing": "account is missing", "no account": SEALED_KEY}.get(how, "does not open under the storage key")
    with pytest.raises(ConfigurationError, match=problem):
        keyring.open_account(folder)


def test_plaintext_key_is_refused_by_every_command_and_sealed_by_wrap(
    fresh: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, records = folder_of(fresh), fresh.records(1)
    key, settings = as_before(folder), config(fresh, 1)
    for tool in (
        lambda: fresh.shard(1),
        lambda: keyring.shard_entry(folder, "https://127.0.0.1:1", "127.0.0.1:2"),
        lambda: back_up(folder, tmp_path / "backup", b"k" * 32, records, SystemClock(), os.urandom),
    ):
        with pytest.raises(ConfigurationError, match=r"signing\.key: is not sealed.* run `bytewise shard wrap`"):
            tool()
    monkeypatch.setattr(sys, "argv", ["kms", "wrap", "--config", str(settings)])
    for code in (Exit.OK, Exit.USAGE):
        assert kms.__main__.main() == code
        assert keyring.open_account(folder).secret == key and not (folder / PLAIN_KEY).exists()
    assert "wrap_command: is missing" in capsys.readouterr().err, "nothing is left to seal, and nothing is wrapped"
    fresh.shard(1)


def test_old_backup_restores_the_plaintext_key_which_is_then_sealed(fresh: World, tmp_path: Path) -> None:
    folder, records = folder_of(fresh), fresh.records(1)
    account, key = keyring.address_of(folder), as_before(folder)
    with pytest.MonkeyPatch.context() as old:
        old.setattr(backup, "FILE_NAMES", (STORAGE_KEY, PLAIN_KEY))
        old.setattr(keyring, "address_of", lambda _: account)
        back_up(folder, tmp_path / "before", b"k" * 32, records, SystemClock(), os.urandom)
    for path in folder.glob("*.key"):
        path.unlink()
    assert PLAIN_KEY in restore(tmp_path / "before", b"k" * 32, folder, records, None).written
    with pytest.raises(ConfigurationError, match="run `bytewise shard wrap`"):
        keyring.open_account(folder)
    assert keyring.seal_account(folder, open_sealer(folder))
    assert keyring.open_account(folder).secret == key


def test_wrap_refuses_a_key_file_of_another_folder(
    fresh: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Control: the same settings with the folder's own key in that file."""
    folder = folder_of(fresh)
    key, settings, elsewhere = as_before(folder), config(fresh, 1), tmp_path / "elsewhere.key"
    write_secret(elsewhere, (b"\x07" * 32).hex().encode())
    settings.write_text(settings.read_text() + f'storage_key_file = "{elsewhere}"\n')
    monkeypatch.setattr(sys, "argv", ["kms", "wrap", "--config", str(settings)])
    assert kms.__main__.main() != 0 and "elsewhere.key is another key than storage.key" in capsys.readouterr().err
    assert (folder / PLAIN_KEY).exists() and not (folder / SEALED_KEY).exists()
    elsewhere.unlink()
    shutil.copy(folder / STORAGE_KEY, elsewhere)
    assert kms.__main__.main() == 0
    assert keyring.open_account(folder).secret == key and not (folder / PLAIN_KEY).exists()


@pytest.mark.parametrize("moment", ["sealed", "wiped", "done"])
def test_wrap_killed_while_sealing_the_account_is_resumed(fresh: World, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Before the open file is overwritten, with zeros in it, and when it is gone."""
    folder = folder_of(fresh)
    key = as_before(folder)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if moment == "sealed":
            patch.setattr(keyring, "wipe", die)
        if moment == "wiped":
            unlink = Path.unlink
            patch.setattr(Path, "unlink", lambda path, **more: (die if path.name == PLAIN_KEY else unlink)(path, **more))
        with contextlib.nullcontext() if moment == "done" else pytest.raises(KeyboardInterrupt):
            keyring.seal_account(folder, open_sealer(folder))
    assert not keyring.seal_account(folder, open_sealer(folder)) or moment == "sealed"
    assert not (folder / PLAIN_KEY).exists() and keyring.open_account(folder).secret == key


@pytest.mark.parametrize("sealed", [True, False])
def test_malformed_plaintext_key_is_named_and_left_unchanged(fresh: World, sealed: bool) -> None:
    folder = folder_of(fresh)
    if not sealed:
        (folder / SEALED_KEY).unlink()
    for number in ("00" * 32, "ff" * 32):
        (folder / PLAIN_KEY).unlink(missing_ok=True)
        write_secret(folder / PLAIN_KEY, number.encode())
        with pytest.raises(ConfigurationError, match=r"signing\.key: not a private key of secp256k1") as caught:
            keyring.seal_account(folder, open_sealer(folder))
        assert str(2**256 - 1) not in str(caught.value)
        assert (folder / PLAIN_KEY).read_text() == number and (folder / SEALED_KEY).exists() == sealed


def test_one_wrap_runs_at_a_time(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(fresh)
    key = as_before(folder)
    monkeypatch.setattr(sys, "argv", ["kms", "wrap", "--config", str(config(fresh, 1))])
    with files.lock_for_change(folder):
        assert kms.__main__.main() == 64
        assert (folder / PLAIN_KEY).exists() and not (folder / SEALED_KEY).exists()
    assert kms.__main__.main() == Exit.OK
    assert keyring.open_account(folder).secret == key


def test_plaintext_key_of_another_account_is_left_unchanged(fresh: World) -> None:
    folder = folder_of(fresh)
    before = (folder / SEALED_KEY).read_bytes()
    write_secret(folder / PLAIN_KEY, (b"\x11" * 32).hex().encode())
    with pytest.raises(ConfigurationError, match="another key than"):
        keyring.seal_account(folder, open_sealer(folder))
    assert (folder / PLAIN_KEY).exists() and (folder / SEALED_KEY).read_bytes() == before
