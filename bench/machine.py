"""Describes the machine of a measurement, and measures how fast it reads memory and multiplies, which bounds every engine."""

import datetime
import os
import platform
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from bench.worker import clock

READ_BYTES = 512 * 2**20
"""Bytes that are read to measure the memory, more than any cache holds."""

SQUARE = 1536
"""Rows and columns of the matrices that are multiplied, large enough for the full rate."""

KINDS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")
"""Instruction sets that decide the speed of matrix products."""

SETS = {"amx": "amx_int8", "avx512-vnni": "avx512_vnni", "avx512": "avx512f", "avx2": "avx2"}
"""Name of each instruction set for which speeds are published, the fastest first, with the flag that shows the set."""


def instruction_set(instructions: Sequence[str]) -> str:
    """Returns the fastest set among the flags of `describe`, or `other`."""
    return next((name for name, flag in SETS.items() if flag in instructions), "other")


def describe() -> dict[str, Any]:
    """Returns processor, memory, versions, date and load. The result contains no name of the machine and no path."""
    processor = Path("/proc/cpuinfo").read_text()
    pairs = (line.partition(":") for line in processor.splitlines())
    fields = {name.strip(): value.strip() for name, _, value in pairs}
    flags = set(fields.get("flags", "").split())
    return {
        "processor": fields.get("model name", platform.machine()),
        "family_model": f"{fields.get('cpu family')}/{fields.get('model')}",
        "instructions": [kind for kind in KINDS if kind in flags],
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in ("torch", "transformers", "numpy")},
    }


def roof(threads: int) -> dict[str, float]:
    """Returns upper bounds: bytes read per second, and exact products of a 15-bit activation and an 8-bit weight per second.

    The first is measured by a sum over memory. The second is twice the rate of float32 products in the vendor's own library. The
    reason is that one AVX2 instruction multiplies twice as many 16-bit integers as floats. The AVX-512 VNNI instruction for bytes
    has the same advantage, because each activation needs two limbs.
    """
    torch.set_num_threads(threads)
    memory = torch.ones(READ_BYTES // 4)
    left, right = torch.rand(SQUARE, SQUARE), torch.rand(SQUARE, SQUARE)
    read = READ_BYTES / _best(memory.sum)
    return {"bytes_per_second": read, "multiplications_per_second": 2 * SQUARE**3 / _best(lambda: left @ right)}


def _best(work: Callable[[], object], times: int = 7) -> float:
    # Returns the seconds of the second fastest run. An upper bound is the speed of the idle machine, without other work.
    seconds, now = [], clock()
    for _ in range(times):
        start = now()
        work()
        seconds.append(now() - start)
    return sorted(seconds)[1]
