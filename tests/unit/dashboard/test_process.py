"""Dashboard and monitor as processes and as commands.

The dashboard follows a real chain, serves, starts again, ends cleanly, and refuses what it cannot use. The monitor's exit codes,
JSON and metrics, also with shards' logs that are cut off and with wrong settings.
"""

import json
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import delete

from bytewise.protocol.address_book import Network
from bytewise.protocol.units import U64
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import child_environment, load_settings
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.migrations.migrate import migrate
from bytewise.storage.tables import ReleaseRow
from chain.client.address_book import write_network
from cli.__main__ import main
from cli.demo.site import free_ports, write_toml
from dashboard.__main__ import main as run_dashboard
from dashboard.monitor.invariants import NAMES
from dashboard.settings import DashboardSettings
from dashboard.wiring import DashboardProcess
from enclave.release_client import ShardKeySource
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import OPERATORS, deployed
from tests.fixtures.chain.lying_endpoints import fronts, refuses
from tests.fixtures.cli.key_site import KeySite, site
from tests.source import ROOT

__all__ = ["site"]

WAIT_S = 120.0
MOMENT_S = 0.1


class Place:
    """A folder with settings for a dashboard of a network."""

    def __init__(self, folder: Path, url: str, network: Network) -> None:
        """`url`: a node."""
        self.port, self.metrics = free_ports(2)
        write_network(folder / "network.json", network)
        settings = {
            "network_file": "network.json", "names": [f"{OPERATORS[0].address} lighthouse"],
            "chain": {"rpc_url": url, "poll_s": 0.2, "timeout_s": 60}, "db": {"url": "sqlite:///index.db", "check_s": 1},
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
    place = Place(tmp_path, anvil.url, deployed(anvil))
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
    place = Place(tmp_path, anvil.url, network)
    migrate(f"sqlite:///{tmp_path / 'index.db'}")
    code, log = refusal(place)
    assert code == 64 and "has tables of something else" in log
    (tmp_path / "index.db").unlink()
    with running(place):
        place.until_block(1)
        other = Place(tmp_path, anvil.url, network)
        other.config = write_toml(tmp_path / "taken.toml", _with_port(place, "other.db"))
        code, log = refusal(other)
        assert code == 64 and "cannot be used: name a free port" in log


def test_readiness_says_that_a_node_has_no_block_receipts(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    with fronts(anvil, 1) as (front,):
        front.change = refuses("eth_getBlockReceipts", code=-32601)
        settings = load_settings(DashboardSettings, Place(tmp_path, front.url, network).config)
        dashboard = DashboardProcess(settings, threading.Event())
        dashboard.tick()
    (check,) = (each for each in dashboard.readiness.checks() if each.name == "index")
    assert check.ok and "the node refuses eth_getBlockReceipts" in check.value


def _with_port(place: Place, database: str) -> dict[str, object]:
    found = tomllib.loads(place.config.read_text())
    return {**found, "db": {"url": f"sqlite:///{database}"}, "api": {"port": place.port}, "metrics": {"port": free_ports(1)[0]}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ('names = ["nonsense"]\n', "malformed address"), ('role = "shard"\n', "not of a dashboard"),
        ("[api]\nport = true\n", "api.port: not a int"),
        ("[signer]\nkey_file = 'x'\n", "signer: unknown setting"), ("[db]\n", "set url, or url_file"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named(tmp_path: Path, change: str, why: str, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "network.json").write_text("{}")
    base = 'network_file = "network.json"\n'
    rest = '[chain]\nrpc_url = "http://127.0.0.1:1"\n' + ("" if "[db]" in change else '[db]\nurl = "sqlite:///index.db"\n')
    text = base + rest + change if change.startswith("[") else base + change + rest
    (tmp_path / "dashboard.toml").write_text(text)
    assert run_dashboard(["run", "--config", str(tmp_path / "dashboard.toml")]) == 64
    assert why in json.loads(capfd.readouterr().err.splitlines()[-1])["detail"]


# --- the monitor ---


def settings_of(folder: Path, url: str, **more: Any) -> Path:
    """Settings of a monitor whose address book is in the same folder."""
    return write_toml(folder / "bytewise.toml", {
        "network_file": "network.json", "check_s": 1, "chain": {"rpc_url": url, "timeout_s": 60, "poll_s": 0.2},
        "db": {"url": "sqlite:///index.db"}, "release_logs": {"folder": "logs"},
        "invariants": {"stale_s": 10_000, "ahead_s": 10_000}, **more,
    })  # fmt: skip


def checked(site: KeySite, config: Path) -> tuple[int, dict[str, tuple[str, str]]]:
    """Exit code of one check; state and text by invariant."""
    site.said()
    code = main(["monitor", "check", "--once", "--output", "json", "--config", str(config)])
    report = json.loads(site.said())
    told = {
        each["invariant"]: (each["state"], "; ".join([*(found["text"] for found in each["findings"]), each["reason"]]))
        for each in report["invariants"]
    }
    assert list(told) == list(NAMES)
    return code, told


@pytest.mark.e2e
def test_check_follows_release_logs_to_their_exit_codes(site: KeySite) -> None:
    config, world = settings_of(site.folder, site.anvil.url), site.world
    shards = {index: world.shard(index) for index in (1, 2, 3)}
    with world.serving(*shards.items()):
        site.anvil.mine()
        code, told = checked(site, config)
        assert (code, {state for state, _ in told.values()}) == (Exit.OK, {"holds"})
        case = world.case()
        world.chain.open(case)
        ShardKeySource(world.quoter, rebuilds=True).open(world.job(case), world.secret)
        code, told = checked(site, config)
        assert code == Exit.MISMATCH and told["logs-extend"][0] == "broken"
        assert "record 0" in told["logs-extend"][1], "its dispute is not on this chain"
        with write_transaction(open_database(f"sqlite:///{site.folder / 'shard-1' / 'kms.sqlite'}")) as connection:
            connection.execute(delete(ReleaseRow))
        code, told = checked(site, config)
        assert code == Exit.MISMATCH and "ends before record 0" in told["logs-extend"][1]
    code, told = checked(site, config)
    assert told["logs-extend"][0] == "broken", "what is proven stays so while shards are away"


def test_check_without_shards_node_or_its_own_index_has_its_exit_code(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    network, check = deployed(anvil), ["monitor", "check", "--once", "--config"]
    write_network(tmp_path / "network.json", network)
    config = str(settings_of(tmp_path, anvil.url))
    assert main([*check, config]) == Exit.INCONCLUSIVE, "nobody serves the shards"
    monkeypatch.chdir(tmp_path)
    for words in (["backup", "make", "node.tar"], ["journal", "verify"]):
        capsys.readouterr()
        assert main([*words, "--config", config]) == Exit.USAGE
        assert "monitor" in capsys.readouterr().err, "a verb of accounts"
    away = {"network_file": "network.json", "chain": {"rpc_url": "http://127.0.0.1:9"}, "db": {"url": "sqlite:///i.db"}}
    assert main([*check, str(write_toml(tmp_path / "away.toml", away))]) == Exit.UNAVAILABLE
    write_network(tmp_path / "network.json", replace(network, deploy_block=U64(network.deploy_block + 1)))
    capsys.readouterr()
    assert main([*check, config]) == Exit.USAGE, "the index is of another network"
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"invariants": {"grace_s": 0}}, "grace_s"), ({"check_s": 0}, "check_s"), ({"role": "verifier"}, "not of a monitor"),
        ({"schema_version": 2}, "this program reads 1"), ({"signer": {"key_file": "account.json"}}, "signer"),
    ],
)  # fmt: skip
def test_wrong_settings_of_a_monitor_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: dict[str, Any], words: str
) -> None:
    (tmp_path / "network.json").write_text("{}")
    config = settings_of(tmp_path, "http://127.0.0.1:9", **more)
    assert main(["monitor", "check", "--once", "--config", str(config)]) == Exit.USAGE
    assert words in capsys.readouterr().err


