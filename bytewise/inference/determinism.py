"""Process-wide switches in one file: set, verified, put back; and what is recorded of the place of computation (habit 46)."""

import contextlib
import platform
from collections.abc import Iterator
from importlib.metadata import version

from bytewise.inference.artifact import Artifact
from bytewise.protocol.environment import PROFILE_EXACT_1, Environment, Limits, Version
from bytewise.protocol.errors import NotExact
from bytewise.protocol.units import ZERO_DIGEST, Digest

LIBRARIES = ("llguidance", "safetensors", "tokenizers", "torch", "transformers")
"""Distributions that touch numbers or tokens, ascending."""

ENGINE_FLAGS = (
    "deterministic-algorithms", "dispatch-guard-at-warm-up", "flush-denormal-off", "known-answers-at-start", "no-autocast",
)  # fmt: skip
"""Flags of every engine, ascending. The thread count is none: no byte depends on it."""

MAX_REQUEST_BYTES = 1 << 20
"""Canonical Request; eight characters per token leave room for the largest context of small models."""


@contextlib.contextmanager
def fixed(threads: int) -> Iterator[None]:
    """The switches under which the engine computes; puts back what it found, also after an error."""
    import torch

    before = (torch.get_num_threads(), torch.get_deterministic_debug_mode(), torch.get_float32_matmul_precision())
    try:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode("error")
        # "medium" would still be exact (8-bit limbs fit bfloat16), but a switch is not an argument.
        torch.set_float32_matmul_precision("highest")
        with torch.inference_mode():
            verify_switches(threads)
            yield
    finally:
        torch.set_num_threads(before[0])
        torch.set_deterministic_debug_mode(before[1])
        torch.set_float32_matmul_precision(before[2])


def verify_switches(threads: int) -> int:
    """The thread count, if every switch is as the profile wants; otherwise `NotExact` names the first that is not."""
    import torch

    tiny = torch.full((1,), 1.0e-40)
    found = {
        "thread count": torch.get_num_threads() == threads,
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "float32 matmul precision": torch.get_float32_matmul_precision() == "highest",
        "default dtype": torch.get_default_dtype() == torch.float32,
        "autocast": not torch.is_autocast_enabled("cpu"),
        "denormals": bool((tiny * 1.0 > 0).all()),
    }
    for name, right in found.items():
        if not right:
            raise NotExact(f"switch {name}")
    return threads


def environment(
    artifact: Artifact, *, container: Digest = ZERO_DIGEST, max_new_tokens: int = 1024, max_context: int | None = None,
    max_request_bytes: int = MAX_REQUEST_BYTES,
) -> Environment:  # fmt: skip
    """The environment to register for an artifact on any processor. Torch is not imported for it."""
    shape = artifact.manifest.architecture
    context = min(shape.max_context, max_context or shape.max_context)
    numbers = {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES}
    libraries = tuple(Version(name, number) for name, number in sorted(numbers.items()))
    limits = Limits(context, min(max_new_tokens, context), max_request_bytes, shape.vocabulary)
    return Environment(container, PROFILE_EXACT_1, "cpu", "none", libraries, ENGINE_FLAGS, limits)
