"""`bytewise doctor`, `register`, `status` on a real chain: what a new node lacks, what it does about that, and its state."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.demands import DemandPolicy
from bytewise.protocol.decisions.snapshot import RegisteredMeasurement
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U256, Address
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise.service.readiness import MAX_AHEAD_S
from bytewise.service.sections import SignerSettings
from bytewise.service.settings import load_settings
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.protection import Protection
from chain.client.address_book import read_network, write_network
from chain.deployment.calls import estimated_call
from chain.deployment.deploy import set_measurement
from chain.deployment.params import DEVNET, ETHER
from chain.deployment.plan import DEVNET_SHAPE
from chain.reads.reader import SnapshotReader
from chain.reads.records import Membership
from chain.sending.keys import open_signer, save_signer
from chain.sending.transactions import send_all
from cli.__main__ import main
from cli.demo.site import free_ports
from cli.node import state
from cli.node.checks import chain as chain_checks
from cli.node.checks.host import KernelClock, kernel_clock, memory_check, time_service_check
from cli.node.registration import verifier_steps
from cli.node.roles import NodeRole
from serving.readiness import FEE_MARGIN, OPERATOR_GAS, operator_required_wei, receipt_room
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil, running_anvil
from tests.fixtures.chain.devnet import MEASUREMENT, POOL, VERIFIERS, deployed, reader, signer, word
from tests.fixtures.cli.new_node import new_node
from tests.fixtures.court.session import QUOTE, TRUE, DisputeFixture
from tests.fixtures.snapshot_builders import BLOCK, OTHER, holdings, snapshot
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.verifier.node_file import node_file
from verifier.observation import JUDGE_GAS, WATCHTOWER_GAS
from verifier.settings import NodeSettings

STAKE = 32 * ETHER
FEE_WEI = 7
OF_THIS_MACHINE = {"old_state", "disk", "memory", "ports", "metrics"}
"""Checks that this machine decides: a chain from a saved state has no states before it, the disk may be full, memory broken, and
another program may have the port of metrics."""


class Node(NamedTuple):
    """A node's folder beside a network."""

    anvil: Anvil
    folder: Path
    config: Path

    @property
    def settings(self) -> NodeSettings:
        return load_settings(NodeSettings, self.config)

    @property
    def account(self) -> str:
        return open_signer(self.settings.signer, read_network(self.settings.network_file)).address

    def lease(self) -> NonceLease:
        engine = open_database(self.settings.db.location)
        return NonceLease(engine, SystemClock(), CHAIN_ID, Address(self.account))

    def fund(self, wei: int) -> None:
        self.anvil.rpc("anvil_setBalance", self.account, hex(wei))


def verb(capsys: pytest.CaptureFixture[str], *words: str, wanted: Exit) -> Any:
    """What a verb prints as JSON; its exit code must be the wanted one."""
    capsys.readouterr()
    assert main([*words, "--output", "json"]) == wanted, capsys.readouterr()
    return json.loads(capsys.readouterr().out)


def failing(document: Any) -> dict[str, Any]:
    return {each["name"]: each for each in document["checks"] if not each["ok"]}


@pytest.fixture(scope="module")
def chain() -> Iterator[Anvil]:
    with running_anvil() as anvil:
        anvil.automine(True)
        yield anvil


@pytest.fixture
def watchtower(chain: Anvil, tmp_path: Path) -> Node:
    """A new node of a network that has operators, verifiers and a key epoch."""
    config = new_node(tmp_path, NodeRole.WATCHTOWER)
    write_network(config.parent / "network.json", deployed(chain))
    chain.automine(True)
    text = config.read_text().replace('"http://127.0.0.1:1"', f'"{chain.url}"')
    config.write_text(text.replace("port = 9464", f"port = {free_ports(1)[0]}"))
    return Node(chain, tmp_path, config)


def member(chain: Anvil, folder: Path) -> Path:
    """Settings of a member whose enclave is described elsewhere."""
    network = deployed(chain)
    chain.automine(True)
    write_network(folder / "network.json", network)
    save_signer(folder / "account.key", LocalSigner(word("new member", folder)))
    (folder / "actor.db").write_bytes(empty_database())
    return node_file(folder, f"sqlite:///{folder / 'actor.db'}", chain.url)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith("node.db-")}


