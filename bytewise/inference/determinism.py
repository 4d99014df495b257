"""Sets, verifies and restores the process-wide switches that affect numbers. Also describes the environment of `exact-1`."""

import contextlib
import functools
import platform
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING

from bytewise.inference.artifact.artifact import Artifact
from bytewise.protocol.errors.actors import NotExact
from bytewise.protocol.records.environment import PROFILE_EXACT_1, Environment, Limits, Version
from bytewise.protocol.units import ZERO_DIGEST, Digest

if TYPE_CHECKING:
    from torch import Tensor

LIBRARIES = ("llguidance", "safetensors", "tokenizers", "torch", "transformers")
"""Names of the Python packages that affect numbers or tokens, in ascending order. An environment lists their versions."""

ENGINE_FLAGS = (
    "deterministic-algorithms", "dispatch-guard-at-warm-up", "flush-denormal-off", "known-answers-at-start", "no-autocast",
)  # fmt: skip
"""Flags that every environment of `exact-1` lists, in ascending order. The thread count is not a flag, because no byte depends
on it."""

MAX_REQUEST_BYTES = 1 << 20
"""Largest canonical request in bytes, unless a caller of `environment` chooses another limit. With eight characters per token,
the largest context of small models fits."""


SUMS = (
    (0x3F800000, 0x33800000, 0x3F800000),  # 1 + 2^-24 is a tie, and 1 is even.
    (-0x40800000, -0x4C800000, -0x40800000),  # The same below zero.
    (0x3F800000, 0x33C00000, 0x3F800001),  # 1 + 1.5 · 2^-24 is nearer to 1 + 2^-23.
    (0x00000001, 0x00000000, 0x00000001),  # The smallest subnormal is neither read nor written as zero.
)
"""Test additions. Each row has the bits of two float32 numbers and of their sum, written as int32. Any other rounding mode, and
any other treatment of subnormals, gives other bits in at least one sum."""

SHARE = 2**15
"""Least number of elements that torch gives to each thread when it divides an addition among threads
(`at::internal::GRAIN_SIZE`)."""


@contextlib.contextmanager
def fixed(threads: int) -> Iterator[None]:
    """Context manager that sets and verifies the switches under which the engine computes. It restores the previous state, also
    after an error. Raises `NotExact` if a switch does not have the profile's value."""
    import torch

    before = (torch.get_num_threads(), torch.get_deterministic_debug_mode(), torch.get_float32_matmul_precision())
    try:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode("error")
        # "medium" would still be exact (8-bit limbs fit bfloat16), but exactness should not depend on that argument.
        torch.set_float32_matmul_precision("highest")
        with torch.inference_mode():
            verify_switches(threads)
            yield
    finally:
        torch.set_num_threads(before[0])
        torch.set_deterministic_debug_mode(before[1])
        torch.set_float32_matmul_precision(before[2])


def verify_switches(threads: int) -> int:
    """Checks that every switch has the value of the profile, and returns the thread count. Raises `NotExact` with the name of
    the first wrong switch.

    Rounding and subnormals are modes of each thread, and another library may have set them. This function checks the current
    thread and each helper thread of the tensor library (ADR-006). Threads of the C engine set their own modes.
    """
    import torch

    found = {
        "thread count": torch.get_num_threads() == threads,
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "float32 matmul precision": torch.get_float32_matmul_precision() == "highest",
        "default dtype": torch.get_default_dtype() == torch.float32,
        "autocast": not torch.is_autocast_enabled("cpu"),
        "rounding and denormals": _floats_are_plain(threads),
    }
    for name, right in found.items():
        if not right:
            raise NotExact(f"switch {name}")
    return threads


def _floats_are_plain(threads: int) -> bool:
    import torch

    left, right, sums = _sums(1 if threads == 1 else threads * SHARE // len(SUMS))
    # Compare bits: where subnormals are read as zeros, they compare equal to zero.
    return torch.equal((left + right).view(torch.int32), sums)


@functools.lru_cache(maxsize=2)
def _sums(times: int) -> "tuple[Tensor, Tensor, Tensor]":
    import torch

    # Written as integers, because converting a float here would round it.
    left, right, sums = (torch.tensor(column, dtype=torch.int32).repeat(times) for column in zip(*SUMS, strict=True))
    return left.view(torch.float32), right.view(torch.float32), sums


def environment(
    artifact: Artifact, *, container: Digest = ZERO_DIGEST, max_new_tokens: int = 1024, max_context: int | None = None,
    max_request_bytes: int = MAX_REQUEST_BYTES,
) -> Environment:  # fmt: skip
    """Returns the environment to register for an `exact-1` artifact. It depends on the installed versions of Python and of
    `LIBRARIES`, but not on the processor."""
    shape = artifact.manifest.architecture
    context = min(shape.max_context, max_context or shape.max_context)
    numbers = {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES}
    libraries = tuple(Version(name, number) for name, number in sorted(numbers.items()))
    limits = Limits(context, min(max_new_tokens, context), max_request_bytes, shape.vocabulary)
    return Environment(container, PROFILE_EXACT_1, "cpu", "none", libraries, ENGINE_FLAGS, limits)
