"""`bytewise backup`: what it contains, what a restore makes of it, and every file and place that it refuses."""

import errno
import io
import json
import stat
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from bytewise.protocol import encoding
from bytewise.protocol.units import U256, Blob
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise.service.node_files.key_lock import hold_key
from bytewise.service.settings import load_settings
from bytewise.storage.backups.backup_file import MANIFEST, read_manifest
from bytewise.storage.backups.restore_fence import RestoreFence
from bytewise.storage.engine import open_database
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.protection import Protection
from bytewise.storage.tables import JournalRow
from chain.sending.keys import open_signer
from cli.__main__ import main
from tests.fixtures.storage.node_folder import KEY, PASSWORD, NodeFolder, member_folder
from tests.fixtures.storage.stored_records import vote
from tests.fixtures.verifier.verifier_fixture import NETWORK
from verifier.settings import NodeSettings

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeFolder]:
    made = member_folder(tmp_path / "node")
    yield made
    made.lease.engine.dispose()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a verb; its exit code, and all that it said in one line."""

    def call(verb: str, *words: object) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["backup", verb, *map(str, words)])
        said = capsys.readouterr()
        return code, " ".join((said.out + said.err).split())

    return call


@pytest.fixture
def backup(node: NodeFolder, run: Run, tmp_path: Path) -> Path:
    """A backup of the node in a folder of its own."""
    (tmp_path / "kept").mkdir()
    file = tmp_path / "kept" / "node.tar"
    assert run("make", file, "--config", node.config)[0] == Exit.OK
    return file


def content(file: Path) -> dict[str, bytes]:
    """Every member of an archive."""
    with tarfile.open(file) as archive:
        return {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]


def table_of(folder: Path) -> Protection:
    return Protection(open_database(f"sqlite:///{folder / 'node.db'}"), SystemClock())


def test_restored_node_has_votes_journal_keys_and_settings(node: NodeFolder, backup: Path, run: Run, tmp_path: Path) -> None:
    code, said = run("verify", backup)
    assert code == Exit.OK and "2 votes" in said
    code, said = run("restore", backup, tmp_path / "new")
    assert code == Exit.OK and "2 votes" in said and "put the password" in said and "never start the old node" in said
    new = tmp_path / "new"
    assert table_of(new).rows() == node.table.rows()
    database = open_database(f"sqlite:///{new / 'node.db'}")
    head = Journal(database, journal_key(new / "journal.key"), SystemClock()).verify_journal()
    assert head == node.journal().verify_journal()
    (new / "account.password").write_text(PASSWORD)
    (new / "account.password").chmod(0o600)
    assert open_signer(load_settings(NodeSettings, new / "node.json").signer, NETWORK).address == KEY.address
    assert {stat.S_IMODE(each.stat().st_mode) for each in new.iterdir()} == {0o600} and stat.S_IMODE(new.stat().st_mode) == 0o700
    fence = RestoreFence(database).restored
    assert fence is not None and fence.clock is None
    assert sorted(each.name for each in new.parent.iterdir()) == ["kept", "new", "node"], "no draft is left"


def test_only_its_owner_reads_the_file_and_no_password_is_in_it(node: NodeFolder, backup: Path, run: Run, tmp_path: Path) -> None:
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert "files/account.password" not in content(backup) and PASSWORD.encode() not in backup.read_bytes()
    code, said = run("make", tmp_path / "whole.tar", "--config", node.config, "--with-password")
    assert code == Exit.OK and "the password of its keystore is in it" in said
    assert content(tmp_path / "whole.tar")["files/account.password"] == PASSWORD.encode()
    assert [each.name for each in backup.parent.iterdir()] == ["node.tar"], "no draft is left"


def test_votes_of_a_newer_export_are_added(node: NodeFolder, backup: Path, run: Run, tmp_path: Path) -> None:
    node.table.sign_once(vote(dispute=9, voter=KEY.address), Blob(b""))
    export = tmp_path / "votes.json"
    export.write_bytes(node.table.export())
    code, said = run("restore", backup, tmp_path / "new", "--votes", export)
    assert code == Exit.OK and "3 votes, 1 of them from exports" in said
    assert table_of(tmp_path / "new").rows() == node.table.rows()


def test_contradicting_export_restores_nothing(backup: Path, run: Run, tmp_path: Path) -> None:
    other = member_folder(tmp_path / "other", votes=0)
    other.table.sign_once(vote(dispute=1, says=8, voter=KEY.address), Blob(b""))
    export = tmp_path / "votes.json"
    export.write_bytes(other.table.export())
    assert run("restore", backup, tmp_path / "new", "--votes", export)[0] == Exit.REFUSED
    assert not (tmp_path / "new").exists()


def test_stopped_node_that_moves_needs_no_fence(node: NodeFolder, backup: Path, run: Run, tmp_path: Path) -> None:
    assert run("restore", backup, tmp_path / "new", "--not-run-since")[0] == Exit.OK
    assert RestoreFence(open_database(f"sqlite:///{tmp_path / 'new' / 'node.db'}")).restored is None
    node.lease.acquire()
    assert run("make", tmp_path / "running.tar", "--config", node.config)[0] == Exit.OK
    code, said = run("restore", tmp_path / "running.tar", tmp_path / "newer", "--not-run-since")
    assert code == Exit.USAGE and "was made while the node ran" in said and not (tmp_path / "newer").exists()


def test_restore_is_refused_beside_a_process_that_uses_the_key(node: NodeFolder, backup: Path, run: Run, tmp_path: Path) -> None:
    with hold_key(node.config.parent / "account.json"):
        code, said = run("restore", backup, tmp_path / "new")
    assert code == Exit.REFUSED and "is used by process" in said and not (tmp_path / "new").exists()
    assert run("restore", backup, tmp_path / "new")[0] == Exit.OK


def test_older_backup_beside_a_newer_one_is_refused(node: NodeFolder, backup: Path, run: Run, tmp_path: Path) -> None:
    old = changed_manifest(backup, made_at="1000")
    code, said = run("restore", old, tmp_path / "new")
    assert code == Exit.REFUSED and "is not the newest: node.tar" in said and not (tmp_path / "new").exists()
    assert run("restore", old, tmp_path / "new", "--older")[0] == Exit.OK


def test_backup_of_another_network_is_refused(backup: Path, run: Run, tmp_path: Path) -> None:
    book = tmp_path / "book.json"
    book.write_bytes(encoding.encode(replace(NETWORK, chain_id=U256(1))))
    code, said = run("restore", backup, tmp_path / "new", "--network", book)
    assert code == Exit.USAGE and "chain 1" in said and not (tmp_path / "new").exists()
    book.write_bytes(encoding.encode(NETWORK))
    assert run("restore", backup, tmp_path / "new", "--network", book)[0] == Exit.OK


def test_folder_with_anything_in_it_stays_as_it_is(backup: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "node.db").write_bytes(b"newer votes")
    code, said = run("restore", backup, tmp_path / "full")
    assert code == Exit.USAGE and "is not empty" in said
    assert (tmp_path / "full" / "node.db").read_bytes() == b"newer votes"
    (tmp_path / "empty").mkdir()
    assert run("restore", backup, tmp_path / "empty")[0] == Exit.OK


def test_folder_that_cannot_be_made_is_named(backup: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(_: Path) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    code, said = run("restore", backup, "/proc/node")
    assert code == Exit.USAGE and "/proc/node" in said and "where you can write" in said, "nobody makes a folder there"
    (tmp_path / "mount").mkdir()
    monkeypatch.setattr(Path, "rmdir", busy)
    code, said = run("restore", backup, tmp_path / "mount")
    assert code == Exit.USAGE and "busy: name a new folder" in said


def test_existing_file_is_not_overwritten(node: NodeFolder, backup: Path, run: Run) -> None:
    before = backup.read_bytes()
    code, said = run("make", backup, "--config", node.config)
    assert code == Exit.USAGE and "never overwritten" in said and backup.read_bytes() == before


def test_files_outside_the_folder_are_named(node: NodeFolder, run: Run, tmp_path: Path) -> None:
    settings = json.loads(node.config.read_text())
    (tmp_path / "secret.json").write_bytes((node.config.parent / "account.json").read_bytes())
    (tmp_path / "secret.json").chmod(0o600)
    settings["signer"]["key_file"] = "../secret.json"
    node.config.write_bytes(encoding.encode(settings))
    code, said = run("make", tmp_path / "node.tar", "--config", node.config)
    assert code == Exit.OK and f"outside the node's folder: {tmp_path / 'secret.json'}" in said
    code, said = run("restore", tmp_path / "node.tar", tmp_path / "new")
    assert code == Exit.OK and f"put back before you start it: {tmp_path / 'secret.json'}" in said


def test_folders_that_the_backup_lacks_are_named(node: NodeFolder, run: Run, tmp_path: Path) -> None:
    settings = json.loads(node.config.read_text())
    settings["capsules"] = {"folder": "capsules"}
    node.config.write_bytes(encoding.encode(settings))
    (node.config.parent / "capsules").mkdir()
    code, said = run("make", tmp_path / "node.tar", "--config", node.config)
    assert code == Exit.OK and f"because it is a folder: {node.config.parent / 'capsules'}" in said


def test_database_outside_the_folder_is_refused(node: NodeFolder, run: Run, tmp_path: Path) -> None:
    settings = json.loads(node.config.read_text())
    (node.config.parent / "node.db").rename(tmp_path / "far.db")
    settings["db"]["url"] = f"sqlite:///{tmp_path / 'far.db'}"
    node.config.write_bytes(encoding.encode(settings))
    code, said = run("make", tmp_path / "node.tar", "--config", node.config)
    assert code == Exit.USAGE and "outside the node's folder" in said and not (tmp_path / "node.tar").exists()


def test_full_disk_or_missing_folder_leaves_no_file(node: NodeFolder, run: Run, tmp_path: Path) -> None:
    code, said = run("make", tmp_path / "absent" / "node.tar", "--config", node.config)
    assert code == Exit.USAGE and "no backup was made" in said
    code, said = run("restore", tmp_path / "absent.tar", tmp_path / "new")
    assert code == Exit.USAGE and "absent.tar" in said


def test_truncated_backup_is_refused(backup: Path, run: Run, tmp_path: Path) -> None:
    raw = backup.read_bytes()
    end = raw.rindex(b"manifest.sha256") + 512  # what follows is the padding of an archive
    for part in (0.0, 0.1, 0.5, 0.9, 0.999):
        backup.write_bytes(raw[: int(end * part)])
        for verb, *more in (("verify",), ("restore", tmp_path / "new")):
            code, said = run(str(verb), backup, *more)
            assert code == Exit.USAGE and "node.tar" in said and "Traceback" not in said, part
        assert not (tmp_path / "new").exists()


def test_one_changed_byte_of_any_member_is_found(backup: Path, run: Run) -> None:
    raw = backup.read_bytes()
    with tarfile.open(backup) as archive:
        members = [(each.name, each.offset_data, each.size) for each in archive]
    assert len(members) == 8
    for name, start, size in members:
        at = start + size // 2
        backup.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        code, said = run("verify", backup)
        assert code == Exit.USAGE and "damaged" in said, name


def test_backup_with_an_altered_journal_is_refused(node: NodeFolder, run: Run, tmp_path: Path) -> None:
    with node.lease.engine.begin() as connection:
        connection.execute(update(JournalRow).where(JournalRow.number == 1).values(body=b'{"round":9}'))
    file = tmp_path / "node.tar"
    assert run("make", file, "--config", node.config)[0] == Exit.OK
    for verb, *more in (("verify",), ("restore", tmp_path / "new")):
        code, said = run(str(verb), file, *more)
        assert code == Exit.USAGE and "node.tar" in said and "take an older backup" in said
    assert not (tmp_path / "new").exists()


def rewritten(backup: Path, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]) -> Path:
    """Another archive with changed members."""
    with tarfile.open(backup) as archive:
        members = [(each, archive.extractfile(each).read()) for each in archive]  # type: ignore[union-attr]
    change(members)
    file = backup.with_name("hostile.tar")
    with tarfile.open(file, "w") as archive:
        for entry, data in members:
            archive.addfile(entry, io.BytesIO(data) if entry.isreg() else None)
    return file


def changed_manifest(backup: Path, **changes: object) -> Path:
    """A backup with another manifest that is consistent with its end."""
    import hashlib

    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        document = json.loads(members[0][1]) | changes
        raw = encoding.encode(document)
        members[0][0].size = len(raw)
        members[0] = members[0][0], raw
        members[-1] = members[-1][0], hashlib.sha256(raw).hexdigest().encode()

    return rewritten(backup, change)


def renamed(name: str) -> Callable[[Path], Path]:
    """The second member has another name, in the manifest too."""

    def make(backup: Path) -> Path:
        members = json.loads(content(backup)[MANIFEST])["members"]
        members[0]["name"] = name
        draft = changed_manifest(backup, members=members)

        def change(found: list[tuple[tarfile.TarInfo, bytes]]) -> None:
            found[1][0].name = name

        return rewritten(draft, change)

    return make


def typed(kind: bytes, target: str) -> Callable[[Path], Path]:
    """The second member is a link or a device."""

    def change(found: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        found[1][0].type, found[1][0].linkname = kind, target

    return lambda backup: rewritten(backup, change)


def added(backup: Path) -> Path:
    entry = tarfile.TarInfo("files/evil")
    return rewritten(backup, lambda found: found.insert(1, (entry, b"")))


def twice(backup: Path) -> Path:
    document = json.loads(content(backup)[MANIFEST])
    draft = changed_manifest(backup, members=[document["members"][0], *document["members"]])
    return rewritten(draft, lambda found: found.insert(1, found[1]))


def no_settings(backup: Path) -> Path:
    return changed_manifest(backup, settings="other.toml")


HOSTILE: dict[str, Callable[[Path], Path]] = {
    "parent folder": renamed("files/../../escaped"), "absolute path": renamed("/escaped"),
    "hidden": renamed("files/.profile"),
    "symbolic link": typed(tarfile.SYMTYPE, "/etc/passwd"), "hard link": typed(tarfile.LNKTYPE, "manifest.json"),
    "device": typed(tarfile.CHRTYPE, ""), "fifo": typed(tarfile.FIFOTYPE, ""), "member that the manifest lacks": added,
    "member twice": twice, "settings that are not there": no_settings,
    "another format": lambda backup: changed_manifest(backup, format="bytewise-backup-2"),
    "another revision": lambda backup: changed_manifest(backup, revision="0000"),
    "another account": lambda backup: changed_manifest(backup, account="0x" + "ab" * 20),
    "unknown field": lambda backup: changed_manifest(backup, colour="red"),
    "no archive": lambda backup: backup.parent / "text.tar",
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_backup_is_refused_and_writes_nothing(backup: Path, run: Run, tmp_path: Path, case: str) -> None:
    (backup.parent / "text.tar").write_text("not an archive")
    file = HOSTILE[case](backup)
    before = sorted(tmp_path.rglob("*"))
    for verb, *more in (("verify",), ("restore", tmp_path / "new")):
        code, said = run(str(verb), file, *more)
        assert code == Exit.USAGE and "Traceback" not in said, said
    assert sorted(tmp_path.rglob("*")) == before


def test_settings_of_a_backup_cannot_name_a_database_elsewhere(node: NodeFolder, run: Run, tmp_path: Path) -> None:
    """A hostile file could name any place in its settings."""
    import hashlib

    assert run("make", tmp_path / "node.tar", "--config", node.config)[0] == Exit.OK
    settings = json.loads(node.config.read_text())
    settings["db"]["url"] = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    raw = encoding.encode(settings)
    members = json.loads(content(tmp_path / "node.tar")[MANIFEST])["members"]
    members[0] |= {"size": str(len(raw)), "sha256": "0x" + hashlib.sha256(raw).hexdigest()}
    draft = changed_manifest(tmp_path / "node.tar", members=members)

    def change(found: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        found[1][0].size = len(raw)
        found[1] = found[1][0], raw

    code, said = run("restore", rewritten(draft, change), tmp_path / "new")
    assert code == Exit.USAGE and "outside the node's folder" in said
    assert not (tmp_path / "elsewhere.db").exists() and not (tmp_path / "new").exists()


def test_manifest_names_network_account_schema_and_time(node: NodeFolder, backup: Path) -> None:
    manifest = read_manifest(backup)
    assert (manifest.chain_id, manifest.account, manifest.registry) == (NETWORK.chain_id, KEY.address, NETWORK.addresses.registry)
    assert (manifest.role, manifest.database, manifest.votes, manifest.was_running) == ("member", "sqlite", 2, False)
    assert abs(manifest.made_at - SystemClock().now()) < 600 and manifest.key_file.endswith("node/account.json")