def _until(port: int, lines: Sequence[str]) -> str:
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        try:
            text = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_S).text
            if all(line in text for line in lines):
                return text
        except httpx2.HTTPError:
            pass
        threading.Event().wait(0.1)
    raise AssertionError(f"no {lines} in the metrics")


def test_node_of_role_monitor_is_made_checked_run_and_shown(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_network(tmp_path / "network.json", deployed(anvil))
    (port,) = free_ports(1)
    folder = tmp_path / "node"
    made = ["init", "--role", "monitor", str(folder), "--network", str(tmp_path / "network.json"), "--rpc", anvil.url]
    assert main([*made, "--metrics-port", str(port)]) == Exit.OK
    config = folder / "bytewise.toml"
    assert "bytewise run" in capsys.readouterr().out
    # No block is mined meanwhile, and a busy machine is slow.
    text = config.read_text()
    assert "# stale_s = 120\n" in text
    config.write_text(text.replace("# stale_s = 120\n", "stale_s = 100000\n"))
    assert main(["doctor", "--config", str(config)]) in (Exit.OK, Exit.NOT_READY)
    shown = capsys.readouterr().out
    assert "ok   contract_code" in shown and "signer" not in shown and "Traceback" not in shown
    assert main(["status", "--config", str(config)]) == Exit.NOT_READY
    assert "Start it: `bytewise run`." in capsys.readouterr().out
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", "run", "--config", str(config)], cwd=ROOT, env=child_environment(), stderr=subprocess.PIPE
    )
    try:
        figures = _until(port, ['bytewise_invariant_state{invariant="money-sums",state="holds"} 1.0'])
        assert 'bytewise_invariant_state{invariant="logs-cover",state="unknown"} 1.0' in figures
        assert re.search(r'^bytewise_money_drift_wei\{contract="Ledger"\} 0\.0$', figures, re.MULTILINE)
        ready = httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=WAIT_S).json()
        (check,) = (each for each in ready["checks"] if each["name"] == "invariants")
        assert (not check["ok"] and check["value"].startswith("2 of 10 unknown: key epoch 1: ")) or "shard" in check["value"]
        main(["status", "--config", str(config), "--output", "json"])
        state = json.loads(capsys.readouterr().out)
        states = {each["invariant"]: each["state"] for each in state["invariants"]}
        assert state["process"].endswith("in use") and states["money-sums"] == "holds" and list(states) == list(NAMES)
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0 and b"Traceback" not in errors, errors[-2000:]
