"""Environment of this machine: everything that must be equal for equal float results (design section 6, the paper's rule). The
module also sets the tensor library's switches, which are flags of the environment."""

import contextlib
import csv
import io
import platform
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from bytewise.inference.determinism import LIBRARIES, MAX_REQUEST_BYTES, fixed
from bytewise.inference.manifest import Architecture
from bytewise.protocol import digests
from bytewise.protocol.errors.actors import CannotExecute
from bytewise.protocol.records.environment import PROFILE_PINNED_1, Environment, Limits, Version
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.units import ZERO_DIGEST, Digest
from bytewise.service.settings import library_variables

# Switches of the library.

VARIABLES = ("ATEN_CPU_CAPABILITY", "CUBLAS_WORKSPACE_CONFIG", "MKL_CBWR", "NVIDIA_TF32_OVERRIDE", "ONEDNN_MAX_CPU_ISA")
"""Environment variables by which libraries choose kernels when they load. Operator and verifier must set the same values."""

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


# Properties of a machine on which float results depend: processor or GPU, driver, modes. They are read, never guessed.

CPU_INFO = Path("/proc/cpuinfo")
NVIDIA_SMI = "nvidia-smi"
NVIDIA_FIELDS = ("name", "compute_cap", "driver_version", "persistence_mode", "ecc.mode.current", "vbios_version")
NVIDIA_TIMEOUT_S = 20.0
NUMERIC_ISA = ("sse", "ssse", "avx", "fma", "f16c", "amx", "asimd", "sve", "bf16", "i8mm")
"""Prefixes of the names of instruction sets by which libraries choose float kernels."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One computing device: a processor or a GPU."""

    arch: str
    """Architecture: `sm_90` for a GPU, `cpu-VENDOR-FAMILY-MODEL` for an x86-64 processor."""
    driver: str
    """Driver version of a GPU; `none` for a processor."""
    facts: tuple[str, ...]
    """Properties of the device as `name=value`, ascending."""


def read_cpu(cpu_info: Path = CPU_INFO) -> Machine:
    """Reads the processor's type from the kernel's data (proc(5)). Raises `CannotExecute` (ENVIRONMENT) if the data is missing
    or incomplete."""
    try:
        text = cpu_info.read_text()
    except OSError as error:
        raise CannotExecute(f"processor unknown: {error.strerror}", CannotReason.ENVIRONMENT) from None
    block = dict(_pair(line) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    flags = block.get("flags", block.get("Features", "")).split()
    isa = sorted(flag for flag in flags if flag.startswith(NUMERIC_ISA))
    identity = [block.get(name, "") for name in ("vendor_id", "cpu family", "model")]
    if not all(identity):
        identity = [block.get(name, "") for name in ("CPU implementer", "CPU architecture", "CPU part")]
    if not all(identity) or not isa:
        raise CannotExecute("processor unknown: no identity or instruction sets", CannotReason.ENVIRONMENT)
    facts = (f"cpu={block.get('model name', 'unnamed')}", f"isa={','.join(isa)}")
    return Machine("cpu-" + "-".join(identity), "none", facts)


def read_gpu(index: int = 0, command: str = NVIDIA_SMI) -> Machine:
    """Reads the type of the GPU with this index from the driver's own tool. Raises `CannotExecute` (ENVIRONMENT) if there is no
    such GPU or the tool fails."""
    query = [command, f"--id={index}", f"--query-gpu={','.join(NVIDIA_FIELDS)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=NVIDIA_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotExecute(f"GPU unknown: {type(error).__name__} of {command}", CannotReason.ENVIRONMENT) from None
    rows = list(csv.reader(io.StringIO(done.stdout), skipinitialspace=True))
    if len(rows) != 1 or len(rows[0]) != len(NVIDIA_FIELDS) or not all(rows[0]):
        raise CannotExecute(f"GPU unknown: {command} says {done.stdout[:80]!r}", CannotReason.ENVIRONMENT)
    told = dict(zip(NVIDIA_FIELDS, (value.strip() for value in rows[0]), strict=True))
    facts = (
        f"ecc={told['ecc.mode.current']}", f"gpu={told['name']}", f"persistence-mode={told['persistence_mode']}",
        f"vbios={told['vbios_version']}",
    )  # fmt: skip
    return Machine("sm_" + told["compute_cap"].replace(".", ""), told["driver_version"], facts)


def _pair(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


COMPARED_FIELDS = ("profile", "gpu_arch", "driver", "libraries", "engine_flags")
"""Fields of an environment that a machine can determine about itself. The others are not compared: attestation measures the
container, and the operator chooses the limits."""


def fingerprint(
    shape: Architecture, *, device: str = "cpu", threads: int = 1, container: Digest = ZERO_DIGEST, max_new_tokens: int = 1024
) -> Environment:
    """Returns the environment of this machine and process, for registration. Raises `CannotExecute` (ENVIRONMENT) if a part of
    it cannot be determined."""
    found = _machine(device)
    limits = Limits(shape.max_context, min(max_new_tokens, shape.max_context), MAX_REQUEST_BYTES, shape.vocabulary)
    told = tuple(sorted([*found.facts, *flags(threads), f"torch-build={_build()}"]))
    return Environment(container, PROFILE_PINNED_1, found.arch, found.driver, _libraries(device), told, limits)


def verify_here(environment: Environment, shape: Architecture, device: str, threads: int) -> Environment:
    """Returns the environment if this machine and process match it. Otherwise raises `CannotExecute` (ENVIRONMENT), which names
    the first difference."""
    here = fingerprint(shape, device=device, threads=threads)
    for name in COMPARED_FIELDS:
        ours, theirs = getattr(here, name), getattr(environment, name)
        if ours != theirs:
            raise CannotExecute(f"another environment: {name} {_first_difference(theirs, ours)}", CannotReason.ENVIRONMENT)
    return environment


def _first_difference(theirs: object, ours: object) -> str:
    if not isinstance(theirs, tuple) or not isinstance(ours, tuple):
        return f"is {theirs}, here {ours}"
    only_theirs, only_ours = ([str(_words(each)) for each in a if each not in b] for a, b in ((theirs, ours), (ours, theirs)))
    return f"has {', '.join(only_theirs) or 'less'}, here {', '.join(only_ours) or 'less'}"[:300]


def _words(part: object) -> object:
    return f"{part.name} {part.version}" if isinstance(part, Version) else part


def _machine(device: str) -> Machine:
    if device == "cpu":
        return read_cpu()
    if device != "cuda" or not torch.cuda.is_available():
        raise CannotExecute(f"device {device[:40]} is not here", CannotReason.ENVIRONMENT)
    return read_gpu(torch.cuda.current_device())


def _libraries(device: str) -> tuple[Version, ...]:
    found = {name: version(name) for name in LIBRARIES} | {"python": platform.python_version()}
    found["libc"] = " ".join(platform.libc_ver()) or "unknown"
    if device == "cuda":
        cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
        found |= {"cuda": str(torch.version.cuda), "cudnn": str(cudnn)}
    return tuple(Version(name, found[name]) for name in sorted(found))


def _build() -> str:
    # Two builds of one version differ in compiler, BLAS and kernels.
    return digests.sha256(torch.__config__.show().encode()).hex()[:16]
