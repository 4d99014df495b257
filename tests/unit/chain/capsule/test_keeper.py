"""The duty that keeps capsules: one for each dispute that is over, made again by nobody, and no more than its bound."""

import os
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from bytewise.crypto.checkpoint import CheckpointKeys
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.units import hex0x
from bytewise.service.sections import CapsuleSettings, CheckpointSettings
from bytewise.storage.checkpoints import CheckpointKeeper
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.tables import JournalRow
from chain.capsule.keeper import CapsuleKeeper
from chain.capsule.report import CapsuleReport, Failure, Group, Result
from chain.capsule.verification import Trust, verify_capsule
from chain.client.rpc import Block, ChainClient
from tests.fixtures.capsule.good_capsules import upheld
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil
from tests.fixtures.chain.devnet import word
from tests.fixtures.chain.lying_endpoints import fronts, lies
from tests.fixtures.court.claimed_receipts import claimed
from tests.fixtures.court.session import DisputeFixture
from tests.fixtures.storage.databases import SqliteFiles
from tests.fixtures.storage.hand_clock import HandClock
from tests.fixtures.verifier.verifier_fixture import NETWORK


def test_capsule_is_made_once_a_dispute_is_over(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    court = DisputeFixture(anvil, tmp_path, window=600, commit_time=300, reveal_time=300, rerun_time=900)
    folder = tmp_path / "capsules"
    keeper = CapsuleKeeper(anvil.client, court.network, CapsuleSettings(folder, most=2))
    keeper.run()
    assert not folder.exists()
    upheld(court)
    keeper.run()
    assert not folder.exists(), "the end is not in a finalized block"
    anvil.mine(70)
    keeper.run()
    (file,) = folder.iterdir()
    assert file.name == f"{hex0x(court.dispute)}.capsule.json"
    report = verify_capsule(file.read_bytes())
    assert report.first_failure is None and report.capsule is not None and report.capsule.claim.verdict == "upheld"
    assert [each.failure for each in report.open_conditions] == [Failure.DEPLOYMENT_UNKNOWN, Failure.UNDECLARED]
    assert journals_of(report) == (Result.UNVERIFIABLE, Failure.JOURNAL_ABSENT), "a node without [checkpoints] adds none"
    made = file.stat().st_mtime_ns
    CapsuleKeeper(anvil.client, court.network, CapsuleSettings(folder, most=2)).run()
    assert file.stat().st_mtime_ns == made, "a restart makes no second one"
    others = {f"{hex0x(word(name))}.capsule.json" for name in ("undisputed receipt", "other network", "backup")} | {"notes.txt"}
    for name in others:
        (folder / name).write_text("{}")
    keeper.run()
    assert {each.name for each in folder.iterdir()} == {file.name, *others}, "it deletes only what it can judge"
    file.unlink()
    CapsuleKeeper(anvil.client, court.network, CapsuleSettings(folder, most=2)).run()
    assert file.exists()
    assert capsys.readouterr().err.count('"event":"capsule.made"') == 2


def test_capsules_of_the_newest_disputes_are_kept(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    court = DisputeFixture(anvil, tmp_path, window=6000, commit_time=300, reveal_time=300, rerun_time=900)
    folder, files = tmp_path / "capsules", list[Path]()
    for index in range(2):
        court.open(index, word("guess"))
        court.judged(claimed(court, index))
        files.append(folder / f"{hex0x(court.dispute)}.capsule.json")
    older, newer = files

    def kept() -> list[Path]:
        """The files after a restart."""
        CapsuleKeeper(anvil.client, court.network, CapsuleSettings(folder, most=1, finality="latest")).run()
        return list(folder.iterdir())

    assert kept() == [newer]
    made = newer.stat().st_mtime_ns
    assert kept() == [newer] and newer.stat().st_mtime_ns == made
    assert capsys.readouterr().err.count('"event":"capsule.made"') == 1, "none is made only to be deleted"
    os.utime(newer, (1, 1))
    older.write_text("restored from a backup")
    assert kept() == [newer], "times of files mean nothing"
    newer.rename(older)
    assert kept() == [newer]


def test_capsule_is_tried_again_when_the_node_lacks_a_transaction(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    court = DisputeFixture(anvil, tmp_path, window=600, commit_time=300, reveal_time=300, rerun_time=900)
    upheld(court)
    folder, blocks = tmp_path / "capsules", 100
    with fronts(anvil, 1) as [front]:
        front.change = lies("eth_getTransactionByHash", lambda _: None)
        chain = ChainClient(front.url, CHAIN_ID, 5.0)
        keeper = CapsuleKeeper(chain, court.network, CapsuleSettings(folder, finality="latest"))
        for _ in range(blocks):
            keeper.run()
            anvil.mine()
        said = capsys.readouterr().err
        assert "capsule.skipped" not in said and "another contract" not in said and not folder.exists()
        assert "the node lacks transaction 0x" in said and 10 < said.count('"event":"capsule.failed"') < 20
        front.change = None
        for _ in range(blocks // 4 + 1):
            keeper.run()
            anvil.mine()
    (file,) = folder.iterdir()
    assert verify_capsule(file.read_bytes()).first_failure is None
    assert capsys.readouterr().err.count('"event":"capsule.made"') == 1


def test_capsule_has_what_the_node_recorded_about_its_dispute(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    court = DisputeFixture(anvil, tmp_path, window=600, commit_time=300, reveal_time=300, rerun_time=900)
    key, engine = journal_key(tmp_path / "journal.key"), open_database(SqliteFiles(tmp_path).create())
    journal, folder = Journal(engine, key, HandClock(1_800_000_000)), tmp_path / "capsules"
    points = CheckpointKeeper(journal, CheckpointKeys(key), CheckpointSettings(tmp_path / "points"), HandClock(1_800_000_500))
    identifier = receipt_id(court.network.anchor_domain, upheld(court)[0].receipt)
    subjects = (word("another receipt"), identifier, court.dispute, word("another dispute"), court.dispute)
    for number, subject in enumerate(subjects):
        journal.append(f"act.{number}", subject, {"number": number})
    anvil.mine(70)
    CapsuleKeeper(anvil.client, court.network, CapsuleSettings(folder), points).run()
    (file,) = folder.iterdir()
    known = Trust(journals=frozenset({CheckpointKeys(key).public.fingerprint}))
    report = verify_capsule(file.read_bytes(), known)
    assert report.capsule is not None and report.passes(Group.JOURNALS)
    (part,) = report.capsule.journals
    assert [each.kind for each in part.entries] == ["act.1", "act.2", "act.4"], "other people's receipts stay out"
    assert journals_of(report) == (Result.PASS, None)
    assert journals_of(verify_capsule(file.read_bytes())) == (Result.UNVERIFIABLE, Failure.JOURNAL_OWNER)
    with write_transaction(engine) as connection:
        connection.execute(update(JournalRow).where(JournalRow.number == 2).values(body=b'{"number":7}'))
    file.unlink()
    CapsuleKeeper(anvil.client, court.network, CapsuleSettings(folder), points).run()
    report = verify_capsule(file.read_bytes(), known)
    assert journals_of(report) == (Result.UNVERIFIABLE, Failure.JOURNAL_ABSENT), "an altered journal costs no verdict"
    assert '"event":"capsule.journal_omitted"' in capsys.readouterr().err


class EmptyChain:
    """A chain before the first block of the network."""

    chain_id = NETWORK.chain_id

    def head(self, _tag: str) -> Block:
        return Block(0, word("block 0"), word("block -1"), 0, 0)

    def logs(self, *_filter: object) -> list[object]:
        return []


def test_folder_that_cannot_be_used_fails_the_job_alone(tmp_path: Path) -> None:
    chain: Any = EmptyChain()
    keeper = CapsuleKeeper(chain, NETWORK, CapsuleSettings(tmp_path / ("x" * 300)))
    with pytest.raises(TryAgain, match="File name too long"):
        keeper.run()


def journals_of(report: CapsuleReport) -> tuple[Result, Failure | None]:
    """What a report says about journals."""
    return next((each.result, each.failure) for each in report.checks if each.group is Group.JOURNALS)


@pytest.mark.parametrize("wrong", [{"most": 0}, {"every_s": 0}, {"finality": "newest"}])
def test_impossible_settings_are_refused(wrong: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="capsules"):
        CapsuleSettings(tmp_path, **wrong)  # type: ignore[arg-type]
