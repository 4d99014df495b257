"""Sets and restores the library's switches of `pinned-1`, and lists them as flags of the environment."""

import contextlib
from collections.abc import Iterator

import torch

from bytewise.inference.determinism import fixed
from bytewise.service.settings import library_variables

VARIABLES = ("ATEN_CPU_CAPABILITY", "CUBLAS_WORKSPACE_CONFIG", "MKL_CBWR", "NVIDIA_TF32_OVERRIDE", "ONEDNN_MAX_CPU_ISA")
"""Environment variables by which libraries choose kernels when they load. Operator and verifier must set them alike."""

SWITCHES = ("attention=eager", "cudnn-benchmark=off", "deterministic-algorithms", "no-autocast", "tf32=off")


@contextlib.contextmanager
def pinned_switches(threads: int) -> Iterator[None]:
    """Context manager that sets the switches under which the profile computes. It restores the previous state, also after an
    error."""
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
    """Returns the names of the fixed switches, then the thread count and the libraries' variables of this process as
    `name=value`."""
    found = library_variables(VARIABLES)
    return [*SWITCHES, f"threads={threads}", *(f"{name}={found.get(name, 'unset')}" for name in VARIABLES)]
