"""A new court beside the old one, put in force by charter and timelocks as they are: who may do what there afterwards."""

import dataclasses
from pathlib import Path

import pytest

from bytewise.protocol.address_book import Network
from bytewise.protocol.units import Address
from bytewise.service.exit_codes import Exit
from chain.acts.proposals import COURT, ROLES
from chain.client.address_book import address_of, code_hashes, contracts, field_of, write_network
from chain.deployment.deploy import created_address, gas_limit, survey
from chain.deployment.params import DEVNET
from chain.deployment.plan import DEVNET_SHAPE, DeploymentPlan, code, names, steps
from chain.sending.transactions import TransactionCall, send_all
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import signer, word
from tests.fixtures.chain.governance_cli import CURATOR, DELAYS, VOTER, GovernanceCli, founded_by_vote, passed


@pytest.fixture
def governance(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> GovernanceCli:
    """A network of its own: its first court is replaced."""
    founded_by_vote(anvil, tmp_path)
    return GovernanceCli(anvil, tmp_path, capsys)


def court_beside(governance: GovernanceCli) -> Network:
    """Deploys and wires a new court; the book that has it in the old one's place."""
    client, old = governance.anvil.client, governance.network
    first = client.nonce(VOTER.address)
    new = {name: created_address(VOTER.address, first + place) for place, name in enumerate(COURT)}
    at: dict[str, Address] = {name: address_of(old, name) for name in names(())} | new
    planned = survey(client, VOTER.address, DEVNET, DEVNET_SHAPE, [], DELAYS)
    site = DeploymentPlan(VOTER.address, at, DEVNET, DEVNET_SHAPE, planned.headers, (), DELAYS)
    taken = [each for each in steps(site) if each.contract in COURT]
    assert [each.contract for each in taken[: len(COURT)]] == list(COURT)
    for each in taken:
        send_all(client, [TransactionCall(VOTER, each.to, each.data, 0, gas_limit(each))], 60)
    book = dataclasses.replace(old, addresses=dataclasses.replace(old.addresses, **{field_of(n): at[n] for n in COURT}))
    return dataclasses.replace(book, code=code_hashes(client, list(contracts(book).values())))


def may(governance: GovernanceCli, who: Address, network: Network, contract: str, function: str) -> bool:
    """Whether the manager lets an account call a function of a contract at once."""
    target, selector = address_of(network, contract), code(contract).selector(function)
    return bool(governance.read("AccessManager", "canCall", who, target, selector)["immediate"])


def test_the_roles_of_a_new_court_are_those_of_the_first(governance: GovernanceCli) -> None:
    listed = {(name, function): role for name, functions, role in ROLES for function in functions}
    for name in COURT:
        for function in code(name).writing():
            target, selector = address_of(governance.network, name), code(name).selector(function)
            role = governance.read("AccessManager", "getTargetFunctionRole", target, selector)
            assert role == listed.get((name, function), 0), f"{name}.{function}"


def test_a_new_court_has_its_curator_and_the_old_guardian_by_one_vote(governance: GovernanceCli) -> None:
    new = court_beside(governance)
    file = governance.folder / "court.json"
    write_network(file, new)
    roles = [(name, f, CURATOR) for name, functions, role in ROLES for f in functions if role > 3]
    assert not any(may(governance, who.address, new, name, function) for name, function, who in roles)
    governance.run("call", "GovernanceToken", "delegate", VOTER.address, "--devnet-account", "0", "--send")
    governance.blocks(1)
    number, listed = passed(governance, ["--court", str(file), "--description", "a new court"])
    assert len(listed["does"]) == 10 and f"Registry.setCourt(court_={new.addresses.breaker})" in listed["does"][-1]
    governance.run("proposal", "execute", number, "--devnet-account", "0", "--send")
    assert not may(governance, CURATOR.address, new, "Breaker", "resetBreaker"), "who wants to leave has not had the time"
    governance.anvil.pass_time(DELAYS.long_delay_s)
    governance.run("proposal", "execute", number, "--devnet-account", "0", "--send")
    assert all(may(governance, who.address, new, name, function) for name, function, who in roles)
    assert not may(governance, signer(5).address, new, "Guardian", "pause")
    first, old = governance.network, governance.folder / "network.json"
    old.rename(governance.folder / "old.json")
    file.rename(old)
    governance.run("call", "Guardian", "pause", "60", "--devnet-account", "1", "--send")
    governance.run("call", "Guardian", "unpause", "--devnet-account", "1", "--send")
    nothing = f"0x{word('nothing').hex()}"
    # The court that is named answers, the new one and the old: there is no such dispute.
    for court in (new, first):
        assert "is in NONE" in governance.run("call", "Guardian", "refund", court.addresses.disputes, nothing, wanted=Exit.USAGE)
    governance.run("call", "Breaker", "resetBreaker", nothing, "--devnet-account", "2", "--send")
    short = governance.network.addresses.short_timelock
    assert may(governance, short, new, "FeeMarket", "setLimits")
    assert governance.read("Ledger", "isSource", new.addresses.disputes)
    money, stake = ("settlement", "demands", "audits"), ("settlement", "receipt_anchor", "demands")
    assert all(governance.read("Ledger", "isMover", getattr(new.addresses, name)) for name in money)
    assert all(governance.read("StakeVault", "isMover", getattr(new.addresses, name)) for name in stake)
    assert not governance.read("Ledger", "isMover", new.addresses.receipt_anchor)
    assert (
        "Registry.setCourt" not in governance.run("call", "Guardian")
        and governance.read("Registry", "court") == new.addresses.breaker
    )


def test_foreign_court_is_not_proposed(governance: GovernanceCli) -> None:
    file = governance.folder / "court.json"
    asked = ["proposal", "create", "--court", str(file), "--description", "why", "--from", VOTER.address]
    write_network(file, governance.network)
    assert "has the old fee_market" in governance.run(*asked, wanted=Exit.USAGE)
    new = court_beside(governance)
    half = dataclasses.replace(new.addresses, breaker=governance.network.addresses.breaker)
    write_network(file, dataclasses.replace(new, addresses=half, code=(*new.code, *governance.network.code)))
    assert "lens works with" in governance.run(*asked, wanted=Exit.USAGE)
