"""`bytewise shard init`: a folder from which a shard starts, all of it or nothing."""

import dataclasses
import json
import resource
import shlex
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

import kms.__main__
from bytewise.protocol.encoding import decode
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.keys.ceremony import ShardContact
from bytewise.protocol.units import ZERO_ADDRESS, ZERO_DIGEST
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import load_settings
from bytewise.storage.engine import check_revision, open_database
from bytewise.storage.migrations import migrate as migration
from chain.client.address_book import write_network
from cli.__main__ import main
from kms.settings import ShardSettings
from kms.storage import keyring
from kms.storage.sealing import open_sealer
from tests.fixtures.kms import key_wrapper
from tests.fixtures.verifier.verifier_fixture import NETWORK

WRAPPER = Path(key_wrapper.__file__)
COORDINATOR, GOVERNORS = "0x" + "5c" * 20, ["0x" + f"{n:02x}" * 20 for n in (1, 2, 3)]
URL, CHANNEL = "https://shard-1.example:7001", "shard-1.example:7002"

Init = Callable[..., int]
"""Runs the verb with a folder's name and options; the exit code."""


@pytest.fixture
def init(tmp_path: Path) -> Init:
    write_network(tmp_path / "network.json", NETWORK)

    def run(name: str, *options: str) -> int:
        given = [
            "--url", URL, "--channel", CHANNEL, "--coordinator", COORDINATOR, "--network", str(tmp_path / "network.json"),
            *options,
        ]  # fmt: skip
        return main(["shard", "init", str(tmp_path / name), *given])

    return run


def governed(*more: str) -> list[str]:
    return [word for each in GOVERNORS for word in ("--governor", each)] + list(more)


def test_test_network_shard_gets_keys_database_and_settings_that_load(init: Init, tmp_path: Path) -> None:
    assert init("shard", "--simulated") == Exit.OK
    folder = tmp_path / "shard"
    settings = load_settings(ShardSettings, folder / "bytewise.toml", "shard")
    assert (settings.host, settings.port, settings.channel_port, settings.coordinator) == (
        "shard-1.example", 7001, 7002, COORDINATOR,
    )  # fmt: skip
    assert settings.evidence is EvidenceType.SIMULATED and settings.insecure_accept_simulated
    assert settings.folder.samefile(folder) and settings.network_file == tmp_path / "network.json"
    assert settings.rpc.urls == ("http://127.0.0.1:8545",) and not settings.production and settings.finality == "finalized"
    assert not settings.epoch_file.exists(), "before a ceremony it takes part in ceremonies only"
    check_revision(open_database(settings.database_url))
    entry = decode(ShardContact, (folder / "entry.json").read_bytes())
    assert entry == keyring.shard_entry(folder, URL, CHANNEL)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE((folder / name).stat().st_mode) == 0o600 for name in ("storage.key", "signing.sealed", "tls.key"))


def test_real_network_shard_needs_governors_and_several_nodes_as_quorum(init: Init, tmp_path: Path) -> None:
    assert init("shard", *governed(), "--rpc", "http://a", "--rpc", "http://b", "--rpc", "http://c") == Exit.OK
    settings = load_settings(ShardSettings, tmp_path / "shard" / "bytewise.toml", "shard")
    assert settings.production and settings.policy_governors == tuple(GOVERNORS) and settings.policy_threshold == 2
    assert (settings.rpc.urls, settings.rpc.quorum) == (("http://a", "http://b", "http://c"), 2)


def test_two_shards_share_no_key(init: Init, tmp_path: Path) -> None:
    assert init("one", "--simulated") == init("two", "--simulated") == Exit.OK
    for name in ("storage.key", "signing.sealed", "tls.key"):
        assert (tmp_path / "one" / name).read_bytes() != (tmp_path / "two" / name).read_bytes()


def test_every_shard_setting_is_explained_directly_or_by_its_group(init: Init, tmp_path: Path) -> None:
    assert init("shard", *governed()) == init("test", "--simulated") == Exit.OK
    lines = [line for name in ("shard", "test") for line in (tmp_path / name / "bytewise.toml").read_text().splitlines()]
    named = {line.removeprefix("# ").partition(" = ")[0] for line in lines if " = " in line}
    assert {field.name for field in dataclasses.fields(ShardSettings)} - named == {"rpc_urls", "metrics"}
    assert "[shard.metrics]" in lines
    assert "set rpc_urls" in "\n".join(lines)


