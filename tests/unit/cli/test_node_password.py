"""A node made with `--prompt`: no file has its password, and yet it can be looked at, registered and run."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bytewise.protocol.errors.actors import ConfigurationError, KeyInUse
from bytewise.service.exit_codes import Exit
from bytewise.service.node_files.key_lock import hold_key
from bytewise.service.settings import PREFIX, child_environment
from cli.__main__ import main
from cli.chain.privileged_call import call_context, signer_of
from cli.node import run, supervisor
from cli.node.roles import NodeRole
from cli.node.supervisor import PasswordPipe
from cli.node.view import NodeView
from cli.options import CallOptions, needs_password
from tests.fixtures.cli.new_node import init, prepare

PASSWORD = "open sesame"


def typed(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """A terminal at which a person types these words; those that nobody has asked for yet."""
    left = list(words)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("getpass.getpass", lambda _prompt: left.pop(0))
    return left


def prompted(place: Path, role: NodeRole) -> Path:
    """The settings file of a new node whose password no file has."""
    prepare(place)
    with pytest.MonkeyPatch.context() as terminal:
        typed(terminal, PASSWORD, PASSWORD)
        assert init(place, role, "--prompt") == Exit.OK
    return place / "node" / "bytewise.toml"


def test_prompted_node_is_looked_at_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = prompted(tmp_path, NodeRole.WATCHTOWER)
    account = NodeView(config).account
    assert account in capsys.readouterr().out, "`init` printed it"
    assert main(["backup", "make", str(tmp_path / "node.tar"), "--config", str(config)]) == Exit.OK
    assert main(["member", "resume", "--config", str(config)]) == Exit.OK
    with pytest.raises(ConfigurationError, match="no terminal"):
        _ = NodeView(config).signer
    left = typed(monkeypatch, "wrong", PASSWORD)
    with pytest.raises(ConfigurationError, match="password"):
        _ = NodeView(config).signer
    view = NodeView(config)
    assert view.signer.address == view.signer.address == account and not left, "it is typed once"
    keystore = config.parent / "account.json"
    keystore.write_text(json.dumps(json.loads(keystore.read_text()) | {"address": "11" * 20}))
    typed(monkeypatch, PASSWORD)
    with pytest.raises(ConfigurationError, match="its key is of"):
        _ = NodeView(config).signer


def test_key_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ConfigurationError, match="/proc/self/mem: Input/output error: run this as the user of the key file"):
        needs_password(Path("/proc/self/mem"), None)


def test_check_before_the_start_gets_the_password_by_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source = (
        f"import json, os\nrole = open(os.environ['{PREFIX}SIGNER__PASSWORD_FILE']).read()\n"
        "print(json.dumps({'problems': [], 'role': role[::-1], 'account': ''}))"
    )
    monkeypatch.setattr(supervisor, "python_module", lambda *_: (sys.executable, "-c", source))
    config = tmp_path / "bytewise.toml"
    config.write_text('role = "watchtower"\n')
    run._tell_problems(config, PasswordPipe(PASSWORD.encode()))
    told = capfd.readouterr()
    assert "node.ready" in told.out + told.err and PASSWORD[::-1] in told.out + told.err


def test_run_asks_for_the_password_of_the_key_file_in_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The settings name another file, which is no keystore."""
    config = prompted(tmp_path, NodeRole.WATCHTOWER)
    config.write_text(config.read_text().replace('"account.json"', '"elsewhere.key"'))
    monkeypatch.setenv(f"{PREFIX}SIGNER__KEY_FILE", "account.json")
    assert main(["run", "--config", str(config)]) == Exit.USAGE
    told = capfd.readouterr()
    assert "signer.password_file: missing: account.json is a keystore, and there is no terminal" in told.err
    assert "supervisor" not in told.out + told.err, "no process was started before"


def test_operator_reads_the_pipe_with_its_password_once(tmp_path: Path) -> None:
    config = prompted(tmp_path, NodeRole.OPERATOR)
    reader, writer = os.pipe()
    os.write(writer, PASSWORD.encode())
    os.close(writer)
    variables = {"SIGNER__PASSWORD_FILE": f"/dev/fd/{reader}", "LISTEN__PORT": "0", "METRICS__PORT": "0"}
    environment = child_environment({f"{PREFIX}{name}": text for name, text in variables.items()})
    command = [sys.executable, "-P", "-m", "serving", "--config", str(config)]
    ended = subprocess.run(command, env=environment, pass_fds=(reader,), capture_output=True, text=True, timeout=120, check=False)
    os.close(reader)
    said = ended.stdout + ended.stderr
    assert "operator.failed" in said and "the password is wrong" not in said, said


def test_call_is_signed_with_a_keystore_and_its_password_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As guardian or curator of a network, whose keystore no settings name."""
    prepare(tmp_path)
    assert init(tmp_path, NodeRole.WATCHTOWER) == Exit.OK
    node = tmp_path / "node"
    keystore, password = node / "account.json", node / "account.password"
    account = NodeView(node / "bytewise.toml").account
    assert signer_of(31337, keystore, None, password).address == account
    with pytest.raises(ConfigurationError, match=r"--password-file: missing: .*no terminal"):
        signer_of(31337, keystore, None)
    typed(monkeypatch, password.read_text())
    assert signer_of(31337, keystore, None).address == account
    with hold_key(keystore):
        asked = CallOptions(node / "network.json", key=keystore, password_file=password, send=True)
        with pytest.raises(KeyInUse, match="is used by process"):
            call_context(asked)
    password.write_text("wrong")
    with pytest.raises(ConfigurationError, match="the password is wrong"):
        signer_of(31337, keystore, None, password)
