"""Checking a batch costs as much for each receipt of a large batch as of a small one."""

import functools
from collections.abc import Callable
from dataclasses import replace

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.records.receipt import SignedLeaf, SignedReceipt
from tests.fixtures.builders import ANCHOR, word
from tests.fixtures.verifier.verifier_fixture import WORLD
from tests.fixtures.work_counter import calls
from verifier.watch.batch_check import verify_batch, verify_leaves

FEW, MOST = 16, 188
"""A batch of a quiet hour, and the largest that any parameters allow (`ParamLaw.MAX_BATCH`)."""


@functools.cache
def signed() -> tuple[SignedReceipt, ...]:
    """Receipts of the largest batch."""
    return tuple(
        WORLD.sign(replace(WORLD.answered(seq).receipt, envelope_hash=word("envelope", seq))) for seq in range(1, MOST + 1)
    )


def check_list(entries: tuple[SignedReceipt, ...]) -> Callable[[], object]:
    header, listed = WORLD.batch(entries)
    data = encode(listed)
    return lambda: verify_batch(ANCHOR, header, data, WORLD.environment, frozenset({1}))


def check_leaves(entries: tuple[SignedReceipt, ...]) -> Callable[[], object]:
    header, listed = WORLD.batch(entries)
    data, leaves = encode(listed), [SignedLeaf(each.receipt, each.signature) for each in entries]
    return lambda: verify_leaves(ANCHOR, header, leaves, data, WORLD.environment)


@pytest.mark.parametrize("check", [check_list, check_leaves])
@pytest.mark.parametrize("name", ["", "keccak256"])
def test_work_for_a_receipt_is_the_same_in_every_batch(check: Callable[..., Callable[[], object]], name: str) -> None:
    few, most = (check(signed()[:count]) for count in (FEW, MOST))
    few()  # caches of types and domains are filled once
    assert calls(most, name) / MOST <= 1.1 * calls(few, name) / FEW


def test_a_receipt_in_a_list_is_hashed_six_times() -> None:
    """Its record, its id, its leaf twice, its operator's key, and one node of the tree for each leaf but one."""
    assert calls(check_list(signed()), "keccak") == 6 * MOST - 1
