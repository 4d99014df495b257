"""`bytewise chain deploy --stake eigenlayer` over the fake of EigenLayer: what is refused, and what the book and status say."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.address_book import StakeSource
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import Address
from bytewise.service.exit_codes import Exit
from chain.client.address_book import read_network, verify_code, write_network
from chain.deployment.deploy import created_address
from chain.deployment.draft import path_of
from chain.deployment.params import DEVNET
from chain.deployment.plan import (
    CREATED_BEFORE_TREES,
    DEVNET_SHAPE,
    MAIN_NET,
    SLOT_S,
    EigenLayerSettings,
    Shape,
    default_max_age,
    longest_for,
)
from chain.sending.transactions import TransactionCall
from cli.__main__ import main
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil
from tests.fixtures.chain.devnet import POOL, signer
from tests.fixtures.chain.fake_eigenlayer import EigenLayer, compiled
from tests.fixtures.cli.killed_deploy import Killed, stop_after

MAKER, NOBODY = signer(19), signer(12).address
DISPUTE_BLOCKS = DEVNET.longest_dispute
"""Of a chain whose blocks take a second."""
GAS = 5_000_000
CREATED = CREATED_BEFORE_TREES.index("StakeVault") + 1
"""Transactions after which the stake source is there."""


class Place:
    """The command on a chain with EigenLayer's fake, whose delays are as long as a dispute and the default age of a record."""

    def __init__(self, anvil: Anvil, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        anvil.mine(2)
        self.anvil, self.book, self.capsys = anvil, folder / "network.json", capsys
        self.token = created_address(MAKER.address, anvil.client.nonce(MAKER.address))
        delay = DISPUTE_BLOCKS + default_max_age(DEVNET_SHAPE)
        self.eigen = EigenLayer(anvil, created_address(MAKER.address, anvil.client.nonce(MAKER.address) + 1))
        self.eigen.send(TransactionCall(MAKER, None, compiled("WrappedEther").creation(), 0, GAS))
        self.make(delay, delay)
        place = CREATED_BEFORE_TREES.index("StakeVault")
        self.source = created_address(signer(0).address, anvil.client.nonce(signer(0).address) + place)
        self.options = self.at(self.eigen.at)

    @staticmethod
    def at(where: Address) -> dict[str, str]:
        """Options that name an EigenLayer."""
        manager = {"--allocation-manager": where, "--strategy": where, "--operator-set": f"{where}:7"}
        return {"--stake": "eigenlayer"} | manager

    def make(self, deallocation: int, withdrawal: int) -> Address:
        """Another EigenLayer with these delays."""
        at = created_address(MAKER.address, self.anvil.client.nonce(MAKER.address))
        self.eigen.send(
            TransactionCall(MAKER, None, compiled("FakeEigenLayer").creation(self.token, deallocation, withdrawal), 0, GAS)
        )
        return at

    def run(self, *more: str, wanted: Exit = Exit.OK, **changes: str | None) -> str:
        """What the command says; an option of None is left out."""
        options = self.options | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
        listed = [part for name, value in options.items() if value is not None for part in (name, value)]
        where = ["--rpc", self.anvil.url, "--chain-id", str(CHAIN_ID), "--devnet-account", "0", "--pool", f"0x{POOL.hex()}"]
        return self.printed(["chain", "deploy", *where, "--out", str(self.book), *listed, *more], wanted)

    def printed(self, arguments: list[str], wanted: Exit) -> str:
        self.capsys.readouterr()
        code = main(arguments)
        captured = self.capsys.readouterr()
        said = " ".join((captured.out + captured.err).split())
        assert code == wanted, said
        return said

    def refused(self, words: str, **changes: str | None) -> None:
        """By the plan and the run alike, with nothing sent."""
        for plan in ([], ["--plan"]):
            said = self.run(*plan, wanted=Exit.USAGE, **changes)
            assert words in said, said
        assert self.anvil.client.nonce(signer(0).address) == 0 and not self.book.exists() and not path_of(self.book).exists()


@pytest.fixture
def place(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(anvil, tmp_path, capsys)


def test_a_plan_names_the_stake_source_that_the_set_must_name(place: Place) -> None:
    said = place.run("--plan", wanted=Exit.USAGE)
    assert f"stake source: {place.source}, as long as {signer(0).address} sends nothing else first" in said
    assert f"--operator-set: EigenLayer has no set {place.eigen.at}:7" in said and f"with {place.source} as slasher" in said
    place.eigen.do("create", place.source, place.source)
    said = place.run("--plan")
    assert "35 transactions" in said and "enough" in said and not place.book.exists()
    age = default_max_age(DEVNET_SHAPE)
    assert f"a record of stake counts for {age} blocks, and can be slashed for {DISPUTE_BLOCKS + age}" in said


def test_address_book_and_status_name_the_stake_source(place: Place) -> None:
    place.eigen.do("create", place.source, place.source)
    place.run()
    network = read_network(place.book)
    assert (network.stake, network.addresses.stake_vault) == (StakeSource.EIGENLAYER, place.source)
    look = ["chain", "show", "--rpc", place.anvil.url, "--network", str(place.book)]
    state = json.loads(place.printed([*look, "--output", "json"], Exit.OK))
    assert state["stake"] == {
        "source": "eigenlayer", "allocation_manager": place.eigen.at, "strategy": place.eigen.at,
        "operator_set": f"{place.eigen.at}:7", "max_age": 120, "horizon": 120 + DISPUTE_BLOCKS,
        "longest_s": DISPUTE_BLOCKS * SLOT_S, "slasher": place.source, "recipient": place.source,
    }  # fmt: skip
    assert f"stake is at EigenLayer: set {place.eigen.at}:7" in place.printed(look, Exit.OK)
    place.eigen.do("name", NOBODY)
    said = place.printed(look, Exit.MISMATCH)
    assert f"the slasher of operator set {place.eigen.at}:7 is {NOBODY} from block" in said
    place.eigen.do("create", NOBODY, place.source)
    said = place.printed(look, Exit.MISMATCH)
    assert f"the slasher of operator set {place.eigen.at}:7 is {NOBODY}, should be {place.source}" in said
    with pytest.raises(ConfigurationError, match=r"stake is native, and stake_vault is no StakeVault"):
        verify_code(place.anvil.client, replace(network, stake=StakeSource.NATIVE))


def test_native_address_book_that_names_eigenlayer_is_refused(place: Place) -> None:
    place.options = {}
    place.run()
    network = read_network(place.book)
    assert network.stake is StakeSource.NATIVE
    look = ["chain", "show", "--rpc", place.anvil.url, "--network", str(place.book)]
    assert "stake is in a vault of the network's own" in place.printed(look, Exit.OK)
    write_network(place.book, replace(network, stake=None))
    assert json.loads(place.printed([*look, "--output", "json"], Exit.OK))["stake"] == {"source": "native"}
    write_network(place.book, replace(network, stake=StakeSource.EIGENLAYER))
    assert "stake is eigenlayer, and stake_vault is no EigenLayerStake" in place.printed(look, Exit.USAGE)


def test_options_too_many_or_too_few_are_named(place: Place) -> None:
    place.refused("--stake: is eigenlayer, which needs --strategy, --operator-set too", strategy=None, operator_set=None)
    place.refused("--stake: is native, which has no --allocation-manager, --strategy, --operator-set", stake="native")
    place.refused("--allocation-manager: 0x12 is none", allocation_manager="0x12")
    for wrong in (NOBODY, f"{NOBODY}:", f"{NOBODY}:x", f"{NOBODY}:-1", f"{NOBODY}:{2**32}"):
        place.refused(f"--operator-set: {wrong} is none: the service's account, a colon", operator_set=wrong)
    place.refused("--operator-set: 0x12 is none", operator_set="0x12:7")
    place.run("--plan", wanted=Exit.USAGE, max_age="0")


def test_contracts_that_are_not_eigenlayer_are_refused(place: Place) -> None:
    place.eigen.do("create", place.source, place.source)
    place.refused(f"--allocation-manager: there is no contract at {NOBODY}", allocation_manager=NOBODY)
    place.refused(f"--strategy: there is no contract at {NOBODY}", strategy=NOBODY)
    place.refused(
        f"--allocation-manager: {place.token} does not answer delegation, so it is no AllocationManager",
        allocation_manager=place.token,
    )
    place.refused(f"--strategy: {place.token} does not answer underlyingToken, so it is no Strategy", strategy=place.token)


def test_a_delay_shorter_than_record_and_dispute_is_refused(place: Place) -> None:
    age = default_max_age(DEVNET_SHAPE)
    need = DISPUTE_BLOCKS + age
    for name, delays in (("deallocation", (need - 1, need)), ("withdrawal", (need, need - 1))):
        other = place.make(*delays)
        words = f"need {need} blocks, and the {name} delay of EigenLayer at {other} is {need - 1}"
        place.refused(words, allocation_manager=other)
        place.refused(f"give --max-age {age - 1} or less", allocation_manager=other)
    place.refused(f"give --max-age {age} or less", max_age=str(age + 1))
    short = place.make(DISPUTE_BLOCKS, need)
    place.refused("give --params with a shorter longest dispute", allocation_manager=short)


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.sampled_from([MAIN_NET, DEVNET_SHAPE]))
def test_stake_record_can_be_slashed_for_its_age_plus_a_dispute(pause: int, age: int, shape: Shape) -> None:
    params = replace(DEVNET, times=replace(DEVNET.times, max_pause=pause))
    stake = EigenLayerSettings(NOBODY, NOBODY, NOBODY, 0, age, longest_for(params, shape))
    dispute_s = (stake.horizon - age) * shape.block_s
    assert params.longest_dispute <= dispute_s < params.longest_dispute + shape.block_s
    assert stake.longest_s >= params.longest_dispute, "the contract asks for as much"


def test_operator_set_that_names_another_source_is_refused(place: Place) -> None:
    other = f"{NOBODY}:7"
    place.eigen.do("create", place.source, place.source)
    place.refused(f"--operator-set: EigenLayer has no set {other}", operator_set=other)
    second = place.make(10**6, 10**6)
    place.refused(f"--strategy: {second} is none of set {place.eigen.at}:7", strategy=second)
    place.eigen.do("name", NOBODY)
    place.refused(f"the slasher of {place.eigen.at}:7 will be {NOBODY} from block")
    place.eigen.do("name", place.source)
    place.run("--plan")
    place.eigen.do("create", NOBODY, place.source)
    place.refused(f"the slasher of {place.eigen.at}:7 is {NOBODY}, not the planned stake source {place.source}")
    place.eigen.do("create", place.source, NOBODY)
    place.refused(f"goes to {NOBODY}, not to the planned stake source {place.source}")


@pytest.mark.parametrize(
    ("first", "then", "words"),
    [
        ({"stake": "native"}, {}, "is no StakeVault"),
        ({}, {"stake": "native"}, "is no EigenLayerStake"),
        ({}, {"max_age": "100"}, "the age of records of StakeVault"),
        ({}, {"stake": "other"}, "the AllocationManager of StakeVault"),
    ],
)
def test_deployment_with_another_stake_source_is_not_resumed(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: dict[str, str], then: dict[str, str], words: str
) -> None:
    place.eigen.do("create", place.source, place.source)
    other = place.make(10**6, 10**6)
    EigenLayer(place.anvil, other).do("create", place.source, place.source)
    stakes = {"native": {"--stake": "native"}, "eigenlayer": place.options, "other": place.at(other)}

    def begins(name: str, steps: int, stake: str = "eigenlayer", max_age: str | None = None) -> None:
        place.book, place.options = tmp_path / name, stakes[stake]
        stop_after(steps, monkeypatch)
        with pytest.raises(Killed):
            place.run(max_age=max_age)
        monkeypatch.undo()

    begins("ours.json", 0, **first)
    begins("theirs.json", CREATED, **then)
    place.book, place.options = tmp_path / "ours.json", stakes[first.get("stake", "eigenlayer")]
    said = place.run(wanted=Exit.USAGE)
    assert words in said and "another run by this account has deployed at these addresses" in said
