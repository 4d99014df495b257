"""The journal: append-only, chained, signed."""

import os
from pathlib import Path

import pytest
from sqlalchemy import Delete, Engine, Update, delete, update

from bytewise.protocol.errors.actors import ConfigurationError, StoreCorrupt
from bytewise.protocol.units import ZERO_DIGEST
from bytewise.service.secret import write_secret
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.tables import JournalRow
from tests.fixtures.storage.children import JOURNAL_KEY, Child, race
from tests.fixtures.storage.hand_clock import HandClock


@pytest.fixture
def journal(engine: Engine, clock: HandClock) -> Journal:
    return Journal(engine, JOURNAL_KEY, clock)


def test_entries_come_back_in_order_and_verify(journal: Journal, clock: HandClock) -> None:
    assert journal.verify_journal() == ZERO_DIGEST
    heads = [journal.append("intent", b"subject", {"number": number}) for number in range(3)]
    assert journal.verify_journal(heads[-1]) == heads[-1]
    entries = journal.entries()
    assert [(e.number, e.kind, e.body, e.digest) for e in entries] == [(n, "intent", {"number": n}, heads[n]) for n in range(3)]
    assert [e.previous for e in entries] == [ZERO_DIGEST, *heads[:2]]
    assert journal.entries(2) == entries[2:] and entries[0].at == clock.now()


SECOND = update(JournalRow).where(JournalRow.number == 1)


@pytest.mark.parametrize(
    "tampering",
    [
        SECOND.values(body=b'{"number":9}'),
        SECOND.values(kind="other"),
        SECOND.values(recorded_at=JournalRow.recorded_at + 1),
        SECOND.values(subject=b"x"),
        SECOND.values(signature=bytes(64)),
        SECOND.values(digest=bytes(32)),
        delete(JournalRow).where(JournalRow.number == 1),
        delete(JournalRow).where(JournalRow.number == 0),
    ],
    ids=["body", "kind", "time", "subject", "signature", "digest", "lost", "lost first"],
)
def test_tampering_is_found(engine: Engine, journal: Journal, tampering: Update | Delete) -> None:
    for number in range(3):
        journal.append("intent", b"subject", {"number": number})
    with write_transaction(engine) as connection:
        assert connection.execute(tampering).rowcount == 1
    with pytest.raises(StoreCorrupt):
        journal.verify_journal()


def test_kept_head_must_still_be_in_the_journal(engine: Engine, journal: Journal) -> None:
    assert journal.verified() == (0, ZERO_DIGEST, 0) and journal.verified(ZERO_DIGEST).entries == 0
    first, second = (journal.append("intent", b"", {"number": number}) for number in range(2))
    for kept in (None, ZERO_DIGEST, first, second):
        assert journal.verified(kept)[:2] == (2, second)
    with write_transaction(engine) as connection:
        connection.execute(delete(JournalRow).where(JournalRow.number == 1))
    assert journal.verified(first).head == journal.verify_journal() == first
    with pytest.raises(StoreCorrupt, match="does not contain the head"):
        journal.verified(second)
    with pytest.raises(StoreCorrupt, match="ends before the expected head"):
        journal.verify_journal(second)


def test_another_key_does_not_verify(engine: Engine, journal: Journal, clock: HandClock, tmp_path: Path) -> None:
    journal.append("intent", b"", {})
    with pytest.raises(StoreCorrupt):
        Journal(engine, journal_key(tmp_path / "key"), clock).verify_journal()


def test_entry_and_its_row_are_stored_together_or_not_at_all(engine: Engine, journal: Journal) -> None:
    with pytest.raises(OSError, match="crash"), write_transaction(engine) as connection:
        journal.append_in(connection, "intent", b"", {})
        raise OSError("crash")
    assert journal.entries() == ()


def test_processes_append_to_one_chain(url: str, clock: HandClock) -> None:
    assert race(*(Child("journal", url, 25) for _ in range(3))) == [25, 25, 25]
    journal = Journal(open_database(url), JOURNAL_KEY, clock)
    journal.verify_journal()
    assert [entry.number for entry in journal.entries()] == list(range(75))


def test_key_file_is_made_once_and_only_for_the_owner(tmp_path: Path) -> None:
    path = tmp_path / "journal.key"
    first, again = journal_key(path), journal_key(path)
    assert first.private_bytes_raw() == again.private_bytes_raw()
    assert path.stat().st_mode & 0o077 == 0
    os.chmod(path, 0o644)
    with pytest.raises(ConfigurationError):
        journal_key(path)
    for number, content in enumerate((b"-----BEGIN PRIVATE KEY-----", b"0x" + b"11" * 32, b"11" * 31, b"\xff" * 64)):
        write_secret(tmp_path / str(number), content)
        with pytest.raises(ConfigurationError, match=f"{number}: is no key of a journal, which is 32 bytes in hex"):
            journal_key(tmp_path / str(number))
    with pytest.raises(ConfigurationError, match=r"nowhere/journal\.key: No such file or directory: name a file in a folder"):
        journal_key(tmp_path / "nowhere" / "journal.key")
