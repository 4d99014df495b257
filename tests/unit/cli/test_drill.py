"""`bytewise drill slash`: what it shows is what the contracts do, to the wei, and the chain gets nothing from it."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.units import Address
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import child_environment
from chain.client.address_book import write_network
from chain.deployment.calls import ContractCall, call_of
from chain.deployment.params import DEVNET
from chain.sending.transactions import send_all
from cli.__main__ import main
from cli.drill.command import document
from cli.drill.fork import running_fork
from cli.drill.penalty import PenaltyDrill, SeatFault
from cli.drill.relay import READ_METHODS, reading_relay
from cli.drill.session import DrillReport
from cli.drill.slash import SlashDrill
from tests.fixtures.chain.anvil import CHAIN_ID, PROGRAM, Anvil, running_anvil
from tests.fixtures.chain.devnet import CHALLENGER, ENVIRONMENT, GUARDIAN, OPERATORS, STAKE_WEI, VERIFIERS
from tests.fixtures.chain.lying_endpoints import fronts
from tests.fixtures.court.session import DisputeFixture
from tests.fixtures.inference.models import small_artifact
from tests.source import ROOT


@pytest.fixture(scope="module")
def court(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DisputeFixture]:
    """A network with an open batch, and its address book. No drill changes it, so that all drills are of it."""
    folder = tmp_path_factory.mktemp("court")
    with running_anvil() as anvil:
        made = DisputeFixture(anvil, folder, window=3600)
        write_network(folder / "network.json", made.network)
        head = anvil.client.head()
        yield made
        assert anvil.client.head() == head, "nothing was sent to the chain"


@pytest.fixture
def folder(court: DisputeFixture, tmp_path: Path) -> Path:
    """A folder with the address book."""
    write_network(tmp_path / "network.json", court.network)
    return tmp_path


def play(court: DisputeFixture, account: Address, receipts: int = 1, url: str = "") -> DrillReport:
    """One drill on a fork of the chain's newest block."""
    with running_fork(PROGRAM, url or court.anvil.url, court.network, court.reader.head()) as fork:
        return SlashDrill(fork, account, receipts, lambda *_: None).run()


def test_drill_shows_the_slash_to_the_wei_and_sends_nothing(court: DisputeFixture) -> None:
    anvil, me, head = court.anvil, OPERATORS[0].address, court.anvil.client.head()
    before = court.reader.holdings(me, court.reader.head())
    with fronts(anvil, 1) as (front,):
        report = play(court, me, 3, front.url)
        assert front.asked.keys() <= READ_METHODS, "the chain's node is only read"
    assert anvil.client.head() == head and court.reader.holdings(me, court.reader.head()) == before
    slashed, bond = DEVNET.money.slash_amount, 3 * DEVNET.money.demand_bond
    assert report.slashed_wei == slashed and report.block == head.number
    found = {(each.owner, each.what): each for each in report.changes}
    stake = found[me, "stake"]
    assert (stake.before, stake.after) == (STAKE_WEI, STAKE_WEI - slashed)
    share = slashed * DEVNET.shares.alpha_bps // 10_000
    (tower,) = {owner for owner, what in found if what == "credit" and owner != me}
    assert found[tower, "credit"].after == share + bond and found[tower, "balance"].before - found[tower, "balance"].after == bond
    money = {event: sum(each.wei for each in report.flows if each.event == event) for event in ("taken", "credited", "burned")}
    price = sum(each.wei for each in report.flows if each.reason == "fee")
    assert [each.wei for each in report.flows if each.reason == "slash"] == [slashed]
    assert money["taken"] == slashed + bond + price and money["credited"] + money["burned"] == slashed + bond
    assert found["ledger", "burned"].after - found["ledger", "burned"].before == money["burned"] >= slashed // 5
    assert [step.call for step in report.steps] == ["ReceiptAnchor.post", "Demands.demandList", "", "Demands.expire"]
    assert report.steps[-1].after_s > DEVNET.times.cure
    told = {each.call: each for each in report.choices}
    wait = re.search(r"unlock (\d+) s later", told["StakeVault.requestUnbond"].note)
    assert wait is not None and 0 <= int(wait[1]) - DEVNET.times.unbond_delay <= 3600, "requests of one hour mature together"
    assert not told["StakeVault.deposit"].refusal and "NothingUnbonded" in told["StakeVault.finishUnbond"].refusal
    assert json.loads(json.dumps(document(report)))["slashed_wei"] == str(slashed)


