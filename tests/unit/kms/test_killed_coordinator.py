"""`bytewise key dkg` as a process that is killed by SIGKILL now and then. At every moment: `test_killed_commands`."""

from pathlib import Path

from bytewise.crypto.curve import GENERATOR, encode_point
from bytewise.crypto.shares import combine_values
from bytewise.service.exit_codes import Exit
from kms.storage import keyring
from tests.fixtures.kms.dkg_fixture import CeremonyShard
from tests.fixtures.kms.killed_command import killed
from tests.fixtures.kms.killed_coordinator import dkg
from tests.fixtures.kms.served_ceremony import serving, shards

__all__ = ["shards"]
STEP = 9


def test_killed_coordinator_resumes_by_the_same_command(tmp_path: Path, shards: list[CeremonyShard]) -> None:
    with serving(shards):
        found = killed(tmp_path / "killed", tmp_path, "dkg", *dkg(tmp_path, shards, phase_s=20.0), step=STEP)
    document = keyring.load_document(tmp_path / "epoch.json")
    held = {index: each.share(3, document.commitments) for index, each in enumerate(shards, start=1)}
    assert found.code == Exit.OK and len(found.seen) >= 8
    assert encode_point(GENERATOR * combine_values(held)) == document.record.public_key
