"""Which way to multiply is the fastest on this machine: measured, because no rule about processors is right for all of them.

The choice cannot change a byte: only backends that pass the known answers are used, and those give the same integers.
"""

import functools
import time
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from bytewise.inference.exact.linear import SharedProduct
from bytewise.inference.exact.matmul import Backend, FusedBackend
from bytewise.inference.exact.quantise import ACTIVATION_BITS
from bytewise.inference.known_answers.operations import ACTIVATION_MAX, WEIGHT_MAX
from bytewise.protocol.errors import CannotExecute

SHAPES = ((1, 1024, 1024), (16, 512, 512))
"""Rows, outputs and inputs of linear layers: a token of decode, a few of prefill."""

ATTENTION = (8, 16, 64, 256)
"""Heads, queries, their width and keys of the products of attention."""

ROUNDS = 4
"""Measurements of each; the fastest counts: whatever else the machine does only makes them slower."""

SETTLING_S = 0.05
"""Several times what a thread of the tensor library spins after its last work before it sleeps."""


def fastest_first(backends: Sequence[Backend], threads: int) -> list[Backend]:
    """The backends by measured speed, for the thread count that is set; one that cannot multiply at all comes last.

    Takes some milliseconds for each backend, once in a process.
    """
    return sorted(backends, key=lambda backend: _seconds(backend, threads))


@functools.cache
def _seconds(backend: Backend, threads: int) -> float:
    # Whole linear layers, since some backends have one in one call. Decode, prefill and attention count alike: the product of
    # their times orders as their geometric mean does.
    total, before = 1.0, torch.get_num_threads()
    # As the engine will use it (`paths.Path.own_threads`), and after the library's idle threads have stopped spinning.
    torch.set_num_threads(1 if isinstance(backend, FusedBackend) else threads)
    time.sleep(SETTLING_S)
    try:
        for work in _workload(backend):
            total *= min(_once(work) for _ in range(ROUNDS))
    except (RuntimeError, CannotExecute):
        return float("inf")
    finally:
        torch.set_num_threads(before)
    return total


def _workload(backend: Backend) -> Iterator[Callable[[], Tensor]]:
    for rows, outputs, inputs in SHAPES:
        weight = {"w": torch.full((outputs, inputs), WEIGHT_MAX, dtype=torch.int8), "w.scale": torch.ones(outputs)}
        layer = SharedProduct(backend, weight, ["w"])
        yield functools.partial(layer.of, torch.full((rows, inputs), float(ACTIVATION_MAX)), last=True)
    heads, queries, width, keys = ATTENTION
    left = torch.full((heads, queries, width), float(ACTIVATION_MAX))
    right = torch.full((heads, width, keys), float(ACTIVATION_MAX), dtype=torch.float64)
    yield functools.partial(backend.batched, left, right, ACTIVATION_BITS)


def _once(work: Callable[[], Tensor]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
