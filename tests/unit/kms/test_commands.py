"""What `python -m kms` says to who runs it, and to who supervises it, where it cannot start or do what it was asked."""

import json
import secrets
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from eth_account import Account

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.evidence.appraisal_policy import SignedPolicy, approval_digest
from bytewise.protocol.signing import recover
from bytewise.service.secret import write_secret
from bytewise.service.settings import DatabaseUrl, child_environment
from bytewise.storage.__main__ import main as migrate_main
from bytewise.storage.engine import HEAD, check_revision, open_database
from bytewise.tee.policy import approve, read_policy
from chain.sending.keys import devnet_signer, save_signer
from kms.__main__ import main
from kms.shard.api import build_app, serve
from kms.shard.service import build_shard
from kms.storage import keyring
from tests.fixtures.kms.governed_policy import settings
from tests.fixtures.kms.memory_chain import CONTRACTS
from tests.fixtures.kms.process_settings import ROOT
from tests.fixtures.kms.release_network import World, wait_until

SETTINGS = """
host = "127.0.0.1"
port = 7001
channel_port = 7002
folder = "."
epoch_file = "epoch.json"
policy_file = "policy.json"
network_file = "network.json"
database_url = "sqlite:///kms.sqlite"
audits_per_epoch = 10
production = false
rpc_url = "http://127.0.0.1:1"
"""


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["kms", *words])
    return main()


def test_exit_codes_distinguish_permanent_from_temporary_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bytewise.toml"
    for command in ("serve", "erase", "wrap", "approve"):
        assert run(monkeypatch, command, "--config", str(path)) == 64
    path.write_text(SETTINGS.replace("channel_port", "chanel_port"))
    assert run(monkeypatch, "serve", "--config", str(path)) == 64
    assert "chanel_port: unknown setting; channel_port: missing" in capfd.readouterr().err
    keyring.create_keys(tmp_path, "https://127.0.0.1:1", secrets.token_bytes)
    path.write_text(SETTINGS + 'wrap_command = ["false"]\nunwrap_command = ["cat"]\n')
    assert run(monkeypatch, "wrap", "--config", str(path)) == 5
    assert "wrap_command (false) is unavailable" in capfd.readouterr().err


def test_refused_approval_names_the_wrong_setting(
    fresh: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "before.json").write_bytes(encode(fresh.policy))
    (tmp_path / "policy.json").write_bytes(encode(replace(fresh.policy, measurements=fresh.policy.measurements[1:])))
    save_signer(tmp_path / "governor.key", devnet_signer(31337, 0))
    config = tmp_path / "approve.toml"
    text = 'policy_file = "policy.json"\nkey_file = "governor.key"\nout_file = "signed.json"\n'
    config.write_text(text + 'before_file = "before.json"\n')
    assert run(monkeypatch, "approve", "--config", str(config)) == 64
    said = capfd.readouterr().err
    assert "was accepted before" in said and "a policy with a higher serial" in said and "report" not in said
    governor = devnet_signer(31337, 0)
    write_secret(tmp_path / "governor.json", json.dumps(Account.encrypt(governor.secret, "sesame", iterations=1024)).encode())
    write_secret(tmp_path / "governor.password", b"sesame")
    config.write_text(text.replace("governor.key", "governor.json"))
    assert run(monkeypatch, "approve", "--config", str(config)) == 64
    assert "is a keystore: name its password file too" in capfd.readouterr().err
    assert not (tmp_path / "signed.json").exists()
    config.write_text(text.replace("governor.key", "governor.json") + 'password_file = "governor.password"\n')
    assert run(monkeypatch, "approve", "--config", str(config)) == 0
    signed = decode(SignedPolicy, (tmp_path / "signed.json").read_bytes())
    (signature,) = signed.signatures
    assert recover(approval_digest(signed.policy), signature) == governor.address


