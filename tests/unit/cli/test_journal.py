"""`bytewise journal`: journals and exports hold, or what does not is named; a witness signs one history alone."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import delete, update

from bytewise.crypto.checkpoint import MAX_NOTE_BYTES, witness_key
from bytewise.protocol.encoding import encode
from bytewise.protocol.units import hex0x
from bytewise.service.clock import SystemClock
from bytewise.service.node_files.key_lock import hold_key
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.tables import JournalRow
from cli.__main__ import main
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.verifier.node_file import node_file


def test_journal_of_a_node_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'node.db'}"
    (tmp_path / "node.db").write_bytes(empty_database())
    config = str(node_file(tmp_path, url))
    assert main(["journal", "verify", "--config", config]) == 64
    assert "journal.key" in capsys.readouterr().err and not (tmp_path / "journal.key").exists(), "no key is made by a look"
    database = open_database(url)
    journal = Journal(database, journal_key(tmp_path / "journal.key"), SystemClock())
    heads = [hex0x(journal.append("vote.sign", b"dispute", {"round": number})) for number in range(3)]
    assert main(["journal", "verify", "--config", config, "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["entries"], told["head"]) == (3, heads[-1])
    assert main(["journal", "verify", "--config", config, "--head", heads[0]]) == 0
    assert "3 entries" in capsys.readouterr().out
    assert main(["journal", "verify", "--config", config, "--head", "0x" + "11" * 32]) == 2
    assert "does not contain the head that was kept" in capsys.readouterr().err
    assert main(["journal", "verify", "--config", config, "--head", "0x12"]) == 64
    with write_transaction(database) as connection:
        connection.execute(update(JournalRow).where(JournalRow.number == 1).values(body=b'{"round":9}'))
    assert main(["journal", "verify", "--config", config]) == 2
    told_people = capsys.readouterr().err
    assert "entry 1 was altered" in told_people and "Traceback" not in told_people
    with write_transaction(database) as connection:
        connection.execute(delete(JournalRow).where(JournalRow.number >= 1))
    assert main(["journal", "verify", "--config", config]) == 0, "a cut tail is found by a kept head alone"
    assert main(["journal", "verify", "--config", config, "--head", heads[-1]]) == 2


class Node(NamedTuple):
    """A node's settings file, its journal and a folder for what its owner gives to others."""

    config: str
    journal: Journal
    folder: Path

    def append(self, count: int) -> None:
        for number in range(count):
            self.journal.append("vote.sign", b"dispute", {"round": number})

    def export(self, name: str, *options: str) -> str:
        file = str(self.folder / name)
        assert main(["journal", "export", "--config", self.config, "--out", file, *options]) == 0
        return file


@pytest.fixture
def node(tmp_path: Path) -> Node:
    url = f"sqlite:///{tmp_path / 'node.db'}"
    (tmp_path / "node.db").write_bytes(empty_database())
    config = str(node_file(tmp_path, url, checkpoints={"folder": str(tmp_path / "points")}))
    (tmp_path / "given").mkdir()
    return Node(config, Journal(open_database(url), journal_key(tmp_path / "journal.key"), SystemClock()), tmp_path / "given")