def test_doctor_names_all_that_an_observer_lacks_and_changes_nothing(
    watchtower: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    before, head = files(watchtower.config.parent), watchtower.anvil.client.head().number
    found = verb(capsys, "doctor", "--config", str(watchtower.config), wanted=Exit.NOT_READY)
    assert set(failing(found)) - OF_THIS_MACHINE == {"da"} and "127.0.0.1" in failing(found)["da"]["value"]
    assert all(each["advice"] and each["threshold"] and each["value"] for each in found["checks"])
    assert files(watchtower.config.parent) == before and watchtower.anvil.client.head().number == head


def test_watchtower_that_challenges_needs_money_for_its_bonds(watchtower: Node, capsys: pytest.CaptureFixture[str]) -> None:
    text = watchtower.config.read_text()
    watchtower.config.write_text(text.replace('# strategy = "observe"', 'strategy = "defend"'))
    words = ("doctor", "--config", str(watchtower.config))
    lacking = failing(verb(capsys, *words, wanted=Exit.NOT_READY))
    assert set(lacking) - OF_THIS_MACHINE == {"da", "balance"} and watchtower.account in lacking["balance"]["advice"]
    watchtower.fund(10 * ETHER)
    assert set(failing(verb(capsys, *words, wanted=Exit.NOT_READY))) - OF_THIS_MACHINE == {"da"}


def test_each_check_that_needs_the_chain_fails_without_it(watchtower: Node, capsys: pytest.CaptureFixture[str]) -> None:
    text, words = watchtower.config.read_text(), ("doctor", "--config", str(watchtower.config))
    watchtower.config.write_text(text.replace(watchtower.anvil.url, "http://127.0.0.1:1"))
    lacking = failing(verb(capsys, *words, wanted=Exit.NOT_READY))
    assert {"chain_id", "contract_code", "head_age", "da"} <= set(lacking)
    assert {each["value"] for each in lacking.values() if each["name"] not in ("da", "chain_id", "disk")} == {
        "not asked, because chain_id fails"
    }
    book = replace(read_network(watchtower.config.parent / "network.json"), chain_id=U256(31338))
    write_network(watchtower.config.parent / "network.json", book)
    watchtower.config.write_text(text)
    lacking = failing(verb(capsys, *words, wanted=Exit.NOT_READY))
    assert "31337" in lacking["chain_id"]["value"] and "contract_code" in lacking


def test_doctor_and_status_say_that_sending_is_stopped(watchtower: Node, capsys: pytest.CaptureFixture[str]) -> None:
    watchtower.lease().stop("nonce 7 was used by somebody else")
    for words in ("doctor", "status"):
        found = verb(capsys, words, "--config", str(watchtower.config), wanted=Exit.NOT_READY)
        told = {each["name"]: each["value"] for each in found.get("checks", found.get("problems"))}
        assert "somebody else" in told["sending"]


def test_doctor_misses_the_backup_that_the_settings_ask_for(watchtower: Node, capsys: pytest.CaptureFixture[str]) -> None:
    words, folder = ("doctor", "--config", str(watchtower.config)), watchtower.folder / "copies"
    folder.mkdir(mode=0o700)
    watchtower.config.write_text(f'{watchtower.config.read_text()}\n[backup]\nfolder = "{folder}"\n')
    assert failing(verb(capsys, *words, wanted=Exit.NOT_READY))["backup_age"]["value"] == "no backup in copies"
    assert main(["backup", "make", str(folder / "one.tar"), "--config", str(watchtower.config)]) == Exit.OK
    lacking = failing(verb(capsys, *words, "--webhook", "http://127.0.0.1:1/hook", wanted=Exit.NOT_READY))
    assert "backup_age" not in lacking and lacking["webhook"]["value"].startswith("127.0.0.1:1: ")


def test_settings_that_cannot_be_read_end_each_verb_with_every_problem(
    watchtower: Node, capfd: pytest.CaptureFixture[str]
) -> None:
    text = watchtower.config.read_text()
    watchtower.config.write_text(text.replace("[da]\n", "[da]\nkolour = 3\n").replace("urls = ", "# urls = "))
    for words in ("doctor", "status", "run"):
        assert main([words, "--config", str(watchtower.config)]) == Exit.USAGE
        said = " ".join(capfd.readouterr().err.split())
        assert "da.kolour: unknown setting" in said and "da.urls: missing" in said and "process.started" not in said


def test_status_says_who_runs_and_what_is_wrong(
    watchtower: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["verifier", "register", "--config", str(watchtower.config), "--stake", "1"]) == Exit.USAGE
    assert "watchtower" in capsys.readouterr().err, "a role without a registration"
    words = ("status", "--config", str(watchtower.config))
    found = verb(capsys, *words, wanted=Exit.NOT_READY)
    assert {each["name"] for each in found["problems"]} - OF_THIS_MACHINE == {"process", "da"} and found["net_wei"] == 0

    def scanned(*_: object) -> None:
        raise AssertionError("a range of events that grows with the network's age was read")

    with monkeypatch.context() as patch:
        patch.setattr(state, "earnings", scanned)
        patch.setattr(SnapshotReader, "opened", scanned)
        found = verb(capsys, *words, "--health", wanted=Exit.NOT_READY)
        assert {each["name"] for each in found["problems"]} - OF_THIS_MACHINE == {"process", "da"}
        assert (found["role"], found["account"], found["healthy"]) == ("watchtower", watchtower.account, False)
        assert main([*words, "--health"]) == Exit.NOT_READY and "NOT healthy" in capsys.readouterr().out
    lease = watchtower.lease()
    lease.ttl_s = 600
    lease.acquire()
    found = verb(capsys, *words, wanted=Exit.NOT_READY)
    assert {each["name"] for each in found["problems"]} - OF_THIS_MACHINE == {"da"} and found["process"] == "running"


def test_status_shows_no_amounts_of_a_chain_that_it_did_not_read(
    watchtower: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(*_: object) -> None:
        raise TryAgain("chain", "away")

    monkeypatch.setattr(SnapshotReader, "snapshot", unread)
    assert main(["status", "--config", str(watchtower.config)]) == Exit.NOT_READY
    said = capsys.readouterr().out
    assert "money     unknown: the chain was not read" in said and " 0 ETH" not in said.split("money")[1]


def test_verifier_is_registered_once_in_steps_that_were_shown_before(
    chain: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = member(chain, tmp_path)
    settings = load_settings(NodeSettings, config)
    account = open_signer(settings.signer, read_network(settings.network_file)).address
    machine, program = "0x" + word("new machine", tmp_path).hex(), "0x" + MEASUREMENT.hex()
    wrong = (["--pool", "0x" + "33" * 32], ["--platform-id", "0x22"], ["--measurement", "nothing"])
    for each in wrong:
        tried = ["--stake", "1", "--dry-run", "--platform-id", machine, "--measurement", program, *each]
        assert main(["verifier", "register", "--config", str(config), *tried]) == Exit.USAGE
        assert each[0] in capsys.readouterr().err
    words = ["verifier", "register", "--config", str(config), "--stake", str(STAKE), "--platform-id", machine]
    assert main([*words, "--dry-run"]) == Exit.USAGE and "--measurement" in capsys.readouterr().err
    words += ["--measurement", program]
    assert main([*words, "--yes"]) == Exit.USAGE and "balance" in capsys.readouterr().err
    chain.rpc("anvil_setBalance", account, hex(40 * ETHER))
    shown = verb(capsys, *words, "--dry-run", wanted=Exit.OK)
    assert [each["call"] for each in shown] == ["StakeVault.deposit", "Registry.announce", "Registry.join"]
    assert sum(each["value_wei"] for each in shown) == STAKE
    court = reader(chain, read_network(settings.network_file))
    assert court.holdings(account, court.head()).stake_wei == 0
    chain.rpc("evm_setIntervalMining", 1)
    assert main([*words, "--yes"]) == Exit.OK
    chain.rpc("evm_setIntervalMining", 0)
    mine = court.holdings(account, court.head())
    assert mine.stake_wei == STAKE and mine.pool == POOL
    assert verb(capsys, *words, "--yes", wanted=Exit.OK) == []


def test_verifier_of_a_withdrawn_measurement_registers_the_new_one(
    chain: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = member(chain, tmp_path)
    settings = load_settings(NodeSettings, config)
    network = read_network(settings.network_file)
    account, court = open_signer(settings.signer, network).address, reader(chain, network)
    chain.rpc("anvil_setBalance", account, hex(40 * ETHER))
    machine, new = word("upgraded machine", tmp_path), word("new measurement", tmp_path)
    words = ["verifier", "register", "--config", str(config), "--stake", str(STAKE), "--yes"]
    chain.rpc("evm_setIntervalMining", 1)
    assert main([*words, "--platform-id", "0x" + machine.hex(), "--measurement", "0x" + MEASUREMENT.hex()]) == Exit.OK
    chain.rpc("evm_setIntervalMining", 0)
    chain.automine(True)
    told = ("doctor", "--config", str(config))
    assert "registered_measurement" not in failing(verb(capsys, *told, wanted=Exit.NOT_READY))
    words += ["--measurement", "0x" + new.hex()]
    assert main(words) == Exit.USAGE and "not allowed yet" in " ".join(capsys.readouterr().err.split())
    for measurement, is_allowed in ((new, True), (MEASUREMENT, False)):
        call = set_measurement(measurement, is_allowed)
        send_all(chain.client, [estimated_call(chain.client, network, signer(0), call)], 10)
    found = failing(verb(capsys, *told, wanted=Exit.NOT_READY))["registered_measurement"]
    assert MEASUREMENT.hex()[:16] in found["value"] and "not allowed" in found["value"] and "register" in found["advice"]
    status = verb(capsys, "status", "--config", str(config), wanted=Exit.NOT_READY)
    assert "registered_measurement" in {each["name"] for each in status["problems"]}
    assert [each["call"] for each in verb(capsys, *words, "--dry-run", wanted=Exit.OK)] == ["Registry.quit", "Registry.join"]
    assert main(words) == Exit.OK
    joined = court.membership(account, court.head())
    assert (joined.pool, joined.platform_id, joined.measurement) == (POOL, machine, new)
    assert "registered_measurement" not in failing(verb(capsys, *told, wanted=Exit.NOT_READY))
    assert verb(capsys, *words, wanted=Exit.OK) == []


def test_registration_beside_a_running_node_is_refused(chain: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = member(chain, tmp_path)
    settings = load_settings(NodeSettings, config)
    account = open_signer(settings.signer, read_network(settings.network_file)).address
    chain.rpc("anvil_setBalance", account, hex(40 * ETHER))
    lease = NonceLease(open_database(settings.db.location), SystemClock(), CHAIN_ID, account)
    lease.acquire()
    words = ["verifier", "register", "--config", str(config), "--stake", str(STAKE), "--yes"]
    machine = ["--platform-id", "0x" + "22" * 32, "--measurement", "0x" + MEASUREMENT.hex()]
    assert main([*words, *machine]) == Exit.REFUSED
    with write_transaction(lease.engine) as connection:
        lease.take_nonce_in(connection, chain.client.nonce(account))
    lease.release()
    assert main([*words, *machine]) == Exit.USAGE
    assert "1 signed by the node are in no block" in " ".join(capsys.readouterr().err.split())
    assert reader(chain, read_network(settings.network_file)).holdings(account, chain.client.head().number).stake_wei == 0


def test_member_whose_table_lacks_a_vote_of_the_chain_must_not_vote(
    chain: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chain.automine(False)
    court = DisputeFixture(chain, tmp_path)
    court.open(0, word("guess"))
    case = court.until(Phase.COMMIT)
    votes = [court.vote(case, each.voter, TRUE) for each in case.members]
    court.commit(votes)
    chain.automine(True)
    mine = next(each for each in votes if each.voter == VERIFIERS[0].address or each is votes[-1])
    write_network(tmp_path / "network.json", court.network)
    save_signer(tmp_path / "account.key", next(each for each in VERIFIERS if each.address == mine.voter))
    url = f"sqlite:///{tmp_path / 'actor.db'}"
    (tmp_path / "actor.db").write_bytes(empty_database())
    config = str(node_file(tmp_path, url, chain.url))
    lacking = failing(verb(capsys, "doctor", "--config", config, wanted=Exit.NOT_READY))
    assert "round 1 is missing" in lacking["protection"]["value"]
    Protection(open_database(url), SystemClock()).sign_once(mine, QUOTE)
    assert "protection" not in failing(verb(capsys, "doctor", "--config", config, wanted=Exit.NOT_READY))


@pytest.mark.parametrize(
    ("clock", "is_test", "is_met", "value"),
    [
        (KernelClock(True, 0.004), False, True, "synchronised, to 4 ms"),
        (KernelClock(True, 30.0), False, False, "synchronised, to 30000 ms"),
        (KernelClock(False, 16.0), False, False, "not synchronised"),
        (KernelClock(False, 16.0), True, True, "not synchronised (a test chain)"),
        (None, False, True, "this system does not tell"),
    ],
)
def test_clock_that_no_service_keeps_fails_on_a_real_chain(
    clock: KernelClock | None, is_test: bool, is_met: bool, value: str
) -> None:
    found = time_service_check(clock, is_test)
    assert (found.ok, found.value) == (is_met, value) and "chrony" in found.advice


def test_kernel_says_whether_its_clock_is_kept() -> None:
    found = kernel_clock()
    assert found is None or 0 <= found.error_s < 2**31


def test_lost_bits_of_memory_fail_their_check(tmp_path: Path) -> None:
    assert memory_check(tmp_path).value == "no ECC that the kernel reports" and memory_check(tmp_path).ok
    for number, count in enumerate(("0\n", "3\n", "", "none")):
        (tmp_path / f"mc{number}").mkdir()
        (tmp_path / f"mc{number}" / "ue_count").write_text(count)
    found = memory_check(tmp_path)
    assert not found.ok and found.value == "3 uncorrected errors in 2 controllers"


def seen(role: NodeRole, **changes: Any) -> Any:
    """A node before a chain that has only this account, with these changes, and the parameters of a test network."""
    facts = SimpleNamespace(
        holdings=lambda account, block: holdings(**changes), snapshot=lambda account, block: snapshot(me=holdings(**changes)),
        params_version=lambda block: 1, params=lambda version, block: DEVNET,
    )  # fmt: skip
    signer = SignerSettings(key_file=Path("account.key"), max_fee_wei=FEE_WEI)
    return SimpleNamespace(
        role=role, account=OTHER, head=BLOCK, reader=facts, signer_settings=signer, settings=SimpleNamespace(signer=signer)
    )


@pytest.mark.parametrize("receipts", [0, 1, 500])
@pytest.mark.parametrize("short_wei", [0, 1])
def test_operator_stake_is_enough_when_its_serving_has_room(receipts: int, short_wei: int) -> None:
    money = DEVNET.money
    bound = receipts * money.receipt_collateral
    stake = money.min_operator_stake + money.slash_amount + bound + money.receipt_collateral - short_wei
    account = {"stake_wei": stake, "collateral_wei": bound}
    found = chain_checks.stake(seen(NodeRole.OPERATOR, **account))
    assert found.ok == (receipt_room(holdings(**account), money) > 0) == (short_wei == 0)
    assert f"`bytewise operator register --endpoint URL --stake {stake + short_wei}`" in found.advice, "it takes the nonce lease"


def test_operator_needs_gas_a_full_batch_and_the_dearest_appeal() -> None:
    dearest = max(DEVNET.appeal_bond(level) for level in range(2, DEVNET.committee.rounds + 1))
    view = seen(NodeRole.OPERATOR)
    price_wei = view.reader.snapshot(OTHER, BLOCK).price_wei
    anchoring_wei = FEE_MARGIN * DEVNET.shares.max_batch * price_wei
    required = operator_required_wei(DEVNET, price_wei, FEE_WEI)
    assert chain_checks.worst_case_wei(view) == required == OPERATOR_GAS * FEE_WEI + anchoring_wei + dearest
    assert price_wei > 0 and chain_checks.balance(seen(NodeRole.OPERATOR, balance_wei=required)).ok
    assert not chain_checks.balance(seen(NodeRole.OPERATOR, balance_wei=required - 1)).ok
    # The figure of docs/guide/run-an-operator.md.
    default_wei = SignerSettings(key_file=Path("account.key")).max_fee_wei
    assert round(operator_required_wei(DEVNET, DEVNET_SHAPE.least_price_wei, default_wei) / ETHER, 4) == 1.0621


@pytest.mark.parametrize(
    ("policy", "budget_wei", "demand_wei"),
    [
        ({}, ETHER // 10, DEVNET.money.demand_bond * DEVNET.shares.max_batch),
        ({}, DEVNET.money.demand_bond, DEVNET.money.demand_bond),
        ({"demands": False}, ETHER // 10, 0),
    ],
)
def test_watchtower_needs_the_bond_of_the_longest_list_in_its_budget(
    policy: dict[str, object], budget_wei: int, demand_wei: int, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {"role": "watchtower", "executor": None, "policy": {"strategy": "defend", **policy}}
    view = seen(NodeRole.WATCHTOWER)
    settings = load_settings(NodeSettings, node_file(tmp_path, "sqlite://", **changes))
    view.settings = replace(settings, demand=DemandPolicy(budget_wei=budget_wei))
    bond = view.reader.snapshot(OTHER, BLOCK).required_bond_wei
    assert chain_checks.worst_case_wei(view) == WATCHTOWER_GAS * FEE_WEI + bond + demand_wei


def test_member_needs_gas_at_the_fee_of_its_settings(tmp_path: Path) -> None:
    view = seen(NodeRole.MEMBER)
    view.settings = load_settings(NodeSettings, node_file(tmp_path, "sqlite://"))
    assert chain_checks.worst_case_wei(view) == JUDGE_GAS * FEE_WEI


@pytest.mark.parametrize(("ahead_s", "chain_id", "is_right"), [(-1, 1, True), (3, 1, False), (3, CHAIN_ID, True)])
def test_doctor_allows_the_clock_offset_of_readyz(ahead_s: int, chain_id: int, is_right: bool) -> None:
    head = SimpleNamespace(timestamp=SystemClock().now() + MAX_AHEAD_S + ahead_s)
    view: Any = SimpleNamespace(chain=SimpleNamespace(head=lambda: head), network=SimpleNamespace(chain_id=chain_id))
    assert chain_checks.clock(view).ok == is_right


@pytest.mark.parametrize(
    ("chain_id", "commit_s", "is_enough"), [(1, 2_343, False), (1, 2_344, True), (CHAIN_ID, 39, False), (CHAIN_ID, 40, True)]
)
def test_doctor_asks_for_a_vote_after_finality_of_the_draw(chain_id: int, commit_s: int, is_enough: bool) -> None:
    """96 blocks of 12 s and an execution of 20 s must pass before seats without a key vote NO_KEY."""
    view = seen(NodeRole.MEMBER)
    view.network, params = SimpleNamespace(chain_id=chain_id), replace(DEVNET, times=replace(DEVNET.times, commit_time=commit_s))
    view.reader.params = lambda version, block: params
    view.chain = SimpleNamespace(
        head=lambda: SimpleNamespace(number=1_000, timestamp=12_000), block=lambda number: SimpleNamespace(timestamp=12 * number)
    )
    assert chain_checks.vote_time(view).ok == is_enough


def verifier(stake_wei: int, is_allowed: bool, units: int) -> Any:
    """A member of a pool before a chain that allows its registered measurement and every other one, or none."""
    view = seen(NodeRole.MEMBER, stake_wei=stake_wei)
    view.reader.membership = lambda who, block: Membership(POOL, word("machine"), MEASUREMENT, BLOCK)
    view.reader.registered_measurement = lambda who, block: RegisteredMeasurement(MEASUREMENT, is_allowed, units)
    view.reader.is_allowed = lambda measurement, block: is_allowed
    return view


LEAST_WEI = DEVNET.money.min_verifier_stake


@pytest.mark.parametrize(
    ("stake_wei", "is_allowed", "units", "advice"),
    [
        (LEAST_WEI, True, 1, None), (LEAST_WEI - 1, True, 0, None), (LEAST_WEI, False, 1, "register --stake WEI --measurement"),
        (LEAST_WEI, True, 0, f"Registry refresh {OTHER}"),
    ],
)  # fmt: skip
def test_stake_that_suffices_must_have_weight(stake_wei: int, is_allowed: bool, units: int, advice: str | None) -> None:
    found = chain_checks.registered_measurement(verifier(stake_wei, is_allowed, units))
    assert found.ok == (advice is None) and (advice or "") in found.advice


def test_verifier_that_could_not_join_again_does_not_quit() -> None:
    new = "0x" + "44" * 32
    steps = verifier_steps(verifier(LEAST_WEI - 1, True, 1), LEAST_WEI, None, None, new)
    assert [each.call.function for each in steps] == ["deposit", "quit", "join"]
    for view, named in ((verifier(LEAST_WEI - 1, True, 1), "--stake"), (verifier(LEAST_WEI, False, 1), "--measurement")):
        with pytest.raises(ConfigurationError, match=named):
            verifier_steps(view, 0, None, None, new)
