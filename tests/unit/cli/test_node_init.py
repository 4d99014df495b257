"""`bytewise init`: a folder that every process of the role can read, with every setting in it; or nothing at all."""

import json
import re
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from eth_account import Account

from bytewise.service.exit_codes import Exit
from bytewise.service.secret import read_secret
from bytewise.service.settings import load_settings
from bytewise.storage.engine import check_revision, open_database
from chain.sending.keys import open_signer
from cli.__main__ import main
from cli.node.init import USERS
from cli.node.init import init as init_command
from cli.node.roles import NodeRole, role_of
from cli.options import SETTINGS
from dashboard.monitor.settings import MonitorSettings
from enclave.settings import EnclaveSettings
from kms.settings import ShardSettings
from serving.settings import OperatorSettings
from tests.fixtures.cli.new_node import init, options, prepare
from tests.fixtures.verifier.verifier_fixture import NETWORK
from verifier.settings import NodeSettings

KEY = bytes(range(1, 33))
DUTY_ROLES = (NodeRole.VERIFIER, NodeRole.MEMBER, NodeRole.WATCHTOWER)
NOT_OF_A_SHARD = (
    "--key=k", "--password-file=p", "--prompt", "--signer-url=https://signer:9000", "--database-url-file=url",
    "--metrics-port=9465", "--evidence=snp", "--host=192.0.2.1", "--port=8444", "--da=http://127.0.0.1:2", "--artifact=model",
    "--environment=environment.json", "--model-name=tiny",
)  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An address book, a model, an environment and a simulated machine."""
    prepare(tmp_path)
    return tmp_path


@pytest.mark.parametrize("role", NodeRole)
def test_each_process_of_a_new_node_reads_its_settings(place: Path, role: NodeRole, capsys: pytest.CaptureFixture[str]) -> None:
    assert init(place, role) == Exit.OK
    folder = place / "node"
    file, told = folder / "bytewise.toml", capsys.readouterr().out
    assert role_of(file) == role
    if role is NodeRole.SHARD:
        url: str = load_settings(ShardSettings, file, "shard").database_url
    elif role is NodeRole.OPERATOR:
        settings = load_settings(OperatorSettings, file)
        url = settings.db.location
        assert open_signer(settings.signer, NETWORK).address in told
    elif role is NodeRole.MONITOR:
        monitor = load_settings(MonitorSettings, file)
        assert monitor.db.location.endswith("/node/index.db") and monitor.release_logs is not None
        assert {path.name for path in folder.iterdir()} == {"network.json", "bytewise.toml"}, "it has no key"
        return
    else:
        node = load_settings(NodeSettings, file)
        url = node.db.location
        assert node.role == role and open_signer(node.signer, NETWORK).address in told
        assert node.policy.strategy == "observe" and node.observes == (role == "watchtower")
        if node.executor is not None:
            assert load_settings(EnclaveSettings, file, "enclave").socket == node.executor.socket
    check_revision(open_database(url))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in ("account.json", "account.password", "gateway.key", "tls.key"):
        assert not (folder / name).exists() or stat.S_IMODE((folder / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("role", DUTY_ROLES)
def test_each_default_in_the_file_is_the_one_that_counts(place: Path, role: NodeRole) -> None:
    assert init(place, role) == Exit.OK
    file = place / "node" / "bytewise.toml"
    before, text = load_settings(NodeSettings, file), file.read_text()
    # Sections that are commented out as a whole stay so: they say what they need, and have no defaults.
    parts = [part for part in re.split(r"\n(?=\n)", text) if "\n# [" not in part and "\n[enclave]" not in part]
    told = re.sub(r'^# (\w+ = (?!""$).*)$', r"\1", "\n".join(parts), flags=re.MULTILINE)
    assert told.count("\n#") < text.count("\n#") - 10
    file.write_text(told)
    assert replace(load_settings(NodeSettings, file), enclave=None) == replace(before, enclave=None)


def test_existing_account_keeps_its_key_and_the_password_stays_where_it_is(place: Path) -> None:
    plain, password = place / "old.key", place / "secret"
    plain.write_text("0x" + KEY.hex())
    password.write_text("a long password\n")
    plain.chmod(0o600)
    password.chmod(0o600)
    assert init(place, NodeRole.WATCHTOWER, "--key", str(plain), "--password-file", str(password)) == Exit.OK
    folder = place / "node"
    stored = json.loads((folder / "account.json").read_text())
    assert Account.decrypt(stored, "a long password") == KEY
    assert not (folder / "account.password").exists()
    everything = b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
    assert KEY.hex().encode() not in everything and b"a long password" not in everything
    assert (
        open_signer(load_settings(NodeSettings, folder / "bytewise.toml").signer, NETWORK).address.lower()
        == f"0x{stored['address'].removeprefix('0x').lower()}"
    )
    # A keystore of another node is taken over with its password.
    words = ["init", "--role", "watchtower", str(place / "second"), *options(place, NodeRole.WATCHTOWER)]
    assert main([*words, "--key", str(folder / "account.json"), "--password-file", str(password)]) == Exit.OK
    assert json.loads((place / "second" / "account.json").read_text())["address"] == stored["address"]


@pytest.mark.parametrize(
    ("role", "wrong", "named"),
    [
        (NodeRole.WATCHTOWER, ["--network", "nothing.json"], "nothing.json"),
        (NodeRole.WATCHTOWER, ["--key", "nothing.key"], "nothing.key"),
        (NodeRole.WATCHTOWER, ["--password-file", "nothing"], "nothing"),
        (NodeRole.WATCHTOWER, ["--prompt"], "terminal"),
        (NodeRole.MONITOR, ["--key", "account.key"], "--key: role monitor does not use it"),
        (NodeRole.MONITOR, ["--signer-url", "https://signer:9000"], "--signer-url"),
        (NodeRole.MONITOR, ["--da", "http://127.0.0.1:2"], "--da: role monitor"),
        (NodeRole.WATCHTOWER, ["--artifact", "model"], "--artifact: role watchtower"),
        (NodeRole.OPERATOR, ["--evidence", "snp"], "--evidence: role operator"),
        (NodeRole.VERIFIER, ["--port", "8444"], "--port: role verifier"),
        (NodeRole.MEMBER, ["--simulated"], "--simulated: role member"),
        (NodeRole.MONITOR, ["--network", "nothing.json"], "nothing.json"),
        (NodeRole.WATCHTOWER, ["--rpc", "http://127.0.0.1:1"], "twice"),
        (NodeRole.WATCHTOWER, ["--database-url-file", "nothing"], "nothing"),
        (NodeRole.MEMBER, ["--artifact", "nothing"], "--artifact"),
        (NodeRole.MEMBER, ["--evidence", "sgx"], "--evidence"),
        (NodeRole.MEMBER, ["--platform-file", "nothing"], "--platform-file"),
        (NodeRole.MEMBER, ["--platform-file", "/dev/null"], "null: mode"),
        (NodeRole.OPERATOR, ["--model-name", ""], "--model-name"),
        (NodeRole.SHARD, ["--coordinator", ""], "--coordinator"),
        (NodeRole.SHARD, ["--url", "somewhere"], "somewhere"),
        (NodeRole.MEMBER, ["--evidence", "tdx"], "--platform-file: belongs to --evidence simulated"),
        (NodeRole.MEMBER, ["--environment", "nothing.json"], "nothing.json: No such file"),
        (NodeRole.SHARD, ["--port", "8444"], f"does not use it here: set it in FOLDER/{SETTINGS}"),
        *((NodeRole.SHARD, [each], f"{each.partition('=')[0]}: role shard does not use it") for each in NOT_OF_A_SHARD),
    ],
)
def test_wrong_choice_is_named_and_nothing_is_made(
    place: Path, role: NodeRole, wrong: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(place, role, *wrong) == Exit.USAGE
    assert named in capsys.readouterr().err
    assert not (place / "node").exists() and not list(place.glob(".node*"))


def test_each_option_says_which_roles_use_it() -> None:
    # An option without a row in the table is taken from everybody, and forgotten where nothing reads it.
    program = typer.Typer(add_completion=False)
    program.command()(init_command)
    options_of_init = {each.opts[0] for each in typer.main.get_command(program).params if each.opts[0].startswith("--")}
    assert options_of_init - USERS.keys() == {"--role", "--network", "--rpc"}
    assert USERS.keys() < options_of_init


def test_judge_needs_an_environment_for_a_pinned_model_only(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--environment", str(place / "environment.json")]
    assert init(place, NodeRole.VERIFIER, *named) == Exit.USAGE
    assert "only with an artifact of profile pinned-1" in capsys.readouterr().err
    manifest = place / "model" / "artifact" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"exact-1", b"pinned-1"))
    assert init(place, NodeRole.VERIFIER) == Exit.USAGE
    assert "--environment: missing" in capsys.readouterr().err
    assert init(place, NodeRole.VERIFIER, *named) == Exit.OK
    enclave = load_settings(EnclaveSettings, place / "node" / SETTINGS, "enclave")
    assert enclave.environment_file == place / "environment.json"


def test_keys_of_an_existing_folder_are_never_overwritten(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init(place, NodeRole.WATCHTOWER) == Exit.OK
    password = read_secret(place / "node" / "account.password")
    assert init(place, NodeRole.WATCHTOWER) == Exit.USAGE
    said = capsys.readouterr().err
    assert "never overwritten" in said and len(said.splitlines()) == 2, "an error and an advice, neither of them wrapped"
    assert read_secret(place / "node" / "account.password") == password
