"""`bytewise run` with what people get wrong: one clear line, the right exit code, no traceback, nothing lost."""

import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from bytewise.protocol.signing import LocalSigner
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import child_environment
from bytewise.storage.engine import open_database, write_transaction
from chain.client.address_book import write_network
from chain.sending.keys import save_signer
from cli.__main__ import main
from cli.demo.site import free_ports
from cli.node.roles import NodeRole
from tests.fixtures.chain.anvil import Anvil, running_anvil
from tests.fixtures.chain.devnet import deployed, word
from tests.fixtures.cli.new_node import options, prepare
from tests.source import ROOT

WAIT_S = 120


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Anvil, Path]]:
    """A chain with contracts, and its address book."""
    book = tmp_path_factory.mktemp("network") / "network.json"
    with running_anvil() as anvil:
        write_network(book, deployed(anvil))
        yield anvil, book


@pytest.fixture
def node(network: tuple[Anvil, Path], tmp_path: Path) -> Path:
    """The folder of a new watchtower."""
    anvil, book = network
    words = ["init", "--role", "watchtower", str(tmp_path / "node"), "--network", str(book), "--rpc", anvil.url]
    assert main([*words, "--da", "http://127.0.0.1:1"]) == Exit.OK
    return tmp_path / "node"


def edit(old: str, new: str) -> Callable[[Path], None]:
    """Changes the settings file."""

    def change(folder: Path) -> None:
        file = folder / "bytewise.toml"
        before = file.read_text()
        assert old in before
        file.write_text(before.replace(old, new))

    return change


def another_key(folder: Path) -> None:
    (folder / "account.json").unlink()
    save_signer(folder / "account.json", LocalSigner(word("somebody else")))


def used_once(folder: Path) -> None:
    """The database has had a process of this account; then the key is another one."""
    database = open_database(f"sqlite:///{folder / 'node.db'}")
    with write_transaction(database) as connection:
        connection.execute(text("INSERT INTO nonce_lease VALUES ('31337', '0x' || hex(zeroblob(20)), 3, '', 1, 0, '', '')"))
    another_key(folder)


def no_book(folder: Path) -> None:
    (folder / "network.json").write_text("{}")


def wrong_password(folder: Path) -> None:
    (folder / "account.password").write_text("wrong")


def revision(number: str) -> Callable[[Path], None]:
    """The database has another schema."""

    def change(folder: Path) -> None:
        with write_transaction(open_database(f"sqlite:///{folder / 'node.db'}")) as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = :number"), {"number": number})

    return change


CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "malformed file": (edit("[chain]", "[chain"), "bytewise.toml"),
    "unknown setting": (edit("[chain]\n", "[chain]\nkolour = 3\n"), "chain.kolour: unknown setting"),
    "unknown role": (edit('role = "watchtower"', 'role = "king"'), "king is none of"),
    "no role": (edit('role = "watchtower"\n', ""), "role: missing; it must be one of"),
    "newer format of settings": (edit("schema_version = 1", "schema_version = 2"), "schema_version"),
    "missing key": (lambda folder: (folder / "account.json").unlink(), "account.json"),
    "key that others can read": (lambda folder: (folder / "account.json").chmod(0o644), "chmod 600"),
    "wrong password": (wrong_password, "password"),
    "missing database": (lambda folder: (folder / "node.db").unlink(), "bring its newest copy back"),
    "older schema": (revision("0000"), "has revision 0000"),
    "newer schema": (revision("9999"), "has revision 9999"),
    "database of another account": (used_once, "name its own database"),
    "address book that is none": (no_book, "is no address book"),
}


@pytest.mark.parametrize("case", CASES)
def test_node_that_cannot_start_says_why_and_ends(node: Path, case: str) -> None:
    change, named = CASES[case]
    change(node)
    done = run(node)
    assert done.returncode == Exit.USAGE, done.stderr
    assert named in " ".join(done.stderr.split()) and "Traceback" not in done.stderr


def test_occupied_port_is_named(node: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        edit("port = 9464", f"port = {taken.getsockname()[1]}")(node)
        done = run(node)
    assert done.returncode == Exit.USAGE and str(taken) not in done.stderr and "Traceback" not in done.stderr
    assert "metrics" in done.stderr


def run(folder: Path) -> "subprocess.CompletedProcess[str]":
    """The node, until it ends by itself."""
    command = [sys.executable, "-m", "cli", "run", "--config", str(folder / "bytewise.toml")]
    return subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=WAIT_S, check=False)


