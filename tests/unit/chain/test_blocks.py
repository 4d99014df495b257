"""Blocks of a chain, found by their time."""

import pytest

from chain.client import blocks
from chain.client.blocks import BlockReader
from tests.fixtures.chain.anvil import Anvil


def test_blocks_are_found_by_their_time(anvil: Anvil) -> None:
    chain = BlockReader(anvil.client)
    anvil.mine(5)
    anvil.pass_time(100)
    head = chain.head()
    times = [chain.block(number).timestamp for number in range(head + 1)]
    for at in (*times, times[-1] - 50, times[-1] + 1, 0):
        assert list(chain.numbers_at(at, head)) == [number for number, each in enumerate(times) if each == at]
    assert not chain.numbers_at(times[-1], times.index(times[-1]) - 1)


def test_blocks_of_a_long_chain_are_found_in_few_steps(anvil: Anvil, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "SHORT_CHAIN_BLOCKS", 1)
    for gap in range(1, 40):
        anvil.pass_time(1 + gap % 7)
        anvil.mine(gap % 3)
    long, head = BlockReader(anvil.client), anvil.client.head().number
    times = [anvil.client.block(number).timestamp for number in range(head + 1)]
    assert times == sorted(times)
    for at in range(times[0] - 1, times[-1] + 2):
        assert list(long.numbers_at(at, head)) == [number for number, each in enumerate(times) if each == at]
        assert list(long.numbers_at(at, head // 2)) == [
            number for number, each in enumerate(times[: head // 2 + 1]) if each == at
        ]
