"""`bytewise run` with what people get wrong: one clear line, the right exit code, no traceback, nothing lost."""

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
from cli.node.run import programs_of
from tests.fixtures.chain.anvil import running_anvil
from tests.fixtures.chain.devnet import deployed, word
from tests.fixtures.cli.new_node import new_node, options, prepare
from tests.source import ROOT

WAIT_S = 120
Change = Callable[[Path], object]
"""What somebody does to a node's folder."""
Make = Callable[[NodeRole], Path]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A chain with contracts, and its address book."""
    book = tmp_path_factory.mktemp("network") / "network.json"
    with running_anvil() as anvil:
        write_network(book, deployed(anvil))
        yield anvil.url, book


@pytest.fixture
def make(network: tuple[str, Path], tmp_path: Path) -> Make:
    """Makes the folder of a new node of a role, whose ports nobody else has."""
    url, book = network

    def made(role: NodeRole) -> Path:
        folder = new_node(tmp_path, role).parent
        for place in (tmp_path, folder):
            shutil.copy(book, place / "network.json")
        metrics, listen = free_ports(2)
        for old, new in (("http://127.0.0.1:1", url), ("port = 9464", f"port = {metrics}"), ("port = 8443", f"port = {listen}")):
            edit(old, new)(folder) if old in (folder / "bytewise.toml").read_text() else None
        return folder

    return made


@pytest.fixture
def node(make: Make) -> Path:
    """The folder of a new watchtower."""
    return make(NodeRole.WATCHTOWER)


def edit(old: str, new: str) -> Change:
    """Changes the settings file."""

    def change(folder: Path) -> None:
        file = folder / "bytewise.toml"
        before = file.read_text()
        assert old in before
        file.write_text(before.replace(old, new))

    return change


def set_value(name: str, value: str) -> Change:
    """Another value for a setting, as TOML writes it."""

    def change(folder: Path) -> None:
        file = folder / "bytewise.toml"
        lines, before = [], file.read_text().splitlines()
        for line in before:
            lines.append(f"{name} = {value}" if line.startswith(f"{name} = ") else line)
        assert lines != before
        file.write_text("\n".join(lines) + "\n")

    return change


def remove(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def spoil(name: str, content: str = "nonsense") -> Change:
    return lambda folder: (folder / name).write_text(content)


def another_key(folder: Path) -> None:
    remove("account.json")(folder)
    save_signer(folder / "account.json", LocalSigner(word("somebody else")))


def database(statement: str) -> Change:
    """Changes the database."""

    def change(folder: Path) -> None:
        with write_transaction(open_database(f"sqlite:///{folder / 'node.db'}")) as connection:
            connection.execute(text(statement))

    return change


def used_once(folder: Path) -> None:
    """The database has had a process of this account; then the key is another one."""
    database("INSERT INTO nonce_lease VALUES ('31337', '0x' || hex(zeroblob(20)), 3, '', 1, 0, '', '')")(folder)
    another_key(folder)


def no_environment(folder: Path) -> None:
    spoil("environment.json", "{}")(folder)
    set_value("environment_file", f'"{folder / "environment.json"}"')(folder)


def whole(folder: Path) -> tuple[int, str]:
    """Exit code and errors of the node, which ends by itself."""
    return ended((sys.executable, "-m", "cli", "run", "--config", str(folder / "bytewise.toml")))


def ended(command: tuple[str, ...]) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=WAIT_S, check=False
    )  # fmt: skip
    return done.returncode, done.stderr


CASES: dict[str, tuple[Change, str]] = {
    "malformed file": (edit("[chain]", "[chain"), "bytewise.toml"),
    "unknown setting": (edit("[chain]\n", "[chain]\nkolour = 3\n"), "chain.kolour: unknown setting"),
    "unknown role": (edit('role = "watchtower"', 'role = "king"'), "king is none of"),
    "no role": (edit('role = "watchtower"\n', ""), "role: missing; it must be one of"),
    "newer format of settings": (edit("schema_version = 1", "schema_version = 2"), "schema_version"),
    "missing key": (remove("account.json"), "account.json"),
    "key that others can read": (lambda folder: (folder / "account.json").chmod(0o644), "chmod 600"),
    "wrong password": (spoil("account.password", "wrong"), "password"),
    "missing database": (remove("node.db"), "bring its newest copy back"),
    "older schema": (database("UPDATE alembic_version SET version_num = '0000'"), "has revision 0000"),
    "newer schema": (database("UPDATE alembic_version SET version_num = '9999'"), "has revision 9999"),
    "database of another account": (used_once, "name its own database"),
    "address book that is none": (spoil("network.json", "{}"), "is no address book"),
}


def says_why(folder: Path, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`bytewise run` checks a node before it starts the node's process, and either ends it: here without a process between."""
    capsys.readouterr()
    code = main(["status", "--config", str(folder / "bytewise.toml"), "--health", "--output", "json"])
    said = capsys.readouterr().err
    if code != Exit.USAGE:
        (program,) = programs_of(folder / "bytewise.toml")
        code, said = ended(program.command)
    assert code == Exit.USAGE, said
    assert named in " ".join(said.split()) and "Traceback" not in said


