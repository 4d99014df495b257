"""The duty that keeps capsules: one for each dispute that is over, made again by nobody, and no more than its bound."""

import os
from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import hex0x
from bytewise.service.capsules import CapsuleSettings
from chain.capsule.keeper import CapsuleKeeper
from chain.capsule.report import Failure
from chain.capsule.verification import verify_capsule
from tests.fixtures.capsule.good_capsules import upheld
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import word
from tests.fixtures.court.session import DisputeFixture


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
    made = file.stat().st_mtime_ns
    CapsuleKeeper(anvil.client, court.network, CapsuleSettings(folder, most=2)).run()
    assert file.stat().st_mtime_ns == made, "a restart makes no second one"
    for age, name in enumerate(("older", "oldest"), 1):
        other = folder / f"{hex0x(word(name))}.capsule.json"
        other.write_text("{}")
        os.utime(other, (made / 1e9 - 1000 * age,) * 2)
    (folder / "notes.txt").write_text("not a capsule")
    keeper.run()
    assert {each.name for each in folder.iterdir()} == {file.name, f"{hex0x(word('older'))}.capsule.json", "notes.txt"}
    file.unlink()
    CapsuleKeeper(anvil.client, court.network, CapsuleSettings(folder, most=2)).run()
    assert file.exists()
    assert capsys.readouterr().err.count('"event":"capsule.made"') == 2


@pytest.mark.parametrize("wrong", [{"most": 0}, {"every_s": 0}, {"finality": "newest"}])
def test_impossible_settings_are_refused(wrong: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="capsules"):
        CapsuleSettings(tmp_path, **wrong)  # type: ignore[arg-type]
