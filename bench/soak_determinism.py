"""Runs each prompt many times under different settings and compares the hashes: `make soak-determinism`.

Prompts for five models run again and again with other paths, kernels, backends, threads, chunks, batch neighbours and cached
prefixes. Some runs are in processes whose libraries assume that the processor lacks newer instructions. Each prompt
must give one hash.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.machine import describe
from bench.soak_worker import PROMPTS

RESULTS = Path(__file__).parent / "results" / "soak-determinism.json"

PROCESSES: tuple[dict[str, str], ...] = (
    {},
    {
        "ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
    },
)  # fmt: skip
"""Environment variables of each process. The processes take the runs in turn."""


class Tally:
    """Hashes of each prompt, and how often each setting was drawn."""

    def __init__(self) -> None:
        self.runs = 0
        self.hashes: dict[int, set[str]] = {}
        self.drawn: dict[str, Counter[str]] = {}

    def add(self, process: int, run: dict[str, Any]) -> None:
        """Adds one run of a process."""
        self.runs += 1
        self.hashes.setdefault(run.pop("prompt"), set()).add(run.pop("hash"))
        run["way"] = f"{run.pop('path')} {run['way']}"
        for name, value in ({"process": process} | run).items():
            self.drawn.setdefault(name, Counter())[str(value)] += 1

    def report(self) -> dict[str, Any]:
        """Returns the figures that are written to the results file."""
        several = sorted(prompt for prompt, hashes in self.hashes.items() if len(hashes) > 1)
        drawn = {name: dict(sorted(counts.items())) for name, counts in self.drawn.items()}
        return {"runs": self.runs, "prompts": len(self.hashes), "prompts_with_several_hashes": several, "runs_by": drawn}


def main() -> int:
    """Runs the soak and writes the figures. Returns 0 if every prompt gave one hash, and 1 if one did not or if runs are
    missing."""
    parser = argparse.ArgumentParser(prog="make soak-determinism", description=__doc__.split("\n\n")[1])
    parser.add_argument("--runs", type=int, default=10_000, help=f"how many; each of {PROMPTS} prompts gets its share (10000)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the figures are written (%(default)s)")
    options = parser.parse_args()
    started, tally, shown = time.monotonic(), Tally(), 0.0
    # After an interruption it writes the runs so far, and its exit code says that runs are missing.
    with contextlib.suppress(KeyboardInterrupt):
        for process, run in runs(options.runs):
            tally.add(process, run)
            if time.monotonic() - shown > 2:
                shown = time.monotonic()
                print(f"{tally.runs} of {options.runs} runs", file=sys.stderr, flush=True)
    report = {"machine": describe(), "seconds": round(time.monotonic() - started), **tally.report()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({name: report[name] for name in ("runs", "prompts", "prompts_with_several_hashes", "seconds")}))
    return 0 if tally.runs == options.runs and not report["prompts_with_several_hashes"] else 1


def runs(count: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the runs that the processes report, process by process in turn. If a process fails, prints its error and ends
    early."""
    with tempfile.TemporaryFile("w+") as errors:
        children = [
            subprocess.Popen(
                [sys.executable, "-m", "bench.soak_worker", str(i), str(count), str(len(PROCESSES))],
                env=os.environ | variables, stdout=subprocess.PIPE, stderr=errors, text=True,
            )
            for i, variables in enumerate(PROCESSES)
        ]  # fmt: skip
        try:
            # A process that is ahead of the others waits, because its pipe is full.
            for run in range(count):
                line = (children[run % len(children)].stdout or sys.stdin).readline()
                if not line:
                    errors.seek(0)
                    print(errors.read()[-2000:], file=sys.stderr)
                    return
                yield run % len(children), json.loads(line)
        finally:
            for child in children:
                child.terminate()
                child.wait()


if __name__ == "__main__":
    sys.exit(main())
