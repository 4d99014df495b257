"""The operator's verbs, as processes with exit codes."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.address_book import CodeHash
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.errors.actors import ConfigurationError, NoProgress
from bytewise.protocol.units import ZERO_DIGEST, hex0x
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import child_environment, load_settings
from bytewise.storage.duties import Duties
from bytewise.storage.engine import open_database
from chain.client.address_book import contracts, write_network
from cli.__main__ import main
from committee.ballots import KIND
from committee.maintenance import decline
from tests.fixtures.builders import word
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import mine
from tests.fixtures.court.session import TRUE, DisputeFixture
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.verifier.node_file import node_file
from tests.fixtures.verifier.verifier_fixture import NETWORK
from tests.source import ROOT
from verifier.settings import NodeSettings


def config(folder: Path, **changes: Any) -> Path:
    return node_file(folder, f"sqlite:///{folder / 'actor.db'}", **changes)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "committee", *arguments]
    return subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=60, check=False)


def test_declining_a_future_duty_is_remembered(tmp_path: Path) -> None:
    """Also while no node answers."""
    file, dispute = config(tmp_path), word("dispute")
    code = tuple(CodeHash(each, ZERO_DIGEST) for each in contracts(NETWORK).values())
    write_network(tmp_path / "network.json", replace(NETWORK, code=code))
    (tmp_path / "actor.db").write_bytes(empty_database())
    assert main(["member", "decline", "--config", str(file), hex0x(dispute)]) == Exit.OK
    assert Duties(open_database(f"sqlite:///{tmp_path / 'actor.db'}"), SystemClock()).declined(KIND, dispute)


def test_a_watchtower_has_no_seats(tmp_path: Path) -> None:
    failed = run("--config", str(config(tmp_path, role="watchtower")))
    assert failed.returncode == 64 and "R-55" in failed.stderr


def test_declining_an_ended_or_unknown_duty_is_refused(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    write_network(tmp_path / "network.json", court.network)
    url = f"sqlite:///{tmp_path / 'actor.db'}"
    (tmp_path / "actor.db").write_bytes(empty_database())
    settings = load_settings(NodeSettings, config(tmp_path, rpc_url=anvil.url))
    court.open(0, word("guess"))
    duties = Duties(open_database(url), SystemClock())
    case = court.until(Phase.COMMIT)
    votes = [court.vote(case, each.voter, TRUE) for each in case.members]
    court.commit(votes)
    mine(anvil, 2)
    court.reveal(votes)
    court.until(Phase.FINAL)
    file = str(tmp_path / "node.json")
    assert main(["member", "decline", "--config", file, hex0x(court.dispute)]) == Exit.REFUSED
    assert duties.find(KIND, court.dispute) is None, "nothing is recorded"
    duties.add(KIND, word("voted"), 1)
    duties.done(KIND, word("voted"))
    with pytest.raises(NoProgress, match="DONE"):
        decline(settings, hex0x(word("voted")))
    assert main(["member", "decline", "--config", file, hex0x(word("unknown"))]) == Exit.OK
    assert main(["member", "decline", "--config", file, "0x12"]) == Exit.USAGE


@pytest.mark.parametrize(
    "changes",
    [
        {"executor": None}, {"unheard_of": 1}, {"da": {"urls": []}}, {"role": "king"}, {"chain": {"rpc_url": None}},
        {"chain": {"rpc_urls": ["u"]}}, {"schema_version": 2}, {"db": {"url": None}}, {"db": {"url_file": "f"}},
    ],
)  # fmt: skip
def test_impossible_member_settings_are_refused_by_name(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        load_settings(NodeSettings, config(tmp_path, **changes))
