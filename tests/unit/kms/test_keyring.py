"""Keys at rest: private files, sealed shares, and a share that is not this shard's or this epoch's is refused."""

import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.keys.epochs import SealedShare
from bytewise.protocol.units import U64, Blob, Digest
from kms.ceremony import participant
from kms.storage import keyring
from kms.storage.sealing import open_sealer
from tests.fixtures.kms.dealer import DealSettings, DealShard, deal
from tests.fixtures.kms.release_network import World


def test_every_secret_file_is_readable_by_its_owner_only(world: World) -> None:
    for shard in world.settings.shards:
        for name in ("storage.key", "signing.sealed", "tls.key", "share-1.json"):
            assert stat.S_IMODE((shard.folder / name).stat().st_mode) == 0o600


def test_second_epoch_keeps_the_shards_other_keys_with_a_new_public_key(fresh: World) -> None:
    second = replace(fresh.settings, epoch=U64(2), out_file=fresh.folder / "epoch-2.json")
    document = deal(second, os.urandom)
    for before, after in zip(fresh.document.record.shards, document.record.shards, strict=True):
        assert (before.address, before.certificate) == (after.address, after.certificate)
        assert before.verification_key != after.verification_key
    assert document.record.public_key != fresh.document.record.public_key
    assert keyring.open_share(fresh.settings.shards[0].folder, document).index == 1


def test_an_epoch_is_never_dealt_twice(fresh: World) -> None:
    with pytest.raises(ConfigurationError):
        deal(fresh.settings, os.urandom)
    assert keyring.load_document(fresh.settings.out_file) == fresh.document


@pytest.mark.parametrize("how", ["other shard", "other key", "ciphertext", "index", "epoch", "missing", "garbage"])
def test_share_file_of_another_shard_is_refused(fresh: World, how: str) -> None:
    folder, other = (shard.folder for shard in fresh.settings.shards[:2])
    path = folder / "share-1.json"
    stored = decode(SealedShare, path.read_bytes())
    match how:
        case "other shard":
            shutil.copy(other / "share-1.json", path)
        case "other key":
            (folder / "storage.key").write_text("22" * 32)
        case "ciphertext":
            path.write_bytes(encode(replace(stored, ciphertext=Blob(stored.ciphertext[:-1] + b"\0"))))
        case "index":
            path.write_bytes(encode(replace(stored, index=2)))
        case "epoch":
            path.write_bytes(encode(replace(stored, epoch=U64(2))))
            shutil.move(path, folder / "share-2.json")
        case "missing":
            path.unlink()
        case _:
            path.write_bytes(b"{}")
    document = fresh.document
    if how == "epoch":
        document = replace(document, record=replace(document.record, epoch=U64(2)))
    if how == "other shard":
        (folder / "storage.key").write_bytes((other / "storage.key").read_bytes())
        assert keyring.open_share(folder, document).index == 2  # then the shard's account does not fit: see below
        with pytest.raises(ConfigurationError):
            fresh.shard(1)
        return
    with pytest.raises(ConfigurationError):
        keyring.open_share(folder, document)


def test_a_share_of_another_ceremony_does_not_fit_the_commitments(fresh: World, tmp_path: Path) -> None:
    shards = tuple(DealShard(tmp_path / "b" / f"s{n}", "https://127.0.0.1:1") for n in (1, 2, 3))
    other = deal(DealSettings(U64(1), 2, "simulated", tmp_path / "b.json", shards), os.urandom)
    with pytest.raises(ConfigurationError, match="does not fit"):
        keyring.open_share(fresh.settings.shards[0].folder, other)
    forged = replace(fresh.document, record=replace(fresh.document.record, public_key=other.record.public_key))
    with pytest.raises(ConfigurationError, match="commitments"):
        keyring.open_share(fresh.settings.shards[0].folder, forged)


def test_share_in_memory_is_not_printed(world: World) -> None:
    held = keyring.open_share(world.settings.shards[0].folder, world.document)
    assert str(held.scalar()) not in repr(held) and not hasattr(held, "__dict__")


def test_unreadable_document_or_certificate_is_named(fresh: World) -> None:
    document, folder = fresh.settings.out_file, fresh.settings.shards[0].folder
    document.write_bytes(b"{}")
    with pytest.raises(ConfigurationError, match=r"epoch\.json"):
        keyring.load_document(document)
    (folder / "tls.pem").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match=r"tls\.pem: UnicodeDecodeError"):
        keyring.certificate(folder)
    for path in (document, folder / "tls.pem"):
        path.unlink()
    with pytest.raises(ConfigurationError, match=r"epoch\.json: .*No such file"):
        keyring.load_document(document)
    with pytest.raises(ConfigurationError, match=r"tls\.pem: FileNotFoundError"):
        keyring.certificate(folder)


def test_sealed_value_opens_only_for_its_purpose(world: World) -> None:
    """Shares, ML-KEM keys, the account and seeds of ceremonies lie under one key: whoever writes files could swap them."""
    sealer = open_sealer(world.settings.shards[0].folder)
    names = [(epoch, index) for epoch in (1, 2) for index in (1, 2)]
    accounts_of = [keyring.account_context(each.address) for each in world.document.record.shards]
    contexts = [
        *(keyring.share_context(*each) for each in names), *(keyring.kem_context(*each) for each in names), *accounts_of,
        *(participant.seed_context(Digest(bytes([n]) * 32)) for n in (1, 2)),
    ]  # fmt: skip
    for own in contexts:
        sealed = sealer.seal(b"secret", own)
        assert sealer.open(sealed, own).reveal() == b"secret"
        for other in set(contexts) - {own}:
            with pytest.raises(ConfigurationError, match="does not open what it sealed"):
                sealer.open(sealed, other)
    assert len(set(contexts)) == len(contexts)


@pytest.mark.parametrize("name", ["share-1.json", "share-1.draft", "share-1-0a1b.draft", "kem-1-0a1b.sealed", "kem-1-0a1b.draft"])
def test_share_files_left_by_a_restore_or_crash_are_erased_too(fresh: World, name: str) -> None:
    """With its file's name a draft opens, and so does the copy of a restore that died."""
    folder = fresh.settings.shards[0].folder
    restoring = folder / keyring.RESTORING
    restoring.mkdir()
    left = [restoring / name, *([folder / name] if name.endswith(".draft") else [])]
    for path in left:
        path.write_bytes(b"sealed")
    keyring.erase_all(folder, 1)
    assert not any(path.exists() for path in left) and not list(folder.glob("share-1*"))
