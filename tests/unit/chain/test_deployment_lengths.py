"""Lengths in blocks and in seconds fit each other, or nothing is deployed."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.decisions.snapshot import FINAL_AFTER
from bytewise.protocol.errors.actors import ConfigurationError
from chain.deployment.lengths import SEED_ATTEMPTS, Lengths, farthest_seed, lengths_of, seed_blocks, verify_lengths
from chain.deployment.params import DEVNET, with_changes
from chain.deployment.plan import DEVNET_SHAPE, MAIN_NET
from tests.fixtures.chain.anvil import CHAIN_ID

DAY = 86_400


@st.composite
def shapes(draw: st.DrawFn) -> Lengths:
    epoch = draw(st.integers(2, 60))
    lengths = {"epoch_blocks": epoch, "lookahead": draw(st.integers(1, epoch - 1)), "shortest": draw(st.integers(2, 80))}
    return lengths_of(dataclasses.replace(DEVNET_SHAPE, **lengths), CHAIN_ID)


def played(shape: Lengths, opened: int) -> tuple[int, int]:
    """Blocks to the first seed, and until the last attempt is lost, one block after another."""
    tree = shape.tree
    block, attempts = opened, 1
    seed = first = tree.seed_block_from(opened + shape.shortest)
    while attempts <= SEED_ATTEMPTS:
        block += 1
        if tree.epoch(seed) < tree.epoch(block):
            attempts += 1
            seed = tree.seed_block_from(block + shape.shortest)
    return first - opened, block - opened


@given(shapes(), st.integers(0, 10_000))
def test_no_dispute_takes_longer_than_the_stated_bound(shape: Lengths, opened: int) -> None:
    ahead, lost = played(shape, opened)
    assert ahead <= farthest_seed(shape)
    assert lost <= seed_blocks(shape)


@given(shapes())
def test_stated_bound_of_a_dispute_is_reached_in_some_block(shape: Lengths) -> None:
    epoch = shape.tree.epoch_blocks
    every = [played(shape, 1_000 * epoch + place) for place in range(epoch)]
    assert max(ahead for ahead, _ in every) == farthest_seed(shape)
    assert max(lost for _, lost in every) == seed_blocks(shape)


def test_the_development_network_fits() -> None:
    verify_lengths(DEVNET, lengths_of(DEVNET_SHAPE, CHAIN_ID))


def main_net(**times: int) -> ParamSet:
    """Days that fit main net's stake epochs of a day: the least of each that is checked here."""
    lengths = {"seed_time": 4 * DAY, "draw_time": DAY, "window": DAY, "max_anchor_delay": 3_600, "cure": 3_600}
    lengths["commit_time"] = 2 * (FINAL_AFTER * MAIN_NET.block_s + DEVNET.times.execution_bound)
    return with_changes(DEVNET, {"times": lengths | times})


def test_main_net_fits_with_days_for_its_seeds() -> None:
    verify_lengths(main_net(), lengths_of(MAIN_NET, 1))


@pytest.mark.parametrize(
    ("shape", "times", "named"),
    [
        ({"longest": 3_791}, {}, "longest"),
        ({}, {"window": DAY - 7_200}, "max_anchor_delay + window + cure"),
        ({"block_s": 13}, {}, "max_anchor_delay + window + cure"),
        ({}, {"seed_time": 3 * DAY}, "seed_time + draw_time"),
        ({}, {"commit_time": 2_343}, "half of commit_time"),
        ({}, {"execution_bound": 21}, "half of commit_time"),
    ],
)
def test_a_length_that_is_too_short_is_named(shape: dict[str, Any], times: dict[str, int], named: str) -> None:
    with pytest.raises(ConfigurationError, match="needs") as raised:
        verify_lengths(main_net(**times), lengths_of(dataclasses.replace(MAIN_NET, **shape), 1))
    assert named in str(raised.value)