def test_export_with_witness_is_verified_by_a_reader(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.append(3)
    first = node.export("first.json")
    witness = ["--name", "example.org/w1", "--key", str(node.folder / "w.key"), "--memory", str(node.folder / "seen")]
    point = str(node.folder / "first.checkpoint")
    capsys.readouterr()
    assert main(["journal", "witness", first, *witness, "--out", point]) == 0
    vkey = capsys.readouterr().out.split()[-1]
    assert main(["journal", "verify", "--config", node.config, "--checkpoint", point, "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["entries"], told["checkpoints"]) == (3, 2)
    node.append(2)
    second = node.export("second.json", "--from", "3", "--since", point)
    keys = ["--keys", told["keys"]]
    assert main(["journal", "verify", "--export", second, "--checkpoint", point, "--witness", vkey, *keys]) == 0
    shown = capsys.readouterr().out
    assert "entries 3 to 4 of 5" in shown and "it continues the checkpoint of 3 entries" in shown
    assert main(["journal", "verify", "--export", second, "--output", "json"]) == 3, "nobody said whose it must be"
    printed = capsys.readouterr()
    assert [each["number"] for each in json.loads(printed.out)["entries"]] == [3, 4] and told["keys"] in printed.err
    assert main(["journal", "witness", second, *witness, "--out", str(node.folder / "second.checkpoint")]) == 0
    assert main(["journal", "witness", first, *witness, "--out", str(node.folder / "third.checkpoint")]) == 2
    assert "journal.older" in capsys.readouterr().err and not (node.folder / "third.checkpoint").exists()


def test_rewritten_journal_gets_no_signature_of_its_witness(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.append(3)
    witness = ["--name", "example.org/w1", "--key", str(node.folder / "w.key"), "--memory", str(node.folder / "seen")]
    point = str(node.folder / "first.checkpoint")
    assert main(["journal", "witness", node.export("first.json"), *witness, "--out", point]) == 0
    with write_transaction(node.journal._engine) as connection:
        connection.execute(delete(JournalRow).where(JournalRow.number >= 1))
    assert main(["journal", "verify", "--config", node.config]) == 2, "its own checkpoint tells"
    assert "its end was cut off" in capsys.readouterr().err
    assert main(["journal", "checkpoint", "--config", node.config]) == 2
    for file in (node.folder.parent / "points").iterdir():
        file.unlink()
    node.append(4)
    assert main(["journal", "verify", "--config", node.config]) == 0, "without its checkpoints it looks whole"
    assert main(["journal", "verify", "--config", node.config, "--checkpoint", point]) == 2, "what others kept tells"
    assert main(["journal", "export", "--config", node.config, "--out", str(node.folder / "x.json"), "--since", point]) == 2
    assert "was rewritten" in capsys.readouterr().err
    forked = node.export("forked.json")
    assert main(["journal", "witness", forked, *witness, "--out", str(node.folder / "forked.checkpoint")]) == 2
    assert "journal.unproven" in capsys.readouterr().err and not (node.folder / "forked.checkpoint").exists()


def test_two_witnesses_of_one_key_do_not_sign_two_histories(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.append(1)
    key = node.folder / "w.key"
    witness = ["--name", "example.org/w1", "--key", str(key), "--memory", str(node.folder / "seen")]
    journal_key(key)
    with hold_key(key):
        assert main(["journal", "witness", node.export("first.json"), *witness, "--out", str(node.folder / "a.checkpoint")]) == 6
    assert not (node.folder / "a.checkpoint").exists() and not (node.folder / "seen").exists()


def test_witness_writes_nothing_that_it_could_not_read(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.append(1)
    first = Path(node.export("first.json"))
    told = json.loads(first.read_text())
    junk = "\u2014 a.example/x " + "A" * 1000 + "\n"
    told["checkpoint"] += junk * ((MAX_NOTE_BYTES - len(told["checkpoint"].encode())) // len(junk.encode()))
    (node.folder / "big.json").write_bytes(encode(told))
    witness = ["--name", "example.org/" + "w" * 80, "--key", str(node.folder / "w.key"), "--memory", str(node.folder / "seen")]
    code = main(["journal", "witness", str(node.folder / "big.json"), *witness, "--out", str(node.folder / "a.checkpoint")])
    assert code in (2, 64) and not (node.folder / "seen").exists() and "Traceback" not in capsys.readouterr().err
    first.rename(node.folder / "good.json")
    first.write_bytes(b"{}")
    assert main(["journal", "witness", str(first), *witness, "--out", str(node.folder / "b.checkpoint")]) == 64
    assert "[R-55] EXPORT: is no export" in capsys.readouterr().err
    assert main(["journal", "verify", "--export", str(first)]) == 64
    assert "[R-55] --export: is no export" in capsys.readouterr().err
    (node.folder / "good.json").rename(first)
    assert main(["journal", "witness", str(first), *witness, "--out", str(node.folder / "b.checkpoint")]) == 0


def test_memory_that_is_a_file_is_named(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.append(1)
    (node.folder / "file").write_text("")
    witness = ["--name", "example.org/w1", "--key", str(node.folder / "w.key"), "--memory", str(node.folder / "file")]
    assert main(["journal", "witness", node.export("first.json"), *witness, "--out", str(node.folder / "a.checkpoint")]) == 64
    assert "--memory" in capsys.readouterr().err


def test_checkpoint_is_signed_once_for_each_state(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "checkpoint", "--config", node.config]) == 64, "an empty journal"
    node.append(1)
    copies = [str(node.folder / name) for name in ("a.checkpoint", "b.checkpoint")]
    for copy in copies:
        assert main(["journal", "checkpoint", "--config", node.config, "--out", copy]) == 0
    assert "checkpoint of 1 entries" in capsys.readouterr().out
    assert Path(copies[0]).read_bytes() == Path(copies[1]).read_bytes()


def test_wrong_input_is_one_error_with_exit_code_64(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.append(3)
    good, point = node.export("good.json"), str(node.folder / "good.checkpoint")
    assert main(["journal", "checkpoint", "--config", node.config, "--out", point]) == 0
    spoilt = {"cut": Path(good).read_bytes()[:-9], "empty": b"", "text": b"hello", "large": b"[" * 100 * 10**6}
    for name, data in spoilt.items():
        (node.folder / name).write_bytes(data)
    bare = node_file(node.folder, f"sqlite:///{node.folder.parent / 'node.db'}", db={"journal_key_file": "../journal.key"})
    export = ["journal", "export", "--config", node.config, "--out"]
    new = str(node.folder / "new")
    witness = ["journal", "witness", good, "--key", str(node.folder / "w.key"), "--memory", str(node.folder / "seen")]
    for arguments in (
        *(["journal", "verify", "--export", str(node.folder / name)] for name in (*spoilt, "missing")),
        ["journal", "verify", "--export", good, "--head", "0x" + "11" * 32],
        ["journal", "verify", "--export", good, "--keys", "0x12"],
        ["journal", "verify", "--export", good, "--witness", "nobody"],
        ["journal", "verify", "--export", good, "--checkpoint", good],
        ["journal", "verify", "--export", good, "--checkpoint", str(node.folder / "missing")],
        ["journal", "verify", "--config", node.config, "--keys", "0x" + "11" * 32],
        [*export, good],
        [*export, new, "--from", "3"],
        [*export, new, "--from", "2", "--to", "1"],
        [*export, new, "--since", good],
        ["journal", "checkpoint", "--config", node.config, "--out", point],
        ["journal", "checkpoint", "--config", str(bare)],
        [*witness, "--name", "a b", "--out", new],
        [*witness, "--name", "a", "--out", good],
        [*witness[:-3], str(node.folder / "nowhere" / "w.key"), *witness[-2:], "--name", "a", "--out", new],
    ):
        capsys.readouterr()
        assert main(arguments) == 64, arguments
        told = capsys.readouterr().err
        assert told.startswith("[R-55]") and told.count("[R-55]") == 1 and "Traceback" not in told, arguments
    assert not Path(new).exists()


def test_reader_finds_the_journal_of_another_node(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.append(1)
    good = node.export("good.json")
    assert main(["journal", "verify", "--export", good, "--keys", "0x" + "11" * 32]) == 2
    assert "journal.keys" in capsys.readouterr().err
    point = str(node.folder / "good.checkpoint")
    assert main(["journal", "checkpoint", "--config", node.config, "--out", point]) == 0
    key = witness_key("example.org/w9", Ed25519PrivateKey.from_private_bytes(b"w" * 32)).text
    assert main(["journal", "verify", "--export", good, "--checkpoint", point, "--witness", key]) == 2
    assert "no --checkpoint has a valid signature of the witness example.org/w9" in capsys.readouterr().err
