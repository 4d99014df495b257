"""What is asked of `bytewise key` that cannot be is said before anything is done, as asked wrongly: never as our own fault."""

import re
from pathlib import Path

import pytest

from bytewise.service.exit_codes import Exit
from bytewise.service.settings import load_settings
from chain.client.address_book import write_network
from chain.sending.keys import devnet_signer, save_signer
from cli.__main__ import main
from kms.settings import CeremonySettings
from tests.fixtures.verifier.verifier_fixture import NETWORK

CEREMONY = """
epoch = {epoch}
threshold = 2
quorum = 2
reveal_budget = 1
assurance = "simulated"
phase_s = 5.0
network_file = "network.json"
coordinator_key_file = "coordinator.key"
database_url = "sqlite:///coordinator.sqlite"
plan_file = "plan.json"
out_file = "epoch.json"
entries = []
source_version = {version}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an address book and a key, in which the verb runs."""
    monkeypatch.chdir(tmp_path)
    write_network(tmp_path / "network.json", NETWORK)
    save_signer(tmp_path / "coordinator.key", devnet_signer(31337, 0))
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return re.sub(r"\s+", " ", capsys.readouterr().err)


@pytest.mark.parametrize("verb", ["dkg", "reshare", "repair", "rotate"])
@pytest.mark.parametrize("epoch", [0, 1 << 32, 2 << 32, (4 << 32) + 1, (1 << 64) - 1])
def test_ceremony_of_a_key_epoch_with_an_unknown_version_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], verb: str, epoch: int
) -> None:
    (folder / "dkg.toml").write_text(CEREMONY.format(epoch=epoch, version=0))
    more = ["--key", "coordinator.key"] if verb == "rotate" else []
    assert main(["key", verb, "--config", "dkg.toml", *more]) == Exit.USAGE
    assert f"epoch: {epoch} is" in said(capsys) and not (folder / "plan.json").exists()


@pytest.mark.parametrize("version", [-1, 1 << 53])
def test_impossible_share_version_is_refused(folder: Path, capsys: pytest.CaptureFixture[str], version: int) -> None:
    (folder / "dkg.toml").write_text(CEREMONY.format(epoch=1, version=version))
    assert main(["key", "reshare", "--config", "dkg.toml"]) == Exit.USAGE
    assert f"source_version: {version}" in said(capsys)


@pytest.mark.parametrize("epoch", [0, 1 << 64])
def test_key_epoch_number_beyond_the_chains_type_is_refused(folder: Path, capsys: pytest.CaptureFixture[str], epoch: int) -> None:
    options = ["--key", "coordinator.key", "--network", "network.json", "--rpc", "http://127.0.0.1:1"]
    assert main(["key", "retire", str(epoch), *options]) == Exit.USAGE
    assert "'EPOCH': Input should be" in said(capsys)
    assert main(["key", "log", "verify", "--epoch", str(epoch or -1)]) == Exit.USAGE
    assert "'--epoch': Input should be" in said(capsys)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1\n", "http://127.0.0.1 :1", "http://127.0.0.1\t:1", "nonsense", "ftp://x"])
def test_malformed_node_address_is_a_usage_error(folder: Path, capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert main(["key", "list", "--network", "network.json", "--rpc", url]) == Exit.USAGE
    assert "rpc: " in said(capsys)


def test_folder_in_place_of_a_file_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["list", "--network", "."], ["dkg", "--config", "."], ["retire", "1", "--key", "."]):
        assert main(["key", *given]) == Exit.USAGE
        assert ".: Is a directory" in said(capsys)


def test_coordinator_has_one_log_in_whichever_folder_its_command_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan and key lie beside the settings; a log that did not would be begun again, and convict the coordinator."""
    (folder / "dkg.toml").write_text(CEREMONY.format(epoch=1, version=0))
    monkeypatch.chdir("/")
    settings = load_settings(CeremonySettings, folder / "dkg.toml")
    assert settings.database_url == f"sqlite:///{folder / 'coordinator.sqlite'}"
    assert settings.plan_file == folder / "plan.json"
