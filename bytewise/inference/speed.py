"""Which way to multiply is the fastest on this machine: measured, because no rule about processors is right for all of them.

The choice cannot change a byte: only backends that pass the known answers are used, and those give the same integers.
"""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median

import torch
from torch import Tensor

from bytewise.inference.known_answers import ACTIVATION_MAX, WEIGHT_MAX
from bytewise.inference.matmul import Backend
from bytewise.inference.quantise import ACTIVATION_BITS

SHAPES = ((1, 1024, 1024), (16, 512, 512))
"""Rows, sums and their length of linear layers: a token of decode, a few of prefill."""

ATTENTION = (8, 16, 64, 256)
"""Heads, queries, their width and keys of the products of attention."""

ROUNDS = 3
"""Measurements of each product; their median counts."""


def fastest_first(backends: Sequence[Backend], threads: int) -> list[Backend]:
    """The backends by measured speed, for the thread count that is set; one that cannot multiply at all comes last.

    Takes some milliseconds for each backend, once in a process.
    """
    return sorted(backends, key=lambda backend: _seconds(backend, threads))


@functools.cache
def _seconds(backend: Backend, threads: int) -> float:
    # Decode, prefill and attention count alike: the product of their times orders as their geometric mean does.
    total = 1.0
    try:
        for multiply in _workload(backend):
            total *= median(_once(multiply) for _ in range(ROUNDS))
    except RuntimeError:
        return float("inf")
    return total


def _workload(backend: Backend) -> Iterator[Callable[[], Tensor]]:
    for rows, sums, depth in SHAPES:
        values = torch.full((rows, depth), float(ACTIVATION_MAX))
        packed = backend.pack(torch.full((sums, depth), WEIGHT_MAX, dtype=torch.int8))
        yield functools.partial(backend.product, values, packed)
    heads, queries, width, keys = ATTENTION
    left = torch.full((heads, queries, width), float(ACTIVATION_MAX))
    right = torch.full((heads, width, keys), float(ACTIVATION_MAX), dtype=torch.float64)
    yield functools.partial(backend.batched, left, right, ACTIVATION_BITS)


def _once(multiply: Callable[[], Tensor]) -> float:
    start = time.perf_counter()
    multiply()
    return time.perf_counter() - start
