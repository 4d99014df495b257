"""What `KEEP=1` leaves: variables and commands that a shell takes as they are, an account with funds, word of who ended."""

import io
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from chain.sending.keys import load_signer
from cli.demo import run as keeping
from cli.demo.facts import FRAUDS
from cli.demo.plan import CHAIN_ID, FUNDS_WEI, PARAMS, STAKE_WEI
from cli.demo.processes import ProcessGroup
from cli.demo.site import Ports, Site, new_site
from tests.fixtures.chain.anvil import running_anvil
from tests.fixtures.verifier.verifier_fixture import NETWORK
from tests.source import ROOT

ADA = NETWORK.addresses.ledger
PATIENCE_S = 60.0


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return new_site(tmp_path, tmp_path / "runs" / "it's 1", 1)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[ProcessGroup]:
    network = ProcessGroup(tmp_path, tmp_path, lambda what: None)
    yield network
    network.end()


def until(ready: threading.Event, holds: "object") -> None:
    for _ in range(int(PATIENCE_S / 0.05)):
        if holds():  # type: ignore[operator]
            return
        ready.wait(0.05)
    raise AssertionError("never")


def sourced(folder: Path, line: str) -> str:
    """What bash prints, in the checkout of the run; an unknown variable is an error there."""
    command = ["bash", "-euc", f"source runs/latest/env; {line}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=60).stdout


def test_sourced_variables_have_all_that_commands_and_guide_name(site: Site) -> None:
    keeping.write_variables(site, NETWORK, {"ada": ADA})
    guide = (ROOT / "docs/guide/run-the-demo.md").read_text()
    assert "source runs/latest/env" in guide
    block = guide[guide.index("source runs/latest/env") :][:3000]
    for text in (*keeping.COMMANDS, block):
        names = set(re.findall(r"\$([A-Z_]+)", text)) - {"RECEIPT_ID"}
        assert names or text == keeping.COMMANDS[0] or text == keeping.COMMANDS[2]
        for name in names:
            assert sourced(site.root, f"echo ${name}").strip(), name
    assert sourced(site.root, "echo $NETWORK").strip() == str(site.network_file)
    assert sourced(site.root, "echo $OPERATOR $RPC").split() == [f"{site.operator_url('honest')}/v1", site.rpc_url]
    assert sourced(site.root, "echo $ACCOUNT_ADA $CONTRACT_STAKE_VAULT").split() == [ADA, NETWORK.addresses.stake_vault]


def test_the_printed_commands_are_one_line_each_in_a_narrow_terminal(site: Site) -> None:
    keeping.write_variables(site, NETWORK, {})
    shown = io.StringIO()
    keeping.show(site, Console(file=shown, width=40, force_terminal=True, color_system=None))
    lines = shown.getvalue().splitlines()
    assert [line for line in lines if line in keeping.COMMANDS] == list(keeping.COMMANDS)
    words = shlex.split(sourced(site.root, f"RECEIPT_ID=0x12; echo {shlex.join(['x'])}; printf '%q ' {keeping.COMMANDS[3]}"))
    assert words[1:6] == [sys.executable, "-m", "bytewise", "verify", "0x12"] and str(site.network_file) in words
    question = keeping.COMMANDS[1].split('"$PYTHON" -c ')[1].split(" > ")[0]
    asked = sourced(site.root, f"printf '%s' {question}")
    assert "temperature=0," in asked and f"{site.operator_url('honest')}/v1" in asked
    compile(asked, "the sample question", "exec")


def test_the_run_that_is_kept_last_is_the_latest(site: Site) -> None:
    keeping.write_variables(site, NETWORK, {})
    other = new_site(site.root, site.root / "runs" / "2", 1)
    keeping.write_variables(other, NETWORK, {})
    assert sourced(site.root, "echo $NETWORK").strip() == str(other.network_file)
    assert sorted(each.name for each in (site.root / "runs").iterdir()) == ["2", "it's 1", "latest"]


def test_the_spare_account_has_funds_and_a_key_for_its_owner_only(site: Site) -> None:
    with running_anvil() as anvil:
        port = int(anvil.url.rsplit(":", 1)[1])
        there = Site(site.root, site.folder, Ports(port, 0, 0, 0, 0, (), (), ()), 1)
        account = keeping.make_spare_account(there)
        assert load_signer(there.spare_key).address == account and anvil.client.chain_id == CHAIN_ID
        assert int(anvil.rpc("eth_getBalance", account, "latest"), 16) == FUNDS_WEI
    assert stat.S_IMODE(there.spare_key.stat().st_mode) == 0o600


def test_dishonest_operator_has_free_stake_for_receipts_after_its_frauds() -> None:
    money = PARAMS.money
    left = STAKE_WEI["dishonest"] - FRAUDS * money.slash_amount
    # As the operator reckons (`serving.chain_view`): one slash and a minimum stay free.
    assert (left - money.slash_amount - money.min_operator_stake) // money.receipt_collateral >= FRAUDS
    assert FUNDS_WEI > STAKE_WEI["dishonest"]


def test_ended_process_of_a_kept_network_is_named_once_with_its_log(network: ProcessGroup, tmp_path: Path) -> None:
    told: set[str] = set()
    network.start("lives", ["sleep", "1000"])
    network.start("fails", ["sh", "-c", "exit 3"])
    network.start("dies", ["sleep", "1000"])
    assert all(name != "lives" for name in network.ended())
    os.kill(network.pids()["dies"], signal.SIGKILL)
    until(threading.Event(), lambda: len(network.ended()) == 2)
    assert keeping.ended_messages(network, told) == [
        f"fails ended with exit code 3; its log is {tmp_path / 'fails.log'}",
        f"dies was ended by SIGKILL; its log is {tmp_path / 'dies.log'}",
    ]
    assert keeping.ended_messages(network, told) == []
    assert network.unclean(midway=False) == {"fails": 3, "dies": -9, "lives": -15}


def test_process_stopped_before_it_listens_ended_cleanly_and_no_other(network: ProcessGroup) -> None:
    network.start("early", ["sleep", "1000"])
    network.start("clean", [sys.executable, "-c", "pass"])
    network.start("fails", ["sh", "-c", "exit 3"])
    network.start("terminated", ["sleep", "1000"])
    os.kill(network.pids()["terminated"], signal.SIGTERM)
    until(threading.Event(), lambda: len(network.ended()) == 3)
    assert network.unclean(midway=True) == {"fails": 3, "terminated": -15}
