"""Runs one fuzz target under atheris in its own process. libFuzzer ends the process, so the process writes its counts to a file.

Usage, by `bench.soak_fuzz`: python -m bench.fuzz_worker NAME COUNTS FOLDER [libFuzzer's options]
"""

import mmap
import struct
import sys
import time
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["bytewise.protocol", "bytewise.tee", "kms"]):
    from tests.fuzz.targets import TARGETS

COUNTS = struct.Struct("<QQQ")
"""Format of the counts: inputs so far, accepted inputs, and processor time of the slowest input in nanoseconds."""
LIMIT_NS = 10 * 10**9
"""Most processor time of one input, in nanoseconds. It is not wall time, so other programs on the machine cause no finding."""


def main() -> None:
    """Runs libFuzzer, which ends the process."""
    name, counts, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    one, corpus = TARGETS[name](folder / "world")
    seeds = folder / "corpus"
    seeds.mkdir()
    for number, seed in enumerate(corpus):
        (seeds / f"seed-{number}").write_bytes(seed)
    counts.write_bytes(bytes(COUNTS.size))
    with counts.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), COUNTS.size)
    total = [0, 0, 0]

    def look(data: bytes) -> None:
        started = time.process_time_ns()
        taken = one(data)
        spent = time.process_time_ns() - started
        total[:] = total[0] + 1, total[1] + taken, max(total[2], spent)
        COUNTS.pack_into(shared, 0, *total)
        if spent > LIMIT_NS:
            raise AssertionError(f"{spent} ns for one input")

    atheris.Setup([sys.argv[0], str(seeds), *sys.argv[4:]], look)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
