"""Every function of the contracts that people or actors may call has a wrapper by name, and every wrapper fits the ABI."""

import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.units import ZERO_ADDRESS, Address, Blob, Digest, address
from chain.acts import governed, proposals
from chain.acts.governed import Timelock
from chain.acts.proposals import Contents, Support
from chain.client.artifacts import ADAPTERS, CONTRACTS, interface
from chain.deployment import deploy
from chain.deployment.calls import ContractCall
from chain.deployment.params import DEVNET
from chain.deployment.plan import DEVNET_SHAPE, DeploymentPlan, GovernanceSettings, Header, code, names, steps
from tests.fixtures.chain.call_sources import wrappers
from tests.fixtures.chain.devnet import word

BY_CONTRACTS = {
    "AccessManager": "consumeScheduledOp",
    "Breaker": "noteConviction noteDraw",
    "Disputes": "refund",
    "EigenLayerStake": "discharge lock oblige release reserve slash unlock",
    "FeeMarket": "use",
    "Ledger": "advance burn close credit creditEach repay take",
    "ReceiptAnchor": "question questionBatch unhold voidBatch",
    "Registry": "onStake suspend",
    "Rounds": "begin close rearm seat",
    "Settlement": "advance appealed end opened",
    "StakeTree": "setStake",
    "StakeVault": "discharge lock oblige release reserve slash unlock",
}
"""What one contract calls of another; nobody else can use it."""

BY_WALLETS = {
    "AccessManager": "cancel execute multicall renounceRole schedule setGrantDelay setRoleGuardian setTargetAdminDelay",
    "BytewiseGovernor": "castVoteBySig castVoteWithReason castVoteWithReasonAndParams castVoteWithReasonAndParamsBySig",
    "GovernanceToken": "approve delegateBySig permit transfer transferFrom",
    "TimelockController": "execute schedule renounceRole",
}
"""Of OpenZeppelin: other ways to what has a wrapper, delays inside the manager that a charter of ours never gives, and a token's
own, which every wallet knows. `bytewise chain call` makes them all.
"""

RECEIVERS = {"onERC1155BatchReceived", "onERC1155Received", "onERC721Received"}
"""Answers to tokens."""

GOVERNED = {"setAuthority"}
"""`AccessManager.updateAuthority` calls it."""

AS_THE_VAULT = {"EigenLayerStake": "deposit setMover wire"}
"""It takes no deposits, no deployment of ours wires it, and a vote names its movers as the vault's whose place it has."""


def writing(contract: str) -> set[str]:
    return set(interface(contract).writing()) - RECEIVERS - GOVERNED


def wrapped() -> set[tuple[str, str]]:
    """Every (contract, function) that a module of `chain` plans, sends or makes an act of."""
    return {(each.contract, each.function) for each in wrappers()} | deployed()


def deployed() -> set[tuple[str, str]]:
    """What a deployment does once, in `chain.deployment.plan`."""
    pools, who = [word("pool")], ZERO_ADDRESS
    at, header = {name: address(f"0x{place:040x}") for place, name in enumerate(names(pools))}, Header(1, Blob(b"header"))
    site = DeploymentPlan(who, at, DEVNET, DEVNET_SHAPE, (header, header), tuple(pools), GovernanceSettings(who, who, who))
    return {(step.contract.split()[0], step.verb) for step in steps(site) if step.to is not None}


@pytest.mark.parametrize("contract", [*CONTRACTS, *ADAPTERS])
def test_every_public_contract_function_has_a_wrapper(contract: str) -> None:
    have = {function for name, function in wrapped() if name == contract}
    elsewhere = {name for table in (BY_CONTRACTS, BY_WALLETS, AS_THE_VAULT) for name in table.get(contract, "").split()}
    assert writing(contract) - have - elsewhere == set(), "no wrapper in chain, and no reason here"
    assert elsewhere & have == set() and elsewhere <= writing(contract), "a reason for what has a wrapper, or is not there"


def test_vote_on_movers_of_either_stake_source_is_one_call() -> None:
    assert interface("EigenLayerStake").selector("setMover") == governed.set_stake_mover(ZERO_ADDRESS, allowed=True).calldata[:4]


def test_a_function_without_a_wrapper_is_noticed() -> None:
    assert ("Disputes", "refund") not in wrapped() and ("Guardian", "refund") in wrapped()
    assert {("Demands", "reportSkipped"), ("Registry", "quit"), ("Rounds", "reveal")} <= wrapped()


SAMPLES: dict[Any, Any] = {
    int: 7, bool: True, str: "words", bytes: b"\x01\x02", Digest: word("digest"), Address: ZERO_ADDRESS, Blob: Blob(b"\3"),
    ParamSet: DEVNET, Support: Support.ABSTAIN, Timelock: "LongTimelock", Sequence[bytes]: [b"\1\2\3\4"],
    Contents: Contents([ZERO_ADDRESS], [0], [b"\1"], "why"),
    Sequence[Any]: [[ZERO_ADDRESS], [0], [b"\1"], bytes(32), bytes(32), 9],
}  # fmt: skip


def makers() -> Iterator[tuple[str, Callable[..., ContractCall]]]:
    for module in (deploy, governed, proposals):
        for name, made in inspect.getmembers(module, inspect.isfunction):
            if made.__module__ == module.__name__ and typing.get_type_hints(made).get("return") is ContractCall:
                yield name, made


@pytest.mark.parametrize(("name", "maker"), list(makers()), ids=lambda each: each if isinstance(each, str) else "")
def test_every_role_action_fits_the_abi_and_round_trips(name: str, maker: Callable[..., ContractCall]) -> None:
    kinds = {key: kind for key, kind in typing.get_type_hints(maker).items() if key != "return"}
    act = maker(**{key: SAMPLES[kind] for key, kind in kinds.items()})
    known = code(act.contract)
    assert known.function_of(act.calldata) == act.function in known.writing()
    assert len(known.arguments(act.function, act.calldata[4:])) == len(act.arguments), name


def test_missing_permission_is_an_error_of_a_contract() -> None:
    errors = {entry["name"] for name in CONTRACTS for entry in interface(name).errors.values()}
    assert errors >= proposals.UNAUTHORIZED
