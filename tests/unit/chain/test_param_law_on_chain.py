"""The law of parameters in Python and in `ParamLaw.sol` refuse the same sets, and for the same first reason."""

import random
from collections.abc import Iterator
from dataclasses import fields, replace

from bytewise.protocol.court.param_law import LARGEST, Violation, time_budget, violations
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.errors.records import MalformedValue
from chain.acts.governed import set_params
from chain.deployment.calls import dry_run
from chain.deployment.params import DAY, DEVNET, ETHER
from tests.fixtures.chain.anvil import running_anvil
from tests.fixtures.chain.devnet import deployed

PARTS = ("times", "committee", "money", "shares")
VALUES = (0, 1, 2, 3, 7, 600, 3_600, 5_001, 8_001, 10_001, 20_000, 3 * DAY + 1, 15 * DAY, 31 * DAY, 91 * DAY, ETHER, 10**24 + 1)
SEATS = ((15, 31, 63), (2, 31, 0), (16, 31, 0), (15, 15, 0), (15, 257, 0), (15, 31, 33), (3, 0, 0), (255, 31, 0))
AT_STAKE = replace(
    DEVNET,
    times=replace(
        DEVNET.times, window=3_600, max_anchor_delay=600, cure=600, commit_time=600, reveal_time=600, appeal_time=600, airgap=600,
        rerun_time=1_400,
    ),
    committee=replace(DEVNET.committee, min_pool=31),
)  # fmt: skip
"""Accepted also where something is at stake."""


def neighbours(base: ParamSet) -> Iterator[ParamSet]:
    """The set with one value replaced, at and beyond its bounds, and with three at random."""
    source = random.Random(7)
    single = [(part, each.name) for part in PARTS for each in fields(getattr(base, part)) if each.name != "seats"]
    for part, name in single:
        now = getattr(getattr(base, part), name)
        for value in {*VALUES, now - 1, now + 1, 2 * now}:
            if 0 <= value <= LARGEST[name]:
                yield _with(base, part, name, value)
    for seats in SEATS:
        for rounds in range(5):
            yield replace(base, committee=replace(base.committee, seats=seats, rounds=rounds))
    for _ in range(200):
        other = base
        for part, name in source.sample(single, 3):
            other = _with(other, part, name, min(LARGEST[name], source.choice(VALUES)))
        yield other


def _with(base: ParamSet, part: str, name: str, value: int) -> ParamSet:
    return replace(base, **{part: replace(getattr(base, part), **{name: value})})


def words_of_contract(found: Violation) -> str:
    """How the refusal of this violation begins (`chain.client.simulation`)."""
    return f"{found.key} of " if found.is_static_law else f"{found.key} is outside its bounds"


def test_contract_refuses_what_the_law_refuses_and_names_the_same_rule() -> None:
    refused = accepted = 0
    with running_anvil() as anvil:
        network = deployed(anvil)
        for p in neighbours(DEVNET):
            found = violations(p, is_test_chain=True)
            try:
                dry_run(anvil.client, network, network.addresses.short_timelock, set_params(p))
            except MalformedValue as error:
                assert found, f"only the contract refuses: {error}"
                assert words_of_contract(found[0]) in str(error), f"{found} {error}"
                refused += 1
            else:
                assert found == ()
                accepted += 1
    assert refused > 300 and accepted > 100


def test_short_times_and_small_pools_need_a_test_chain() -> None:
    assert violations(AT_STAKE, is_test_chain=False) == ()
    keys = [each.key for each in violations(DEVNET, is_test_chain=False)]
    assert keys == ["window", "maxAnchorDelay", "cure", "commitTime", "revealTime", "appealTime", "airgap", "minPool"]


def test_all_violations_are_listed_in_words() -> None:
    p = replace(DEVNET, times=replace(DEVNET.times, unbond_delay=100), shares=replace(DEVNET.shares, alpha_bps=5_000))
    first, second = violations(p, is_test_chain=True)
    assert first.words == "alpha_bps + beta_bps is 9000, and must be from 0 to 8000"
    assert second.words.startswith("unbond_delay leaves 100 s, and must outlast the longest dispute of ") and second.is_static_law


def test_value_that_no_type_of_the_contract_holds_is_named() -> None:
    p = replace(DEVNET, money=replace(DEVNET.money, bounty=2**96), shares=replace(DEVNET.shares, max_batch=-1))
    assert [each.key for each in violations(p, is_test_chain=True)] == ["bounty", "maxBatch"]


def test_time_budget_is_the_longest_dispute() -> None:
    budget = time_budget(DEVNET)
    assert budget.longest == DEVNET.longest_dispute
    assert [each.seconds for each in budget.limits] == [7 * DAY, 13 * DAY, 7 * DAY]
