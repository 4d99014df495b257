"""Checkpoints of a journal: made once for each state, kept within a bound, and never signed over a changed history."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, delete, update

from bytewise.crypto.checkpoint import CheckpointKeys, signed_by
from bytewise.crypto.tree_hash import leaf_hash, root_of_range
from bytewise.protocol.errors.actors import ConfigurationError, StoreCorrupt, TryAgain
from bytewise.protocol.errors.records import MalformedValue
from bytewise.service.readiness import ReadinessRegistry
from bytewise.service.sections import CheckpointSettings
from bytewise.storage.checkpoints import CheckpointFolder, CheckpointKeeper, checkpoint_keeper, read_checkpoint, verify_continued
from bytewise.storage.engine import write_transaction
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.tables import JournalRow
from tests.fixtures.metric_values import value_of
from tests.fixtures.storage.children import JOURNAL_KEY
from tests.fixtures.storage.hand_clock import HandClock

KEYS = CheckpointKeys(JOURNAL_KEY)


@pytest.fixture
def journal(engine: Engine, clock: HandClock) -> Journal:
    return Journal(engine, JOURNAL_KEY, clock)


@pytest.fixture
def keeper(journal: Journal, clock: HandClock, tmp_path: Path) -> CheckpointKeeper:
    return CheckpointKeeper(journal, KEYS, CheckpointSettings(tmp_path / "points", most=2), clock)


def is_ok(readiness: ReadinessRegistry, name: str) -> bool:
    return next(each.ok for each in readiness.checks() if each.name == name)


def test_one_checkpoint_for_each_state(keeper: CheckpointKeeper, journal: Journal, clock: HandClock, tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "points", KEYS.public)
    assert keeper.make() is None and folder.newest() is None, "an empty journal has none"
    for number in range(3):
        journal.append("intent", b"", {"number": number})
        made = keeper.make()
        assert made is not None and all(signed_by(KEYS.public, made))
        assert (made.checkpoint.size, made.checkpoint.at) == (number + 1, clock.now())
        assert keeper.make() is None and folder.newest() == made
        assert value_of("bytewise_log_checkpoint_timestamp_seconds") == clock.now()
        clock.seconds += 60
    assert [each.checkpoint.size for each in folder.all()] == [2, 3], "only the newest two are kept"
    verify_continued(journal.leaves(), folder.all())


def test_rewritten_or_cut_journal_gets_no_checkpoint(
    keeper: CheckpointKeeper, journal: Journal, engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        journal.append("intent", b"", {"number": number})
    readiness = ReadinessRegistry()
    keeper.add_check(readiness)
    keeper.run()
    assert value_of("bytewise_journal_continued") == 1 and is_ok(readiness, "journal")
    files = sorted((tmp_path / "points").iterdir())
    with write_transaction(engine) as connection:
        connection.execute(delete(JournalRow).where(JournalRow.number == 2))
    with pytest.raises(StoreCorrupt, match="its end was cut off"):
        keeper.make()
    for number in (7, 8):
        journal.append("intent", b"", {"number": number})
    journal.verify_journal()
    with pytest.raises(StoreCorrupt, match="was rewritten"):
        keeper.make()
    keeper.run()
    assert sorted((tmp_path / "points").iterdir()) == files, "the duty logs it and signs nothing"
    assert value_of("bytewise_journal_continued") == 0, "BytewiseLogVerifyFailed fires"
    assert not keeper.check().ok and "was rewritten" in keeper.check().value


def test_entries_about_a_subject_are_proven_to_a_checkpoint(keeper: CheckpointKeeper, journal: Journal, engine: Engine) -> None:
    assert keeper.proven([b"a"]) is None, "an empty journal proves nothing"
    for number, subject in enumerate((b"a", b"b", b"c", b"a", b"d")):
        journal.append("intent", subject, {"number": number})
    found = keeper.proven([b"a", b"c"])
    assert found is not None and [each.number for each in found.entries] == [0, 2, 3]
    assert found.checkpoint.checkpoint.size == 5 and all(signed_by(found.keys, found.checkpoint))
    for entry, proof in zip(found.entries, found.proofs, strict=True):
        assert root_of_range([leaf_hash(entry.digest)], entry.number, 5, proof) == found.checkpoint.checkpoint.root
    assert keeper.proven([b"e"]) is None
    with write_transaction(engine) as connection:
        connection.execute(update(JournalRow).where(JournalRow.number == 3).values(kind="other"))
    with pytest.raises(StoreCorrupt, match="entry 3 was altered"):
        keeper.proven([b"a"])
    assert keeper.proven([b"c"]) is not None


def test_altered_file_is_found(keeper: CheckpointKeeper, journal: Journal, tmp_path: Path) -> None:
    journal.append("intent", b"", {})
    keeper.run()
    (file,) = (tmp_path / "points").iterdir()
    good, folder = file.read_text(), CheckpointFolder(tmp_path / "points", KEYS.public)
    for changed in (good.replace("\n1\n", "\n2\n"), good[:-1], "", good.rpartition("— ")[0], good.replace("time 1", "time 2")):
        file.write_text(changed)
        with pytest.raises(StoreCorrupt):
            folder.all()
    file.write_text(good)
    file.rename(file.with_name("0000000000000005.checkpoint"))
    with pytest.raises(StoreCorrupt, match="renamed"):
        folder.newest()
    other = CheckpointKeys(journal_key(tmp_path / "other.key"))
    with pytest.raises(StoreCorrupt):
        CheckpointFolder(tmp_path / "points", other.public).newest()


def test_unusable_folder_fails_the_job_alone(
    keeper: CheckpointKeeper, journal: Journal, clock: HandClock, tmp_path: Path
) -> None:
    """`TryAgain` fails one run of the job, and any other error ends the process."""
    journal.append("intent", b"", {})
    too_long = CheckpointKeeper(journal, KEYS, CheckpointSettings(tmp_path / ("x" * 300)), clock)
    with pytest.raises(TryAgain, match="File name too long"):
        too_long.run()
    (tmp_path / "points" / "0000000000000001.checkpoint").mkdir(parents=True)
    with pytest.raises(TryAgain, match="Is a directory"):
        keeper.run()
    (tmp_path / "points" / "0000000000000001.checkpoint").rmdir()
    keeper.run()
    (file,) = (tmp_path / "points").iterdir()
    assert file.is_file(), "the next run makes up for it"
    assert keeper.check().ok and too_long.check().ok, "a folder that cannot be used is no altered journal"


def test_files_that_are_no_checkpoints_are_refused(tmp_path: Path) -> None:
    for name, data in (("binary", b"\xff\xfe"), ("long", b"x" * 2**18), ("empty", b"")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(MalformedValue):
            read_checkpoint(tmp_path / name)
    with pytest.raises(MalformedValue, match="No such file"):
        read_checkpoint(tmp_path / "missing")


def test_node_without_the_section_makes_none(engine: Engine, clock: HandClock, tmp_path: Path) -> None:
    assert checkpoint_keeper(engine, tmp_path / "journal.key", None, clock) is None
    keeper = checkpoint_keeper(engine, tmp_path / "journal.key", CheckpointSettings(tmp_path / "points", every_s=7), clock)
    assert keeper is not None
    job = keeper.job()
    assert (job.name, job.every_s) == ("checkpoints", 7)
    Journal(engine, journal_key(tmp_path / "journal.key"), clock).append("intent", b"", {})
    job.run()
    assert [each.name for each in (tmp_path / "points").iterdir()] == ["0000000000000001.checkpoint"]
    for wrong in ({"every_s": 0}, {"most": 0}):
        with pytest.raises(ConfigurationError, match="checkpoints"):
            CheckpointSettings(tmp_path, **wrong)


def test_post_quantum_key_does_not_follow_from_public_values(tmp_path: Path) -> None:
    first, again = CheckpointKeys(JOURNAL_KEY), CheckpointKeys(JOURNAL_KEY)
    assert first.public == again.public and len(first.public.ml_dsa_65) == 1952
    assert CheckpointKeys(journal_key(tmp_path / "key")).public.ml_dsa_65 != first.public.ml_dsa_65
