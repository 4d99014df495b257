"""`bytewise journal verify`: a node's journal holds, or the entry that does not is named."""

import json
from pathlib import Path

import pytest
from sqlalchemy import delete, update

from bytewise.protocol.units import hex0x
from bytewise.service.clock import SystemClock
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.migrate import migrate
from bytewise.storage.tables import JournalRow
from cli.__main__ import main
from tests.fixtures.verifier.node_file import node_file


def test_journal_of_a_node_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'node.db'}"
    migrate(url)
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
