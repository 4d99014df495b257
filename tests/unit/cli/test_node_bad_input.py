"""`bytewise run` with what people get wrong: one clear line, the right exit code, no traceback, nothing lost."""

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
from tests.fixtures.chain.anvil import Anvil, running_anvil
from tests.fixtures.chain.devnet import deployed, word
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
        connection.execute(text("INSERT INTO nonce_lease VALUES ('31337', '0x' || hex(zeroblob(20)), 3, '', 1, 0, '')"))
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
