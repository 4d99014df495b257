"""`bytewise chain deploy --stake eigenlayer` over EigenLayer's own contracts, where a checkout is named: from the printed
address of the stake source to a slash in that network; and what is refused."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bytewise.protocol.address_book import StakeSource
from bytewise.protocol.units import Address
from bytewise.service.exit_codes import Exit
from chain.client.address_book import read_network, verify_code
from chain.deployment.draft import path_of
from chain.deployment.params import DEVNET
from cli.__main__ import main
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil, running_anvil
from tests.fixtures.chain.devnet import CHALLENGER, GUARDIAN, POOL, Restaking, furnished, populated, signer
from tests.fixtures.chain.eigenlayer_build import VARIABLE
from tests.fixtures.chain.fake_eigenlayer import MAX_AGE
from tests.fixtures.chain.real_eigenlayer import AVS, DELAY_BLOCKS, FIRST_BLOCK, SET_ID, RealEigenLayer
from tests.fixtures.chain.restaked_place import PENALTY, ROUNDING, RestakedOperator

pytestmark = pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no checkout of EigenLayer's contracts")

NOBODY = signer(12).address


class Command:
    """The command on a chain that has EigenLayer."""

    def __init__(self, anvil: Anvil, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.anvil, self.folder, self.capsys = anvil, folder, capsys
        self.eigen, self.book = RealEigenLayer(anvil, Path(os.environ[VARIABLE])), folder / "network.json"
        self.eigen.register_service()
        self.options = {
            "--stake": "eigenlayer", "--allocation-manager": self.eigen.at["AllocationManager"],
            "--strategy": self.eigen.at["StrategyBase"], "--operator-set": f"{AVS.address}:{SET_ID}",
            "--max-age": str(MAX_AGE), "--guardian": GUARDIAN.address,
        }  # fmt: skip

    def run(self, *more: str, wanted: Exit = Exit.OK, **changes: str) -> str:
        """What it says."""
        options = self.options | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
        where = ["--rpc", self.anvil.url, "--chain-id", str(CHAIN_ID), "--devnet-account", "0", "--pool", f"0x{POOL.hex()}"]
        listed = [part for pair in options.items() for part in pair]
        return self.printed(["chain", "deploy", *where, "--out", str(self.book), *listed, *more], wanted)

    def printed(self, arguments: list[str], wanted: Exit) -> str:
        self.capsys.readouterr()
        code = main(arguments)
        captured = self.capsys.readouterr()
        said = " ".join((captured.out + captured.err).split())
        assert code == wanted, said
        return said

    def planned(self) -> Address:
        """The address of the stake source, as the plan prints it."""
        found = re.search(r"stake source: (0x[0-9a-f]{40}),", self.run("--plan", wanted=Exit.USAGE))
        assert found is not None
        return Address(found[1])

    def refused(self, words: str, **changes: str) -> None:
        """With exit code 64 and nothing sent."""
        said = self.run(wanted=Exit.USAGE, **changes)
        assert words in said, said
        assert self.anvil.client.nonce(signer(0).address) == 0 and not path_of(self.book).exists()


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    with running_anvil("--number", str(FIRST_BLOCK)) as anvil:
        yield Command(anvil, tmp_path, capsys)


def test_network_of_the_command_slashes_restaked_ether(command: Command) -> None:
    source = command.planned()
    command.eigen.create_set(SET_ID, source, source)
    assert "35 transactions" in command.run("--plan")
    command.run()
    anvil, eigen, network = command.anvil, command.eigen, read_network(command.book)
    assert (network.stake, network.addresses.stake_vault) == (StakeSource.EIGENLAYER, source)
    assert verify_code(anvil.client, network) == network
    look = ["chain", "show", "--rpc", anvil.url, "--network", str(command.book), "--output", "json"]
    stake = json.loads(command.printed(look, Exit.OK))["stake"]
    assert (stake["source"], stake["slasher"], stake["recipient"]) == ("eigenlayer", source, source)
    assert stake["horizon"] == MAX_AGE + DEVNET.longest_dispute <= DELAY_BLOCKS
    joined = populated(anvil, furnished(anvil, network), Restaking(eigen.settle, eigen.stake))
    place = RestakedOperator(anvil, command.folder, eigen, joined)
    before = place.standing()
    place.overturned()
    lost = {name: before[name] - now for name, now in place.standing().items()}
    wanted = [PENALTY, PENALTY, PENALTY // 2, PENALTY // 2, PENALTY, 0]
    assert list(lost.values()) == pytest.approx(wanted, abs=ROUNDING)
    (slash,) = place.of_source("Slashed")
    assert place.case().paid
    assert place.credit(CHALLENGER) == DEVNET.required_bond + slash["taken"] * DEVNET.shares.alpha_bps // 10_000
    place.everything_is_accounted_for()


def test_wrong_addresses_are_refused_before_anything_is_sent(command: Command) -> None:
    at = command.eigen.at
    source = command.planned()
    command.eigen.create_set(SET_ID, source, source)
    command.refused(f"--allocation-manager: there is no contract at {NOBODY}", allocation_manager=NOBODY)
    command.refused(f"--strategy: there is no contract at {NOBODY}", strategy=NOBODY)
    manager = at["DelegationManager"]
    command.refused(f"--allocation-manager: {manager} does not answer delegation", allocation_manager=manager)
    command.refused(f"--strategy: {at['WrappedEther']} does not answer underlyingToken", strategy=at["WrappedEther"])
    alike = command.eigen.second_strategy(at["WrappedEther"])
    command.refused(f"--strategy: {alike} is none of set {AVS.address}:{SET_ID}", strategy=alike)
    command.eigen.add_strategy(SET_ID, alike)
    command.run("--plan", strategy=alike)
    token = command.eigen.other_token()
    other = command.eigen.second_strategy(token)
    command.refused(f"the token of {other}, {token}, is no wrapped ether", strategy=other)


def test_delays_that_do_not_cover_a_dispute_are_refused(command: Command) -> None:
    source = command.planned()
    command.eigen.create_set(SET_ID, source, source)
    most = DELAY_BLOCKS - DEVNET.longest_dispute
    words = f"need {DELAY_BLOCKS + 1} blocks, and the deallocation delay of EigenLayer at"
    command.refused(words, max_age=str(most + 1))
    command.refused(f"give --max-age {most} or less", max_age=str(most + 1))
    command.run("--plan", max_age=str(most))
    (command.folder / "long.toml").write_text("[times]\nmax_pause = 172800\n")
    command.refused("give --params with a shorter longest dispute", params=str(command.folder / "long.toml"))


def test_sets_that_do_not_name_the_stake_source_are_refused(command: Command) -> None:
    eigen, source = command.eigen, command.planned()
    command.refused(f"--operator-set: EigenLayer has no set {AVS.address}:{SET_ID}")
    for number, (slasher, recipient) in enumerate([(NOBODY, source), (source, NOBODY)], 1):
        eigen.create_set(number, slasher, recipient)
    named = f"{AVS.address}:1"
    command.refused(f"the slasher of {named} is {NOBODY}, not the planned stake source {source}", operator_set=named)
    command.refused(f"goes to {NOBODY}, not to the planned stake source {source}", operator_set=f"{AVS.address}:2")
    eigen.create_set(3, source, source)
    eigen.name_slasher(3, NOBODY)
    command.refused(f"the slasher of {AVS.address}:3 will be {NOBODY} from block", operator_set=f"{AVS.address}:3")
    eigen.name_slasher(1, source)
    command.refused("try again when EigenLayer's delay is over", operator_set=named)
