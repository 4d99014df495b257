"""The client of the contracts, without a chain: names that the ABI has, refusals understood, seats summed."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.crypto.bls import BlsSigner, PublicKey, aggregate, certificate, signing_mask
from bytewise.protocol.court.commitments import Commit
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Seat
from bytewise.protocol.errors.actors import BondMismatch, BreakerHolds, ChainReverted, TooEarly, WindowClosed, WrongPhase
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import U16, U256, ZERO_DIGEST, Address, Blob, address
from chain.acts.disputes import COMMITS_PER_CALL, SignedCommit, parts_of
from chain.acts.state_check import _MEANINGS, _REFUSAL_RULES, classify
from chain.client import artifacts
from chain.client.artifacts import Reason, from_struct, interface, to_struct
from chain.client.simulation import _RULES, as_rule
from chain.deployment.params import DEVNET
from chain.deployment.plan import DEVNET_SHAPE, DeploymentPlan, GovernanceSettings, Header, Shape, names, steps
from chain.sending.sender import StateAnswer
from tests.fixtures.chain.devnet import word

CONTRACTS = tuple(interface(name) for name in (*artifacts.CONTRACTS, *artifacts.ADAPTERS))
ENTRIES = {entry["name"]: entry for each in CONTRACTS for entry in each.errors.values()}


def reverted(name: str, **arguments: Any) -> ChainReverted:
    reason = Reason(name, arguments)
    return ChainReverted("eth_call", reason, reason)


def test_every_known_refusal_is_an_error_of_a_contract() -> None:
    functions = {name for each in CONTRACTS for name in each.functions}
    assert set(_REFUSAL_RULES) <= functions
    assert {error for _, error in _MEANINGS} <= set(ENTRIES) and set(_RULES) <= set(ENTRIES)


@pytest.mark.parametrize("name", _RULES)
def test_every_rule_reads_the_arguments_that_its_error_has(name: str) -> None:
    kinds: dict[str, Any] = {"uint8": 3, "uint16": 1, "uint64": 7, "uint256": 9, "bytes32": b"window".ljust(32, b"\0")}
    for each in CONTRACTS:
        for entry in each.errors.values():
            if entry["name"] == name:
                values = {part["name"]: kinds.get(part["type"], "0x" + "11" * 20) for part in entry["inputs"]}
                told = as_rule(reverted(name, **values))
                assert isinstance(told, BytewiseError) and (name == "NoProgress" or not isinstance(told, ChainReverted))


def test_rules_say_what_was_wrong() -> None:
    assert str(as_rule(reverted("BondMismatch", have=1, want=2))).endswith("1 wei sent, 2 asked")
    for name, values, rule in (
        ("WrongPhase", {"id": word("d"), "have": 1, "want": 3}, WrongPhase),
        ("TooEarly", {"now_": 1, "notBefore": 2}, TooEarly),
        ("TooLate", {"now_": 2, "end": 1}, WindowClosed),
        ("Held", {"environment": word("e")}, BreakerHolds),
        ("BondMismatch", {"have": 1, "want": 2}, BondMismatch),
    ):
        assert type(as_rule(reverted(name, **values))) is rule
    foreign = reverted("TooEarly", something=1)
    assert as_rule(foreign) is foreign


@given(function=st.sampled_from(sorted(_REFUSAL_RULES)), have=st.sampled_from(Phase))
def test_action_in_the_wrong_phase_waits_or_is_over(function: str, have: Phase) -> None:
    answer = classify(function, reverted("WrongPhase", id=word("d"), have=int(have), want=0))
    assert answer in (StateAnswer.WAIT, StateAnswer.LATE, StateAnswer.DONE)
    if have is Phase.NONE:
        assert answer is StateAnswer.WAIT
    if have is Phase.FINAL:
        assert answer is not StateAnswer.WAIT


@given(function=st.sampled_from(sorted(_REFUSAL_RULES)))
def test_pause_is_waited_for_and_unforeseen_error_is_refused(function: str) -> None:
    assert classify(function, reverted("NotNow", paused=True)) is StateAnswer.WAIT
    assert classify(function, reverted("OwnReceipt", operator="0x")) is StateAnswer.REFUSED
    assert classify(function, ChainReverted("eth_call", "no reason")) is StateAnswer.REFUSED


def test_parameters_go_into_a_struct_and_come_back() -> None:
    components = interface("Params").constructor[1]["components"]
    for part in components:
        ours = to_struct(getattr(DEVNET, part["name"]))
        assert len(ours) == len(part["components"])
    raw = {
        part["name"]: dict(zip((c["name"] for c in part["components"]), to_struct(getattr(DEVNET, part["name"])), strict=True))
        for part in components
    }
    assert from_struct(ParamSet, raw) == DEVNET


def test_a_plan_creates_before_it_wires_and_every_argument_fits() -> None:
    pools, deployer = (word("one"), word("two")), address("0x" + "11" * 20)
    at = {name: address(f"0x{place + 1:040x}") for place, name in enumerate(names(pools))}
    headers = (Header(1, b"first"), Header(2, b"second"))  # type: ignore[arg-type]
    planned = steps(
        DeploymentPlan(deployer, at, DEVNET, DEVNET_SHAPE, headers, pools, GovernanceSettings(deployer, deployer, deployer))
    )
    created = [step.contract for step in planned if step.to is None]
    assert tuple(created) == names(pools) and planned[-1].verb == "establish"
    assert [step.verb for step in planned[len(created) : -1]] == ["wire"] * 10
    assert isinstance(DEVNET_SHAPE, Shape)


@given(count=st.integers(0, 255), most=st.integers(1, 255))
def test_commitments_go_in_as_few_transactions_as_possible(count: int, most: int) -> None:
    commit = Commit(word("dispute"), U16(1), U256(1), word("vote"))
    commits = [SignedCommit(commit, address(f"0x{i + 1:040x}"), Blob(b"")) for i in range(count)]
    parts = parts_of(commits, most)
    assert [each for part in parts for each in part] == commits and len(parts) == -(-count // most)
    assert all(0 < len(part) <= most for part in parts)


def test_commitments_of_several_rounds_are_not_batched_together() -> None:
    rounds = [Commit(word("dispute"), U16(i), U256(1), word("vote")) for i in (1, 2)]
    with pytest.raises(MalformedValue, match="several rounds"):
        parts_of([SignedCommit(each, address("0x" + "11" * 20), Blob(b"")) for each in rounds], COMMITS_PER_CALL)


def keyed(count: int) -> tuple[list[Seat], dict[Address, BlsSigner]]:
    accounts = [address(f"0x{i + 1:040x}") for i in range(count)]
    # Seats are dealt in turn; the last member has no key.
    seats = [Seat(who, sum(1 << s for s in range(i, 7, count)), ZERO_DIGEST, ZERO_DIGEST) for i, who in enumerate(accounts)]
    return seats, {who: BlsSigner(b"\0" + word(who)[1:]) for who in accounts[:-1]}


def test_certificate_shows_keys_and_sums_signatures_once_for_each_seat() -> None:
    seats, signers = keyed(3)
    keys: dict[Address, PublicKey] = {who: signer.public_key for who, signer in signers.items()}
    first, second = (each.voter for each in seats[:2])
    signature, other = (signers[who].sign(word("message")) for who in (first, second))
    one = certificate(seats, keys, {first: signature})
    assert (one.signers, one.keys) == (0b1001001, (keys[first],) * 3) and one.signature == aggregate([(signature, 3)])
    both = certificate(seats, keys, {second: other, first: signature})
    # The lowest seat's key first, and the same again for each further seat of a member.
    assert both.signers == 0b1011011 and both.keys == tuple(keys[who] for who in (first, second, first, second, first))
    assert both.signature == aggregate([(signature, 3), (other, 2)])
    for signatures in ({}, {seats[2].voter: signature}, {address("0x" + "99" * 20): signature}):
        with pytest.raises(MalformedValue, match="certificate"):
            certificate(seats, keys, signatures)


def test_signers_of_a_certificate_are_known_before_it_is_signed() -> None:
    seats, signers = keyed(4)
    keys: dict[Address, PublicKey] = {who: signer.public_key for who, signer in signers.items()}
    everybody = [each.voter for each in seats]
    assert signing_mask(seats, keys, everybody) == 0b1110111, "who has no key signs nothing"
    assert signing_mask(seats, keys, everybody[1:]) == 0b1100110
    for one in (dataclasses.replace(seats[0], commitment=word("sealed")), dataclasses.replace(seats[0], group=word("revealed"))):
        voted = [one, *seats[1:]]
        assert signing_mask(voted, keys, everybody) == 0b1100110, "who committed itself reveals itself"
        with pytest.raises(MalformedValue, match=everybody[0]):
            certificate(voted, keys, {everybody[0]: signers[everybody[0]].sign(word("message"))})