def set_value(name: str, value: str) -> Callable[[Path], None]:
    """Another value for a setting, as TOML writes it."""

    def change(folder: Path) -> None:
        file = folder / "bytewise.toml"
        lines, before = [], file.read_text().splitlines()
        for line in before:
            lines.append(f"{name} = {value}" if line.startswith(f"{name} = ") else line)
        assert lines != before
        file.write_text("\n".join(lines) + "\n")

    return change


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def spoil(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_text("nonsense")

    return change


EVERY_VERB = {
    "chain node that is no URL": (set_value("rpc_url", '"nowhere"'), "nowhere is no URL of a node"),
    "DA store that is no URL": (set_value("urls", '["ftp://store"]'), "ftp://store is no URL of an EigenDA proxy"),
    "port above the last": (set_value("port", "70000"), "port: 70000 is no TCP port"),
    "port below the first": (set_value("port", "-1"), "port: -1 is no TCP port"),
}
"""Settings that no verb accepts."""


@pytest.mark.parametrize("verb", ["run", "doctor", "status"])
@pytest.mark.parametrize("case", EVERY_VERB)
def test_setting_that_cannot_be_right_is_named_by_each_verb(
    node: Path, case: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change, named = EVERY_VERB[case]
    change(node)
    code = main([verb, "--config", str(node / "bytewise.toml")])
    said = capsys.readouterr()
    assert code == Exit.USAGE, said
    assert named in " ".join(said.err.split()) and "Traceback" not in said.err and said.out == ""


@pytest.fixture
def place(network: tuple[Anvil, Path], tmp_path: Path) -> Path:
    """Everything that the other roles need, with the real network's address book."""
    prepare(tmp_path)
    shutil.copy(network[1], tmp_path / "network.json")
    return tmp_path


def made(place: Path, network: tuple[Anvil, Path], role: NodeRole) -> Path:
    """The folder of a new node, whose ports nobody else has."""
    words = options(place, role)
    words[words.index("--rpc") + 1] = network[0].url
    assert main(["init", "--role", role, str(place / "node"), *words]) == Exit.OK
    file, (metrics, listen) = place / "node" / "bytewise.toml", free_ports(2)
    file.write_text(file.read_text().replace("port = 9464", f"port = {metrics}").replace("port = 8443", f"port = {listen}"))
    return place / "node"


def no_environment(folder: Path) -> None:
    file = folder / "environment.json"
    file.write_text("{}")
    set_value("environment_file", f'"{file}"')(folder)


OTHER_ROLES = {
    "operator: spoilt certificate": (NodeRole.OPERATOR, spoil("tls.pem"), "tls.pem, tls.key: no certificate with its key"),
    "operator: missing TLS key": (NodeRole.OPERATOR, remove("tls.key"), "tls.pem, tls.key: no certificate with its key"),
    "operator: environment that is none": (NodeRole.OPERATOR, no_environment, "environment.json: is no environment"),
    "shard: missing storage key": (NodeRole.SHARD, remove("storage.key"), "storage.key"),
    "shard: missing TLS key": (NodeRole.SHARD, remove("tls.key"), "tls.pem, tls.key"),
    "shard: port above the last": (NodeRole.SHARD, set_value("channel_port", "70000"), "channel_port: 70000 is no TCP port"),
    "monitor: index that is none": (NodeRole.MONITOR, spoil("index.db"), "remove it, and start again"),
}


@pytest.mark.parametrize("case", OTHER_ROLES)
def test_node_of_another_role_says_why_it_cannot_start(network: tuple[Anvil, Path], place: Path, case: str) -> None:
    role, change, named = OTHER_ROLES[case]
    folder = made(place, network, role)
    change(folder)
    done = run(folder)
    assert done.returncode == Exit.USAGE, done.stderr
    assert named in " ".join(done.stderr.split()) and "Traceback" not in done.stderr


def test_occupied_port_of_an_operator_is_named(network: tuple[Anvil, Path], place: Path) -> None:
    folder = made(place, network, NodeRole.OPERATOR)
    before = (folder / "bytewise.toml").read_text()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (folder / "bytewise.toml").write_text(re.sub(r"(?s)(\[listen\].*?\nport = )\d+", rf"\g<1>{port}", before))
        done = run(folder)
    assert done.returncode == Exit.USAGE and "listen: 127.0.0.1" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["storage.key", "tls.key"])
def test_doctor_finds_what_a_shard_lacks(
    network: tuple[Anvil, Path], place: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(place, network, NodeRole.SHARD)
    remove(name)(folder)
    assert main(["doctor", "--config", str(folder / "bytewise.toml")]) == Exit.NOT_READY
    assert name in capsys.readouterr().out


@pytest.mark.parametrize(
    ("role", "option", "given", "named"),
    [
        (NodeRole.VERIFIER, "--artifact", "model", "is no artifact"),
        (NodeRole.OPERATOR, "--environment", "network.json", "is no environment"),
        (NodeRole.WATCHTOWER, "--rpc", "nowhere", "nowhere is no URL of a node"),
        (NodeRole.MONITOR, "--rpc", "nowhere", "nowhere is no URL of a node"),
        (NodeRole.WATCHTOWER, "--da", "ftp://store", "ftp://store is no URL"),
    ],
)
def test_init_names_an_option_that_cannot_be_right(
    network: tuple[Anvil, Path], place: Path, role: NodeRole, option: str, given: str, named: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    words = options(place, role)
    value = given if option in ("--rpc", "--da") else str(place / given)
    if option in words:
        words[words.index(option) + 1] = value
    assert main(["init", "--role", role, str(place / "node"), *words]) == Exit.USAGE
    assert named in " ".join(capsys.readouterr().err.split()) and not (place / "node").exists()
