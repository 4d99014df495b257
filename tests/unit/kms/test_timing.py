"""Coarse: whether the time of a shard's arithmetic tells anything of its share. Runs in `make soak-kms` only.

This compares medians of whole multiplications on one machine. It would find a multiplication that takes longer the more bits a
share has; what caches, power or a statistic over millions of answers tell, it cannot find, and no claim rests on it.
"""

import os
import random
import statistics
import time
from collections.abc import Callable

import pytest

from bytewise.crypto.curve import GENERATOR, ORDER
from bytewise.crypto.shares import prove_partial
from bytewise.protocol.units import Digest
from bytewise.service.settings import library_variables

ROUNDS = 400
SPARSE, DENSE = 2**255 + 1, ORDER - 2**200
"""Two shares, with 2 bits that are set and with more than a hundred."""
TOLERANCE = 0.05

pytestmark = pytest.mark.skipif(not library_variables(("BYTEWISE_SOAK_KMS",)), reason="BYTEWISE_SOAK_KMS is not set")
Act = Callable[[int], object]


def difference(act: Act) -> float:
    """How much longer the dense share takes in the median, relative; in any order, so that the machine's moods fall on both.

    Time of this thread on a processor: what others take from it is a multiple of what is asked about.
    """
    seconds: dict[int, list[float]] = {SPARSE: [], DENSE: []}
    for _ in range(ROUNDS):
        for share in random.sample(list(seconds), 2):
            started = time.thread_time()
            act(share)
            seconds[share].append(time.thread_time() - started)
    return statistics.median(seconds[DENSE]) / statistics.median(seconds[SPARSE]) - 1


def doubling(share: int) -> object:
    """Double and add: the multiplication that everybody writes first."""
    total = GENERATOR.copy()
    for bit in bin(share)[3:]:
        total = total.double()
        if bit == "1":
            total += GENERATOR
    return total


def test_attack_25_a_partial_takes_as_long_whatever_the_share() -> None:
    receipt = Digest(os.urandom(32))
    assert abs(difference(lambda share: prove_partial(1, share, GENERATOR, receipt, os.urandom))) < TOLERANCE


def test_attack_25_control_double_and_add_tells_the_bits() -> None:
    assert difference(doubling) > 2 * TOLERANCE