def test_existing_folder_is_left_unchanged(init: Init, tmp_path: Path) -> None:
    assert init("shard", "--simulated") == Exit.OK
    before = {path.name: path.read_bytes() for path in (tmp_path / "shard").iterdir()}
    assert init("shard", "--simulated") == Exit.USAGE
    assert {path.name: path.read_bytes() for path in (tmp_path / "shard").iterdir()} == before


@pytest.mark.parametrize("most", [100, 100_000])
def test_a_full_disk_is_named_and_leaves_nothing(
    init: Init, tmp_path: Path, capsys: pytest.CaptureFixture[str], most: int
) -> None:
    """With room for no more than the keys the database is not written, with less not even these."""
    before, limits = sorted(tmp_path.iterdir()), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        code = init("shard", "--simulated")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    said = " ".join(capsys.readouterr().err.split())
    assert code == Exit.USAGE and ("cannot be written: " if most > 1000 else "File too large: nothing was made") in said
    assert sorted(tmp_path.iterdir()) == before


def test_sealing_key_is_elsewhere_or_wrapped_if_asked_for_now_or_later(
    init: Init, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "service.key").write_bytes(Fernet.generate_key())
    wrap, unwrap = ([sys.executable, str(WRAPPER), str(tmp_path / "service.key"), verb] for verb in ("wrap", "unwrap"))
    assert init("elsewhere", "--simulated", "--storage-key", str(tmp_path / "own.key")) == Exit.OK
    assert init("wrapped", "--simulated", "--wrap", shlex.join(wrap), "--unwrap", shlex.join(unwrap)) == Exit.OK
    assert init("later", "--simulated") == Exit.OK
    later = tmp_path / "later" / "bytewise.toml"
    sealed = open_sealer(tmp_path / "later").seal(b"a share", ZERO_DIGEST)
    commands = f"wrap_command = {json.dumps(wrap)}\nunwrap_command = {json.dumps(unwrap)}\n"
    later.write_text(later.read_text().replace("[shard]\n", f"[shard]\n{commands}"))
    monkeypatch.setattr(sys, "argv", ["kms", "wrap", "--config", str(later)])
    assert kms.__main__.main() == 0
    for name, has in {"elsewhere": set(), "wrapped": {"storage.wrapped"}, "later": {"storage.wrapped"}}.items():
        settings = load_settings(ShardSettings, tmp_path / name / "bytewise.toml", "shard")
        assert {path.name for path in settings.folder.glob("storage.*")} == has
        sealer = open_sealer(settings.folder, settings.sealing)
        assert sealer.open(sealer.seal(b"x", ZERO_DIGEST), ZERO_DIGEST).reveal() == b"x"
    assert sealer.open(sealed, ZERO_DIGEST).reveal() == b"a share"
    assert init("fails", "--simulated", "--wrap", "false", "--unwrap", "false") == Exit.UNAVAILABLE
    assert not list(tmp_path.glob("*fails*"))


