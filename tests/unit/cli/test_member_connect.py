"""`bytewise member connect`: settings of a gossip process that `bytewise run` starts."""

import json
import sys
from pathlib import Path

import pytest

from bytewise.service.exit_codes import Exit
from bytewise.service.settings import load_settings
from chain.sending.keys import open_signer
from cli.__main__ import main
from cli.node.gossip import gossip_programs
from cli.node.roles import NodeRole
from cli.node.run import programs_of
from tests.fixtures.cli.new_node import new_node
from tests.fixtures.verifier.verifier_fixture import NETWORK
from verifier.settings import GossipSettings, NodeSettings

ADDRESS = "/ip4/192.0.2.1/tcp/4009"


@pytest.fixture
def member(tmp_path: Path) -> Path:
    """Settings file of a new member."""
    return new_node(tmp_path, NodeRole.MEMBER)


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Stands for the other environment's Python, which this one's tests do not have: answers `--identity` as it does."""
    program = tmp_path / "python"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\n"
        f"Path({str(tmp_path / 'asked')!r}).write_text('\\n'.join(sys.argv))\n"
        "print('peer_key = \"0x' + '11' * 32 + '\"\\npeer_proof = \"0x' + '22' * 64 + '\"')\n"
    )
    program.chmod(0o755)
    return program


def connect(member: Path, python: Path, *more: str) -> int:
    """The verb; its exit code."""
    return main(["member", "connect", "--config", str(member), "--python", str(python), *(more or ("--address", ADDRESS))])


def test_connected_member_starts_its_gossip_process(member: Path, python: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = programs_of(member)
    assert gossip_programs(member) == [] and connect(member, python) == Exit.OK
    node = load_settings(NodeSettings, member)
    account = open_signer(node.signer, NETWORK).address
    assert node.gossip.socket == member.parent / "gossip.sock" and node.gossip.addresses == (ADDRESS,)
    assert f"--identity\n{account}" in (member.parent.parent / "asked").read_text()
    assert f"{account}.json" in capsys.readouterr().out
    assert 'listen = "/ip4/0.0.0.0/tcp/4009"' in (member.parent / "gossip.toml").read_text()
    *others, gossip = programs_of(member)
    assert others == before and gossip.dispensable and not gossip.needs_account and gossip.command[0] == str(python)
    assert gossip.command[-2:] == ("--config", str(member.parent / "gossip.toml"))


def test_the_rest_of_the_settings_stays_as_it_was(member: Path, python: Path) -> None:
    member.chmod(0o600)
    before, text = load_settings(NodeSettings, member), member.read_text()
    assert connect(member, python) == Exit.OK and member.stat().st_mode & 0o777 == 0o600
    lines = member.read_text().splitlines()
    assert [line for line in text.splitlines() if line not in lines] == []
    after = load_settings(NodeSettings, member)
    assert after.gossip != before.gossip == GossipSettings() and after.signer == before.signer and after.votes == before.votes


@pytest.mark.parametrize(
    "address", ["192.0.2.1:4001", "/ip4/192.0.2.1/tcp/70000", "/ip4/192.0.2.1/tcp/0", '/ip4/"/tcp/1 x', "/ip4/a\x7fb/tcp/1", ""]
)
def test_wrong_address_is_named_and_nothing_is_written(
    member: Path, python: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = member.read_text()
    assert connect(member, python, "--address", address) == Exit.USAGE
    assert "--address" in capsys.readouterr().err
    assert member.read_text() == text and not (member.parent / "gossip.toml").exists()


def test_address_to_listen_on_cannot_write_further_settings(
    member: Path, python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert connect(member, python, "--address", ADDRESS, "--listen", '/ip4/0.0.0.0"#x/tcp/4001') == Exit.USAGE
    assert "--listen" in capsys.readouterr().err and not (member.parent / "gossip.toml").exists()


@pytest.mark.parametrize("header", ["[gossip]  # over libp2p", "[ gossip ]", "\t[gossip]#"])
def test_header_of_the_section_may_have_spaces_and_a_comment(member: Path, python: Path, header: str) -> None:
    member.write_text(member.read_text().replace("[gossip]", header, 1))
    assert connect(member, python) == Exit.OK
    assert load_settings(NodeSettings, member).gossip.addresses == (ADDRESS,) and header in member.read_text()


@pytest.mark.parametrize("section", ["gossip = {}\n", '["gossip"]\n'])
def test_settings_that_no_node_could_read_are_not_written(
    member: Path, python: Path, section: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = section + member.read_text().replace("[gossip]", "", 1)
    if section.startswith("["):
        text = member.read_text().replace("[gossip]", section, 1)
    member.write_text(text)
    before = sorted(member.parent.iterdir())
    assert connect(member, python) == Exit.USAGE
    told = " ".join(capsys.readouterr().err.split())
    assert "[gossip]" in told and member.read_text() == text and sorted(member.parent.iterdir()) == before


def test_node_in_a_folder_with_an_unusual_name_is_connected(tmp_path: Path, python: Path) -> None:
    folder = tmp_path / '\U0001f600 "quoted" \\ ü'
    folder.mkdir()
    member = new_node(folder, NodeRole.MEMBER)
    assert connect(member, python) == Exit.OK
    assert load_settings(NodeSettings, member).gossip.socket == member.parent / "gossip.sock"


def test_environment_without_libp2p_is_named(member: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = member.read_text()
    for python, reason in ((tmp_path / "none", "No such file"), (Path(sys.executable), "No module named 'trio'")):
        assert connect(member, python) == Exit.USAGE
        told = " ".join(capsys.readouterr().err.split())
        assert reason in told and "make gossip-venv" in told
        assert member.read_text() == text and not (member.parent / "gossip.toml").exists()


def test_connecting_twice_is_refused(member: Path, python: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert connect(member, python) == Exit.OK
    text = member.read_text()
    assert connect(member, python) == Exit.USAGE
    assert "set up already" in capsys.readouterr().err and member.read_text() == text


def test_operator_takes_no_part_in_gossip(tmp_path: Path, python: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert connect(new_node(tmp_path, NodeRole.OPERATOR), python) == Exit.USAGE
    assert "operator takes no part" in capsys.readouterr().err


def test_connected_watchtower_starts_its_gossip_process(tmp_path: Path, python: Path) -> None:
    tower = new_node(tmp_path, NodeRole.WATCHTOWER)
    before = programs_of(tower)
    assert connect(tower, python) == Exit.OK
    *others, gossip = programs_of(tower)
    assert others == before and gossip.name == "gossip"
    assert load_settings(NodeSettings, tower).gossip.socket == tower.parent / "gossip.sock"


def test_half_of_the_settings_is_refused(member: Path) -> None:
    document = member.read_text().replace("[gossip]", f"[gossip]\npython_file = {json.dumps(sys.executable)}", 1)
    member.write_text(document)
    with pytest.raises(Exception, match="python_file and settings_file: set both"):
        load_settings(NodeSettings, member)
