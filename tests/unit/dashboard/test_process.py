"""The dashboard as a process: follows a real chain, serves, starts again, ends cleanly, and refuses what it cannot use."""

import json
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from bytewise.protocol.address_book import Network
from bytewise.service.settings import child_environment
from bytewise.storage.migrate import migrate
from chain.client.address_book import write_network
from cli.demo.site import free_ports, write_toml
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import OPERATORS, deployed
from tests.source import ROOT

WAIT_S = 120.0
MOMENT_S = 0.1


class Place:
    """A folder with settings for a dashboard of a network."""

    def __init__(self, folder: Path, anvil: Anvil, network: Network) -> None:
        self.port, self.metrics = free_ports(2)
        write_network(folder / "network.json", network)
        settings = {
            "network_file": "network.json", "names": [f"{OPERATORS[0].address} lighthouse"],
            "chain": {"rpc_url": anvil.url, "poll_s": 0.2, "timeout_s": 60}, "db": {"url": "sqlite:///index.db", "check_s": 1},
            "api": {"port": self.port}, "metrics": {"port": self.metrics},
        }  # fmt: skip
        self.config = write_toml(folder / "dashboard.toml", settings)

    def get(self, path: str) -> httpx2.Response:
        """An answer of the pages."""
        return httpx2.get(f"http://127.0.0.1:{self.port}{path}", timeout=WAIT_S)

    def until_block(self, number: int) -> None:
        """Waits until the index has a block."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            try:
                if self.get("/api/v1/meta").json()["block"]["number"] >= number:
                    return
            except httpx2.HTTPError:
                pass
            time.sleep(MOMENT_S)
        raise AssertionError(f"block {number} is not indexed")


@contextmanager
def running(place: Place) -> Iterator[subprocess.Popen[str]]:
    """The process; asserts that SIGTERM ends it with 0."""
    command = [sys.executable, "-m", "dashboard", "run", "--config", str(place.config)]
    process = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, errors[-2000:]


def refusal(place: Place) -> tuple[int, str]:
    """Exit code and log of a process that does not start."""
    command = [sys.executable, "-m", "dashboard", "run", "--config", str(place.config)]
    ended = subprocess.run(
        command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stderr


def test_dashboard_follows_a_chain_and_goes_on_after_a_restart(anvil: Anvil, tmp_path: Path) -> None:
    place = Place(tmp_path, anvil, deployed(anvil))
    with running(place):
        place.until_block(anvil.mine(3))
        assert place.get(f"/operators/{OPERATORS[0].address}").status_code == 200 and "lighthouse" in place.get("/operators").text
        ready = httpx2.get(f"http://127.0.0.1:{place.metrics}/readyz", timeout=WAIT_S).json()
        assert {check["name"] for check in ready["checks"]} >= {"index", "started"}
        figures = httpx2.get(f"http://127.0.0.1:{place.metrics}/metrics", timeout=WAIT_S).text
        assert "bytewise_index_events_total" in figures and 'bytewise_pages_total{status="2xx"}' in figures
        _until_checked(place)
    with running(place):
        place.until_block(anvil.mine(3))
        anvil.reorganise(2)
        place.until_block(anvil.mine(4))
        assert place.get("/api/v1/meta").json()["differences"] == []


def _until_checked(place: Place) -> None:
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        meta = place.get("/api/v1/meta").json()
        if meta["checked_block"]:
            assert meta["differences"] == []
            return
        time.sleep(MOMENT_S)
    raise AssertionError("the index is not compared with the contracts")


def test_dashboard_refuses_what_it_cannot_use(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    place = Place(tmp_path, anvil, network)
    migrate(f"sqlite:///{tmp_path / 'index.db'}")
    code, log = refusal(place)
    assert code == 64 and "has tables of something else" in log
    (tmp_path / "index.db").unlink()
    with running(place):
        place.until_block(1)
        other = Place(tmp_path, anvil, network)
        other.config = write_toml(tmp_path / "taken.toml", _with_port(place, "other.db"))
        code, log = refusal(other)
        assert code == 64 and "cannot be used: name a free port" in log


def _with_port(place: Place, database: str) -> dict[str, object]:
    found = tomllib.loads(place.config.read_text())
    return {**found, "db": {"url": f"sqlite:///{database}"}, "api": {"port": place.port}, "metrics": {"port": free_ports(1)[0]}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ('names = ["nonsense"]\n', "malformed address"), ("[api]\nport = true\n", "api.port: not a int"),
        ("[signer]\nkey_file = 'x'\n", "signer: unknown setting"), ("[db]\n", "set url, or url_file"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named(tmp_path: Path, change: str, why: str) -> None:
    (tmp_path / "network.json").write_text("{}")
    base = 'network_file = "network.json"\n'
    rest = '[chain]\nrpc_url = "http://127.0.0.1:1"\n' + ("" if "[db]" in change else '[db]\nurl = "sqlite:///index.db"\n')
    text = base + change + rest if change.startswith("names") else base + rest + change
    (tmp_path / "dashboard.toml").write_text(text)
    command = [sys.executable, "-m", "dashboard", "run", "--config", str(tmp_path / "dashboard.toml")]
    ended = subprocess.run(
        command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert ended.returncode == 64 and why in json.loads(ended.stderr.splitlines()[-1])["detail"]
