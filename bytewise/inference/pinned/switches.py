"""Switches of the library under `pinned-1`: set, listed as flags of the environment, and restored."""

import contextlib
from collections.abc import Iterator

import torch

from bytewise.inference.determinism import fixed
from bytewise.service.settings import library_variables

VARIABLES = ("ATEN_CPU_CAPABILITY", "CUBLAS_WORKSPACE_CONFIG", "MKL_CBWR", "NVIDIA_TF32_OVERRIDE", "ONEDNN_MAX_CPU_ISA")
"""Libraries read these variables when they load and choose kernels by them, so operator and verifier must set them alike."""

SWITCHES = ("attention=eager", "cudnn-benchmark=off", "deterministic-algorithms", "no-autocast", "tf32=off")


@contextlib.contextmanager
def pinned_switches(threads: int) -> Iterator[None]:
    """Sets the switches under which the profile computes. Restores the previous state, also after an error."""
    cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = (cuda.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic)
    try:
        cuda.allow_tf32 = cudnn.allow_tf32 = cudnn.benchmark = False
        cudnn.deterministic = True
        with fixed(threads):
            yield
    finally:
        cuda.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic = before


def flags(threads: int) -> list[str]:
    """The switches as `name=value`, with the libraries' variables of this process."""
    found = library_variables(VARIABLES)
    return [*SWITCHES, f"threads={threads}", *(f"{name}={found.get(name, 'unset')}" for name in VARIABLES)]
