"""The operator's verbs, as processes with exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.units import hex0x
from bytewise.service.clock import SystemClock
from bytewise.service.schedule import EXIT_BUG
from bytewise.service.settings import child_environment, load_settings
from bytewise.storage.duties import Duties
from bytewise.storage.engine import open_database
from bytewise.storage.migrate import migrate
from committee.ballots import KIND
from tests.source import ROOT
from tests.world import word
from verifier.settings import NodeSettings


def config(folder: Path, **changes: object) -> Path:
    url = f"sqlite:///{folder / 'actor.db'}"
    plain = {
        "role": "verifier", "rpc_url": "http://127.0.0.1:1", "network_file": "network.json", "key_file": "account.key",
        "database": url, "journal_key_file": "journal.key", "da_urls": ["http://127.0.0.1:1"], "enclave_socket": "s",
    }  # fmt: skip
    path = folder / "node.json"
    path.write_bytes(encode({name: value for name, value in (plain | changes).items() if value is not None}))
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "committee", *arguments]
    return subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=60, check=False)


def test_declining_a_duty_that_is_not_known_yet_is_remembered(tmp_path: Path) -> None:
    file, dispute = config(tmp_path), word("dispute")
    migrate(f"sqlite:///{tmp_path / 'actor.db'}")
    done = run("decline", "--config", str(file), hex0x(dispute))
    assert done.returncode == 0, done.stderr
    assert Duties(open_database(f"sqlite:///{tmp_path / 'actor.db'}"), SystemClock()).declined(KIND, dispute)


def test_a_watchtower_has_no_seats(tmp_path: Path) -> None:
    failed = run("--config", str(config(tmp_path, role="watchtower")))
    assert failed.returncode == EXIT_BUG and "R-55" in failed.stderr


@pytest.mark.parametrize(
    "changes",
    [{"enclave_socket": None}, {"unheard_of": 1}, {"da_urls": []}, {"role": "king"}, {"rpc_url": None}, {"rpc_urls": ["u"]}],
)
def test_settings_that_cannot_be_right_are_refused_by_name(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        load_settings(NodeSettings, config(tmp_path, **changes))
