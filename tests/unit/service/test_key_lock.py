"""The lock on an account's key file: one holder a machine, gone with its process, whatever the mode of the file's folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import ConfigurationError, KeyInUse
from bytewise.service.exit_codes import Exit, exit_of
from bytewise.service.node_files.key_lock import hold_key, verify_unused
from bytewise.service.settings import child_environment
from tests.source import ROOT

HOLDER = """
import sys, time
from pathlib import Path
from bytewise.service.node_files.key_lock import hold_key
with hold_key(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def key(tmp_path: Path) -> Path:
    file = tmp_path / "account.key"
    file.write_text("0x00")
    file.chmod(0o600)
    return file


def test_another_process_is_named_and_its_death_frees_the_key(key: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(key)]
    with subprocess.Popen(command, cwd=ROOT, env=child_environment(), stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(KeyInUse, match=f"account.key is used by process {other.pid}") as refused, hold_key(key):
            pass
        assert exit_of(refused.value) is Exit.REFUSED
        with pytest.raises(KeyInUse):
            verify_unused(key)
        other.kill()
    with hold_key(key):
        pass


def test_lock_ends_with_its_block_and_leaves_nothing(key: Path) -> None:
    for _ in range(2):
        with hold_key(key):
            pass
    assert [each.name for each in key.parent.iterdir()] == ["account.key"]


def test_child_process_does_not_inherit_the_lock(key: Path) -> None:
    with hold_key(key):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        verify_unused(key)
    finally:
        child.kill()
        child.wait()


def test_key_in_a_folder_that_cannot_be_written_is_locked(key: Path) -> None:
    key.chmod(0o400)
    key.parent.chmod(0o500)
    try:
        with hold_key(key), pytest.raises(KeyInUse), hold_key(key):
            pass
    finally:
        key.parent.chmod(0o700)


def test_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="absent"), hold_key(tmp_path / "absent"):
        pass
    verify_unused(tmp_path / "absent")
    assert os.listdir(tmp_path) == []