WRONG = {
    "no governors of a real network": [],
    "more governors needed than there are": governed("--governors-needed", "4"),
    "one governor counted twice": ["--governor", GOVERNORS[0], "--governor", GOVERNORS[0], "--governors-needed", "2"],
    "a governor that is no account": ["--governor", "0x12"],
    "a coordinator that is no account": ["--simulated", "--coordinator", "coordinator"],
    "no TLS": ["--simulated", "--url", "http://127.0.0.1:7001"],
    "no port": ["--simulated", "--url", "https://127.0.0.1"],
    "a port that is none": ["--simulated", "--url", "https://127.0.0.1:70010"],
    "a path behind the address": ["--simulated", "--url", "https://127.0.0.1:7001/shard"],
    "a name before the address": ["--simulated", "--url", "https://me@127.0.0.1:7001"],
    "no port of channels": ["--simulated", "--channel", "127.0.0.1"],
    "channels under a URL": ["--simulated", "--channel", "https://127.0.0.1:7002"],
    "channels where HTTPS is": ["--simulated", "--channel", URL.removeprefix("https://")],
    "a line end in the address": ["--simulated", "--url", URL + "\n"],
    "a node that is no URL": ["--simulated", "--rpc", "nonsense"],
    "one of two nodes that is no HTTP": ["--simulated", "--rpc", "http://a", "--rpc", "ftp://x"],
    "a node with a line end": ["--simulated", "--rpc", "http://a\n"],
    "a coordinator that nobody is": ["--simulated", "--coordinator", ZERO_ADDRESS],
    "a governor that nobody is": ["--governor", ZERO_ADDRESS],
    "one node twice": ["--simulated", "--rpc", "http://a", "--rpc", "http://a"],
    "a key that is a file and wrapped": ["--simulated", "--storage-key", "own.key", "--wrap", "cat", "--unwrap", "cat"],
    "a command that wraps and none that unwraps": ["--simulated", "--wrap", "cat"],
    "a command that wraps nothing": ["--simulated", "--wrap", "cat", "--unwrap", "cat"],
    "a command with a quote that does not end": ["--simulated", "--wrap", "cat '", "--unwrap", "cat"],
    "an address book that is none": ["--simulated", "--network", __file__],
    "no address book": ["--simulated", "--network", "nowhere.json"],
}


@pytest.mark.parametrize("options", WRONG.values(), ids=WRONG.keys())
def test_invalid_init_settings_create_nothing(init: Init, tmp_path: Path, options: list[str]) -> None:
    assert init("shard", *options) == Exit.USAGE
    assert [path.name for path in tmp_path.iterdir()] == ["network.json"]


def test_folder_within_a_missing_one_creates_nothing(init: Init, tmp_path: Path) -> None:
    assert init("nowhere/shard", "--simulated") == Exit.USAGE
    assert [path.name for path in tmp_path.iterdir()] == ["network.json"]


STORAGE_KEYS = {
    "in a folder that is not there": "nowhere/own.key", "in a file, as if it were a folder": "network.json/own.key",
    "in the new folder": "shard/own.key", "in a folder of the new one": "shard/keys/own.key",
    "in the new folder, another way": "keys/../shard/own.key", "the new folder itself": "shard",
}  # fmt: skip


@pytest.mark.parametrize("where", STORAGE_KEYS.values(), ids=STORAGE_KEYS.keys())
def test_unusable_storage_key_place_is_named_and_nothing_is_created(
    init: Init, tmp_path: Path, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init("shard", "--simulated", "--storage-key", str(tmp_path / where)) == Exit.USAGE
    assert str(tmp_path / where) in _unwrapped(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["network.json"]


def _unwrapped(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said, without the spaces and ends of lines that depend on how wide the terminal is."""
    return "".join(capsys.readouterr().err.split())


def test_existing_storage_key_of_another_shard_is_left_unchanged(
    init: Init, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init("one", "--simulated", "--storage-key", str(tmp_path / "one.key")) == Exit.OK
    (tmp_path / "none.key").write_text("not a key")
    (tmp_path / "empty.key").touch()
    (tmp_path / "link.key").symlink_to(tmp_path / "nothing.key")
    before = {path: path.read_bytes() for path in tmp_path.glob("*.key") if path.exists()}
    for name in ("one.key", "none.key", "empty.key", "link.key"):
        assert init("second", "--simulated", "--storage-key", str(tmp_path / name)) == Exit.USAGE
        assert f"{name}:exists" in _unwrapped(capsys)
    assert {path: path.read_bytes() for path in tmp_path.glob("*.key") if path.exists()} == before
    assert not list(tmp_path.glob("*second*"))
    assert init("one", "--simulated", "--storage-key", str(tmp_path / "one.key")) == Exit.USAGE
    assert "keysinitareneveroverwritten" in _unwrapped(capsys), "not: its key exists"


@pytest.mark.parametrize("key", [(), ("--storage-key", "own.key")], ids=["in the folder", "elsewhere"])
def test_failure_during_init_leaves_nothing(
    init: Init, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)

    def full(url: str) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(migration, "migrate", full)
    assert init("shard", "--simulated", *key) == Exit.USAGE
    assert [path.name for path in tmp_path.iterdir()] == ["network.json"]