def interruptible() -> None:
    """As in a terminal: what a shell put into the background ignores the signal, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.e2e
def test_interrupted_command_reports_no_bug_and_loses_nothing(tmp_path: Path) -> None:
    keyring.create_keys(tmp_path, "https://127.0.0.1:1", secrets.token_bytes)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    begun = tmp_path / "begun"
    wrap = ["sh", "-c", f"touch {begun}; sleep 60"]
    (tmp_path / "bytewise.toml").write_text(SETTINGS + f'wrap_command = {json.dumps(wrap)}\nunwrap_command = ["cat"]\n')
    words = [sys.executable, "-m", "kms", "wrap", "--config", str(tmp_path / "bytewise.toml")]
    process = subprocess.Popen(words, cwd=ROOT, env=child_environment(), stderr=subprocess.PIPE, preexec_fn=interruptible)
    wait_until(begun.exists, timeout_s=60)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and b"process.interrupted" in said and b"Traceback" not in said
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


def test_unknown_command_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["serv", "--config", "x"], ["serve"]):
        with pytest.raises(SystemExit) as ended:
            run(monkeypatch, *words)
        assert ended.value.code == 64


@pytest.mark.parametrize("port", ["taken", "65536", "-1"])
def test_unusable_path_is_named_with_its_setting(tmp_path: Path, port: str) -> None:
    keyring.create_keys(tmp_path, "https://127.0.0.1:1", secrets.token_bytes)
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1] if port == "taken" else int(port)
        with pytest.raises(ConfigurationError, match=f"port: 127.0.0.1:{number}: .* and a free port"):
            serve(build_app(None), "127.0.0.1", number, tmp_path / keyring.TLS_CERTIFICATE, tmp_path / keyring.TLS_KEY)


@pytest.mark.parametrize("name", [keyring.TLS_KEY, keyring.TLS_CERTIFICATE])
@pytest.mark.parametrize("how", ["missing", "altered"])
def test_wrong_certificate_or_key_is_named(tmp_path: Path, name: str, how: str) -> None:
    keyring.create_keys(tmp_path, "https://127.0.0.1:1", secrets.token_bytes)
    if how == "missing":
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text("x")
    with pytest.raises(ConfigurationError, match=r"tls.pem, tls.key: .*bytewise shard restore"):
        serve(build_app(None), "127.0.0.1", 0, tmp_path / keyring.TLS_CERTIFICATE, tmp_path / keyring.TLS_KEY)


def test_folder_without_its_share_gives_advice_to_get_one(fresh: World) -> None:
    folder = fresh.settings.shards[0].folder
    keyring.erase_all(folder, 1)
    with pytest.raises(
        ConfigurationError, match=r"share of key epoch 1: the folder has none.*shard restore.*move epoch_file away"
    ):
        keyring.open_share(folder, fresh.document)
    (folder / "erasure-1-v0-none.json").write_bytes(b"")
    with pytest.raises(ConfigurationError, match=r"the folder has none: it was erased \(erasure-1-v0-none.json\)"):
        keyring.open_share(folder, fresh.document)


def test_advice_for_a_lost_database_is_never_to_make_a_new_one(tmp_path: Path) -> None:
    """A release log that begins again contradicts what the shard signed."""
    missing = DatabaseUrl(f"sqlite:///{tmp_path / 'kms.sqlite'}")
    with pytest.raises(ConfigurationError) as told:
        check_revision(open_database(missing))
    said = str(told.value)
    assert f"{missing} has no revision, none (no such table: alembic_version): it is missing, empty" in said
    assert "bring its newest copy back: what was signed is in it" in said
    assert f"Only a new actor's is made, by `python -m bytewise.storage migrate --url {missing}`" in said


def test_signature_that_cannot_be_written_is_no_bug_and_loses_no_other(tmp_path: Path, fresh: World) -> None:
    policy, out = tmp_path / "policy.json", tmp_path / "signed.json"
    policy.write_bytes(encode(fresh.policy))
    approve(policy, out, devnet_signer(31337, 0))
    with pytest.raises(ConfigurationError, match=r"nowhere/signed.json: No such file or directory: name a file in a folder"):
        approve(policy, tmp_path / "nowhere" / "signed.json", devnet_signer(31337, 1))
    approve(policy, out, devnet_signer(31337, 1))
    assert len(decode(SignedPolicy, out.read_bytes()).signatures) == 2


def test_policy_changes_are_shown_against_the_signed_policy_or_a_bare_one(tmp_path: Path, fresh: World) -> None:
    bare, signed = tmp_path / "policy.json", tmp_path / "signed.json"
    bare.write_bytes(encode(fresh.policy))
    approve(bare, signed, devnet_signer(31337, 0))
    assert read_policy(signed) == read_policy(bare) == fresh.policy
    signed.write_bytes(b"{}")
    with pytest.raises(ConfigurationError, match=r"signed.json: .*missing fields"):
        read_policy(signed)


def test_shard_does_not_start_with_the_release_log_of_another(fresh: World) -> None:
    """Its own signatures behind another's records would look like a log that it altered."""
    case = fresh.disputed()
    fresh.release(fresh.shard(2), case)
    own, other = fresh.document.record.shards[:2]
    given = settings(fresh, policy_governors=(), policy_threshold=0)
    (fresh.folder / "epoch.json").write_bytes(encode(fresh.document))
    (fresh.folder / "policy.json").write_bytes(encode(fresh.policy))
    assert build_shard(given, CONTRACTS, fresh.chain).info().index == 1
    database = DatabaseUrl(f"sqlite:///{fresh.settings.shards[1].folder / 'kms.sqlite'}")
    with pytest.raises(ConfigurationError, match=f"database_url: has the release log of {other.address}.* is of {own.address}"):
        build_shard(replace(given, database_url=database), CONTRACTS, fresh.chain)


def test_uncreatable_database_is_named_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made, nowhere = (f"sqlite:///{tmp_path / name / 'kms.sqlite'}" for name in ("", "nowhere"))
    monkeypatch.setattr(sys, "argv", ["storage", "migrate", "--url", made, "--url", nowhere])
    assert migrate_main() == 64
    assert "database: does not open: make the folder of its file" in capsys.readouterr().err
    assert check_revision(open_database(made)) == HEAD
