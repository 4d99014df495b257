"""Which way to multiply is the fastest on this machine: measured, because no rule about processors is right for all of them.

The choice cannot change a byte: only backends that pass the known answers are used, and those give the same integers.
"""

import functools
import time
from collections.abc import Sequence
from statistics import median

import torch

from bytewise.inference.known_answers import ACTIVATION_MAX, WEIGHT_MAX
from bytewise.inference.matmul import Backend

SHAPES = ((1, 1024, 1024), (16, 512, 512))
"""Rows, sums and their length: a token of decode, a few of prefill."""

ROUNDS = 3
"""Measurements of each product; their median counts."""


def fastest_first(backends: Sequence[Backend], threads: int) -> list[Backend]:
    """The backends by measured speed, for the thread count that is set; one that cannot multiply at all comes last.

    Takes some milliseconds for each backend, once in a process.
    """
    return sorted(backends, key=lambda backend: _seconds(backend, threads))


@functools.cache
def _seconds(backend: Backend, threads: int) -> float:
    # Decode and prefill count alike: the product of both times orders as their geometric mean does.
    total = 1.0
    for rows, sums, depth in SHAPES:
        values = torch.full((rows, depth), float(ACTIVATION_MAX))
        try:
            packed = backend.pack(torch.full((sums, depth), WEIGHT_MAX, dtype=torch.int8))
            total *= median(_once(backend, values, packed) for _ in range(ROUNDS))
        except RuntimeError:
            return float("inf")
    return total


def _once(backend: Backend, values: torch.Tensor, packed: torch.Tensor) -> float:
    start = time.perf_counter()
    backend.product(values, packed)
    return time.perf_counter() - start
