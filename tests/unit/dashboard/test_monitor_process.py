"""The monitor as a command and as a process: exit codes, JSON, metrics, shards' logs that are cut off, wrong settings."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import delete

from bytewise.protocol.units import U64
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import child_environment
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.tables import ReleaseRow
from chain.client.address_book import write_network
from cli.__main__ import main
from cli.demo.site import free_ports, write_toml
from dashboard.monitor.invariants import NAMES
from enclave.release_client import ShardKeySource
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import deployed
from tests.fixtures.cli.key_site import KeySite, site
from tests.source import ROOT

__all__ = ["site"]

WAIT_S = 120.0


def settings_of(folder: Path, anvil: Anvil, **more: Any) -> Path:
    """Settings of a monitor whose address book is in the same folder."""
    return write_toml(folder / "bytewise.toml", {
        "network_file": "network.json", "check_s": 1, "chain": {"rpc_url": anvil.url, "timeout_s": 60, "poll_s": 0.2},
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
    config, world = settings_of(site.folder, site.anvil), site.world
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


def test_check_without_a_node_is_unknown_and_ends_with_unavailable_book(anvil: Anvil, tmp_path: Path) -> None:
    write_network(tmp_path / "network.json", deployed(anvil))
    config = settings_of(tmp_path, anvil)
    assert main(["monitor", "check", "--once", "--config", str(config)]) == Exit.INCONCLUSIVE, "nobody serves the shards"
    write_toml(
        config, {"network_file": "network.json", "chain": {"rpc_url": "http://127.0.0.1:9"}, "db": {"url": "sqlite:///i.db"}}
    )
    assert main(["monitor", "check", "--once", "--config", str(config)]) == Exit.UNAVAILABLE


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"invariants": {"grace_s": 0}}, "grace_s"),
        ({"check_s": 0}, "check_s"),
        ({"role": "verifier"}, "not of a monitor"),
        ({"schema_version": 2}, "this program reads 1"),
        ({"signer": {"key_file": "account.json"}}, "signer"),
    ],
)
def test_wrong_settings_are_named(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: dict[str, Any], words: str
) -> None:
    (tmp_path / "network.json").write_text("{}")
    assert main(["monitor", "check", "--once", "--config", str(settings_of(tmp_path, anvil, **more))]) == Exit.USAGE
    assert words in capsys.readouterr().err


def test_index_of_another_network_is_refused(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = deployed(anvil)
    write_network(tmp_path / "network.json", network)
    config = settings_of(tmp_path, anvil)
    main(["monitor", "check", "--once", "--config", str(config)])
    write_network(tmp_path / "network.json", replace(network, deploy_block=U64(network.deploy_block + 1)))
    capsys.readouterr()
    assert main(["monitor", "check", "--once", "--config", str(config)]) == Exit.USAGE
    assert "Traceback" not in capsys.readouterr().err


def test_process_serves_invariants_as_metrics_and_ends_cleanly(anvil: Anvil, tmp_path: Path) -> None:
    write_network(tmp_path / "network.json", deployed(anvil))
    (port,) = free_ports(1)
    config = settings_of(tmp_path, anvil, metrics={"port": port})
    command = [sys.executable, "-m", "dashboard.monitor", "run", "--config", str(config)]
    process = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=subprocess.PIPE, text=True)
    try:
        figures = _until(port, ['bytewise_invariant_state{invariant="money-sums",state="holds"} 1.0'])
        assert 'bytewise_invariant_state{invariant="logs-cover",state="unknown"} 1.0' in figures
        assert re.search(r'^bytewise_money_drift_wei\{contract="Ledger"\} 0\.0$', figures, re.MULTILINE)
        ready = httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=WAIT_S).json()
        (check,) = (each for each in ready["checks"] if each["name"] == "invariants")
        assert (not check["ok"] and check["value"].startswith("2 of 10 unknown: key epoch 1: ")) or "shard" in check["value"]
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, errors[-2000:]
    assert "Traceback" not in errors


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
        _until(port, ['bytewise_invariant_state{invariant="money-sums",state="holds"} 1.0'])
        main(["status", "--config", str(config), "--output", "json"])
        state = json.loads(capsys.readouterr().out)
        states = {each["invariant"]: each["state"] for each in state["invariants"]}
        assert state["process"].endswith("in use") and states["money-sums"] == "holds" and list(states) == list(NAMES)
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, errors[-2000:]


@pytest.mark.parametrize("words", [["backup", "make", "node.tar"], ["journal", "verify"]])
def test_verbs_of_accounts_refuse_a_monitor(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_network(tmp_path / "network.json", deployed(anvil))
    assert main([*words, "--config", str(settings_of(tmp_path, anvil))]) == Exit.USAGE
    assert "monitor" in capsys.readouterr().err