def test_drill_of_a_small_stake_withholds_an_open_batch(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    left = DEVNET.money.slash_amount
    court.of(OPERATORS[0]).request_unbond(STAKE_WEI - left, b"drill")
    court.pump()
    report = play(court, OPERATORS[0].address)
    assert report.slashed_wei == left and "you can anchor none" in report.steps[0].effect
    anvil.pass_time(DEVNET.times.window + 1)
    with pytest.raises(ConfigurationError, match="no open batch and can anchor none"):
        play(court, OPERATORS[0].address)


def test_account_that_has_nothing_to_lose_is_refused(court: DisputeFixture) -> None:
    for who in (VERIFIERS[0].address, CHALLENGER.address):
        with pytest.raises(ConfigurationError, match="no operator"):
            play(court, who)
    with running_fork(PROGRAM, court.anvil.url, court.network, court.reader.head()) as fork:
        with pytest.raises(ConfigurationError, match="in no pool"):
            PenaltyDrill(fork, CHALLENGER.address, SeatFault.ABSENT, lambda *_: None).run()


def operator_folder(tmp_path: Path, url: str) -> Path:
    """Settings of operator 0, as `init` writes them."""
    small_artifact(tmp_path / "model", 7)
    (tmp_path / "environment.json").write_bytes(encode(ENVIRONMENT))
    key = tmp_path / "operator.key"
    key.write_text("0x" + OPERATORS[0].secret.hex())
    key.chmod(0o600)
    made = [
        "init", "--role", "operator", str(tmp_path / "node"), "--network", str(tmp_path / "network.json"), "--rpc", url, "--key",
        str(key), "--artifact", str(tmp_path / "model" / "artifact"), "--environment", str(tmp_path / "environment.json"),
        "--model-name", "tiny",
    ]  # fmt: skip
    assert main(made) == Exit.OK
    return tmp_path / "node" / "bytewise.toml"


def test_command_prints_table_and_json_and_names_what_is_missing(
    court: DisputeFixture, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = operator_folder(folder, court.anvil.url)
    words = ["drill", "slash", "--config", str(config)]
    assert main(words) == Exit.OK
    shown = capsys.readouterr().out
    assert "Nothing was sent to the chain." in shown and f"{OPERATORS[0].address} would lose" in shown
    assert "What you could do afterwards" in shown and "begin to withdraw stake: allowed" in shown
    assert main([*words, "--output", "json"]) == Exit.OK
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["sent_to_the_chain"] == 0 and int(told["slashed_wei"]) > 0 and len(told["steps"]) == 4
    monkeypatch.setattr("cli.demo.actors.SOURCE_ROOT", folder)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.chdir(folder)
    assert main(words) == Exit.USAGE
    told_error = capsys.readouterr().err
    assert "anvil: is not here; this installs it" in told_error and "Traceback" not in told_error


def test_node_of_another_chain_and_silent_node_are_named(
    court: DisputeFixture, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    anvil = court.anvil
    config = operator_folder(folder, anvil.url)
    text = config.read_text()
    config.write_text(text.replace(anvil.url, "http://127.0.0.1:9"))
    assert main(["drill", "slash", "--config", str(config)]) == Exit.UNAVAILABLE
    config.write_text(text)
    anvil.rpc("anvil_setChainId", 7)
    try:
        assert main(["drill", "slash", "--config", str(config)]) == Exit.USAGE
    finally:
        anvil.rpc("anvil_setChainId", CHAIN_ID)
    assert "chain 7" in capsys.readouterr().err
    with pytest.raises(TryAgain, match="anvil ended with code"), running_fork(PROGRAM, "http://127.0.0.1:9", court.network, 1):
        pass


def test_paused_network_is_named(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    court = DisputeFixture(anvil, tmp_path, window=3600)
    write_network(tmp_path / "network.json", court.network)
    config = operator_folder(tmp_path, anvil.url)
    send_all(anvil.client, [call_of(GUARDIAN, court.network, ContractCall("Guardian", "pause", (3600,)))], 30)
    assert main(["drill", "slash", "--config", str(config)]) == Exit.USAGE
    assert "the drill cannot be played now" in " ".join(capsys.readouterr().err.split())


ENDLESS = """
import sys, time
from pathlib import Path
from chain.client.address_book import read_network
from cli.drill.fork import running_fork
with running_fork(Path(sys.argv[1]), sys.argv[2], read_network(Path(sys.argv[3])), int(sys.argv[4])) as fork:
    print(fork.client.rpc("web3_clientVersion"), flush=True)
    time.sleep(600)
"""


def test_ended_drill_leaves_no_process_and_no_folder(court: DisputeFixture, folder: Path) -> None:
    url = court.anvil.url
    words = [sys.executable, "-c", ENDLESS, str(PROGRAM), url, str(folder / "network.json"), str(court.reader.head())]
    environment = {**child_environment(), "TMPDIR": str(folder)}
    process = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and "anvil" in process.stdout.readline()
    children = psutil.Process(process.pid).children(recursive=True)
    (command,) = [" ".join(each.cmdline()) for each in children if "--fork-url" in each.cmdline()]
    assert url not in command, "the node's URL may have a key in it"
    assert any(folder.glob("bytewise-drill-*"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert not any(each.is_running() for each in children) and not any(folder.glob("bytewise-drill-*"))


CHARGES = {
    SeatFault.ABSENT: DEVNET.money.absent_penalty, SeatFault.NOT_REVEALED: DEVNET.money.no_reveal_penalty,
    SeatFault.WRONG: DEVNET.money.wrong_penalty,
}  # fmt: skip


@pytest.mark.parametrize("fault", SeatFault)
def test_verifier_loses_the_penalty_of_each_seat_on_the_fork(court: DisputeFixture, fault: SeatFault) -> None:
    anvil, me, head = court.anvil, VERIFIERS[0].address, court.anvil.client.head()
    with fronts(anvil, 1) as (front,):
        with running_fork(PROGRAM, front.url, court.network, head.number) as fork:
            report = PenaltyDrill(fork, me, fault, lambda *_: None).run()
        assert front.asked.keys() <= READ_METHODS
    assert anvil.client.head() == head
    drawn = next(re.search(r"drawn for (\d+) of", each.title) for each in report.steps if "You are drawn" in each.title)
    assert drawn is not None and report.slashed_wei == int(drawn[1]) * CHARGES[fault]
    stake = next(each for each in report.changes if (each.owner, each.what) == (me, "stake"))
    assert stake.before - stake.after == report.slashed_wei > 0
    taken = [flow for flow in report.flows if flow.event == "taken" and flow.account == me]
    assert sum(flow.wei for flow in taken) == report.slashed_wei and {flow.reason for flow in taken} == {"seat penalty"}
    assert {flow.reason for flow in report.flows if flow.event == "burned"} >= {"seat penalty"}
    assert {each.call for each in report.choices} >= {"StakeVault.requestUnbond", "StakeVault.deposit"}


def test_drill_at_eigenlayer_plays_operators_and_refuses_verifiers(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path, True)
    report = play(court, OPERATORS[0].address)
    assert report.slashed_wei == DEVNET.money.slash_amount
    assert [each.call for each in report.choices] == ["ReceiptAnchor.post", "Ledger.withdraw"]
    with running_fork(PROGRAM, anvil.url, court.network, anvil.client.head().number) as fork:
        drill = PenaltyDrill(fork, VERIFIERS[0].address, SeatFault.ABSENT, lambda *_: None)
        with pytest.raises(ConfigurationError, match="stake is at EigenLayer"):
            drill.run()


QUESTIONS_NO_MORE: tuple[object, ...] = (
    {"id": 1, "method": "eth_sendRawTransaction", "params": ["0x00"]},
    {"id": 1, "method": "anvil_mine", "params": ["0x1"]},
    [{"id": 1, "method": "eth_chainId", "params": []}, {"id": 2, "method": "eth_sendTransaction", "params": [{}]}],
    {"id": 1}, [], "eth_chainId", 7, [None],
)  # fmt: skip


def test_relay_forwards_questions_only(court: DisputeFixture) -> None:
    with fronts(court.anvil, 1) as (front,), reading_relay(front.url) as url:
        for asked in QUESTIONS_NO_MORE:
            answer = httpx2.post(url, json=asked, timeout=30).json()
            assert all("error" in each for each in (answer if isinstance(answer, list) else [answer])), asked
        assert not front.asked
        good = httpx2.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}, timeout=30).json()
        assert int(good["result"], 16) == CHAIN_ID
        assert httpx2.post(url.rpartition("/")[0], json={}, timeout=30).status_code == 404