@pytest.mark.parametrize("case", CASES)
def test_node_that_cannot_start_says_why_and_ends(node: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    change, named = CASES[case]
    change(node)
    says_why(node, named, capsys)
    if case == "missing key":
        code, said = whole(node)
        assert code == Exit.USAGE and named in " ".join(said.split()) and "Traceback" not in said, "the check ends the node"


def test_occupied_port_is_named(node: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        set_value("port", str(taken.getsockname()[1]))(node)
        code, said = whole(node)
    assert code == Exit.USAGE and "metrics" in said and "Traceback" not in said, "the process ends the node"


EVERY_VERB = {
    "chain node that is no URL": (set_value("rpc_url", '"nowhere"'), "nowhere is no URL of a node"),
    "DA store that is no URL": (set_value("urls", '["ftp://store"]'), "ftp://store is no URL of an EigenDA proxy"),
    "port above the last": (set_value("port", "70000"), "port: 70000 is no TCP port"),
    "port below the first": (set_value("port", "-1"), "port: -1 is no TCP port"),
}
"""Settings that no verb accepts."""


@pytest.mark.parametrize("case", EVERY_VERB)
def test_setting_that_cannot_be_right_is_named_by_each_verb(node: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    change, named = EVERY_VERB[case]
    change(node)
    for verb in ("run", "doctor", "status"):
        capsys.readouterr()
        code = main([verb, "--config", str(node / "bytewise.toml")])
        said = capsys.readouterr()
        assert code == Exit.USAGE, (verb, said)
        assert named in " ".join(said.err.split()) and "Traceback" not in said.err and said.out == ""


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
def test_node_of_another_role_says_why_it_cannot_start(make: Make, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    role, change, named = OTHER_ROLES[case]
    folder = make(role)
    change(folder)
    says_why(folder, named, capsys)
    if role is NodeRole.SHARD and "missing" in case:
        assert main(["doctor", "--config", str(folder / "bytewise.toml")]) == Exit.NOT_READY
        assert named.split()[-1] in capsys.readouterr().out


def test_occupied_port_of_an_operator_is_named(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make(NodeRole.OPERATOR)
    listen = (folder / "bytewise.toml").read_text().partition("[listen]")[2].partition("\nport = ")[2].split()[0]
    with socket.create_server(("127.0.0.1", int(listen))):
        says_why(folder, "listen: 127.0.0.1", capsys)


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
    tmp_path: Path, role: NodeRole, option: str, given: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tmp_path)
    words = options(tmp_path, role)
    value = given if option in ("--rpc", "--da") else str(tmp_path / given)
    if option in words:
        words[words.index(option) + 1] = value
    assert main(["init", "--role", role, str(tmp_path / "node"), *words]) == Exit.USAGE
    assert named in " ".join(capsys.readouterr().err.split()) and not (tmp_path / "node").exists()
