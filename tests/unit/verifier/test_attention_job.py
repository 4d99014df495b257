"""The job that scores a node in revealed attention tests: each file once, again when it changes, later when it is too early."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from bytewise.protocol.attention.score import DrawnAudit, ScoredTest
from bytewise.protocol.errors.actors import ConfigurationError, RevealRefused, TooEarly
from bytewise.protocol.records.statements import AuditOutcome
from tests.fixtures.attention_scene import FundScene
from tests.fixtures.builders import signer
from tests.fixtures.metric_values import value_of
from verifier.attention import AttentionJob
from verifier.settings import AttentionSettings

ME = signer("member").address
TESTS = FundScene().tests(FundScene().schedule())
POSTED = {
    "mismatch": AuditOutcome.MISMATCH,
    "match": AuditOutcome.MATCH,
    "none": AuditOutcome.NONE,
    "nothing": None,
    "copy": AuditOutcome.MISMATCH,
}


class Reveals:
    """A folder of reveals: what each file says is its content."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.read_files = folder, list[str]()
        self.job = AttentionJob(AttentionSettings(folder), ME, self.read)

    def read(self, path: Path) -> Sequence[ScoredTest]:
        self.read_files.append(path.name)
        content = path.read_text()
        if content == "early":
            raise TooEarly("the end of all windows", 9, 5)
        if content == "lie":
            raise RevealRefused("commitment", "is to other terms or another key")
        test = TESTS[list(POSTED).index(content)]
        others = (DrawnAudit(signer(name).address, AuditOutcome.MATCH) for name in ("one", "two"))
        return [ScoredTest(test, (DrawnAudit(ME, POSTED[content], content == "mismatch"), *others), rerun_differs=True)]

    def results(self) -> dict[str, float]:
        """The metric, by result."""
        names = ("caught", "unopened", "missed", "silent", "unavailable")
        return {name: value_of("bytewise_attention_results", result=name) for name in names}


@pytest.fixture
def reveals(tmp_path: Path) -> Reveals:
    return Reveals(tmp_path)


def events(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """Log lines about attention."""
    said = capsys.readouterr()
    lines = [json.loads(line) for line in (said.out + said.err).splitlines() if line.startswith("{")]
    return [line for line in lines if str(line["event"]).startswith("attention.")]


def test_results_of_all_reveals_are_counted(reveals: Reveals, capsys: pytest.CaptureFixture[str]) -> None:
    for content in POSTED:
        (reveals.folder / f"{content}.json").write_text(content)
    (reveals.folder / "readme.txt").write_text("no reveal")
    reveals.job.run()
    assert reveals.results() == dict.fromkeys(("caught", "unopened", "missed", "silent", "unavailable"), 1)
    found = {str(line["file"]): line for line in events(capsys)}
    assert found["match.json"]["missed"] == found["match.json"]["tests"] == 1 and found["match.json"]["caught"] == 0
    (reveals.folder / "match.json").unlink()
    reveals.job.run()
    assert reveals.results()["missed"] == 0, "a reveal that was taken away does not count"
    assert sorted(name for name in reveals.read_files if name != "copy.json") == [
        "match.json",
        "mismatch.json",
        "none.json",
        "nothing.json",
    ], "each is read once"
    assert reveals.read_files.count("copy.json") == 2, "an audit may be opened after the first look"
    assert not events(capsys), "what has not changed is told once"


def test_reveal_that_is_too_early_is_tried_again_and_a_lie_is_not(reveals: Reveals, capsys: pytest.CaptureFixture[str]) -> None:
    (reveals.folder / "early.json").write_text("early")
    (reveals.folder / "lie.json").write_text("lie")
    for _ in range(2):
        reveals.job.run()
    assert reveals.read_files == ["early.json", "lie.json", "early.json"]
    assert [line["event"] for line in events(capsys)] == ["attention.postponed", "attention.refused", "attention.postponed"]
    assert reveals.results()["caught"] == 0


def test_what_is_no_readable_file_is_skipped(reveals: Reveals, capsys: pytest.CaptureFixture[str]) -> None:
    """A file may be a dangling link, or be taken away while the folder is read; a pipe must not hold the job."""
    (reveals.folder / "dangling.json").symlink_to(reveals.folder / "none")
    os.mkfifo(reveals.folder / "pipe.json")
    (reveals.folder / "folder.json").mkdir()
    (reveals.folder / "match.json").write_text("match")
    for _ in range(2):
        reveals.job.run()
    assert reveals.read_files == ["match.json"] and reveals.results()["missed"] == 1
    skipped = [line["file"] for line in events(capsys) if line["event"] == "attention.skipped"]
    assert skipped == ["dangling.json", "folder.json", "pipe.json"], "once each"


def test_folder_that_is_missing_has_no_tests(tmp_path: Path) -> None:
    reveals = Reveals(tmp_path / "none")
    reveals.job.run()
    assert reveals.read_files == [] and reveals.results()["missed"] == 0
    with pytest.raises(ConfigurationError, match="every_s"):
        AttentionSettings(tmp_path, 0)
