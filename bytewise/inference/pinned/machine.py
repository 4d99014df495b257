"""What a machine is, as far as float results depend on it: processor or GPU, driver, modes. Read, never guessed."""

import csv
import io
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.errors import CannotExecute
from bytewise.protocol.records.statements import CannotReason

CPU_INFO = Path("/proc/cpuinfo")
NVIDIA_SMI = "nvidia-smi"
NVIDIA_FIELDS = ("name", "compute_cap", "driver_version", "persistence_mode", "ecc.mode.current", "vbios_version")
NVIDIA_TIMEOUT_S = 20.0
NUMERIC_ISA = ("sse", "ssse", "avx", "fma", "f16c", "amx", "asimd", "sve", "bf16", "i8mm")
"""Instruction sets that float kernels are chosen by begin with one of these."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One device for computing."""

    arch: str
    """Architecture: `sm_90` of a GPU, `cpu-VENDOR-FAMILY-MODEL` of an x86-64 processor."""
    driver: str
    """Driver version of a GPU; `none` for a processor."""
    facts: tuple[str, ...]
    """`name=value`, ascending."""


def read_cpu(cpu_info: Path = CPU_INFO) -> Machine:
    """The processor, as the kernel tells it (proc(5)); `CannotExecute` with the reason ENVIRONMENT if it does not."""
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
    """One GPU, as the driver's own tool tells it; `CannotExecute` with the reason ENVIRONMENT if there is none."""
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
