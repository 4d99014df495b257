"""Determinism soak: many runs of each prompt, which must all give one hash: `make soak-determinism`.

Prompts of five families of models are run again and again under other paths, kernels, backends, threads, chunks, neighbours,
cached prefixes, and in processes whose libraries are told that the processor lacks instructions. Each prompt must give one hash.
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
"""What is set in the environment of each process; the runs are dealt out to them in turn."""


class Tally:
    """Hashes of each prompt, and how often each setting was drawn."""

    def __init__(self) -> None:
        self.runs = 0
        self.hashes: dict[int, set[str]] = {}
        self.drawn: dict[str, Counter[str]] = {}

    def add(self, process: int, run: dict[str, Any]) -> None:
        """One more run."""
        self.runs += 1
        self.hashes.setdefault(run.pop("prompt"), set()).add(run.pop("hash"))
        run["way"] = f"{run.pop('path')} {run['way']}"
        for name, value in ({"process": process} | run).items():
            self.drawn.setdefault(name, Counter())[str(value)] += 1

    def report(self) -> dict[str, Any]:
        """What is written."""
        several = sorted(prompt for prompt, hashes in self.hashes.items() if len(hashes) > 1)
        drawn = {name: dict(sorted(counts.items())) for name, counts in self.drawn.items()}
        return {"runs": self.runs, "prompts": len(self.hashes), "prompts_with_several_hashes": several, "runs_by": drawn}


def main() -> int:
    """Exit code 0 if every prompt gave one hash, 1 if one did not or a process failed."""
    parser = argparse.ArgumentParser(prog="make soak-determinism", description=__doc__.split("\n\n")[1])
    parser.add_argument("--runs", type=int, default=10_000, help=f"how many; each of {PROMPTS} prompts gets its share (10000)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the figures are written (%(default)s)")
    options = parser.parse_args()
    started, tally, shown = time.monotonic(), Tally(), 0.0
    # Interrupted, it writes what there is, and says by its exit code that this is not all.
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
    """What the processes say, process by process in turn; ends early where one fails, whose error is printed."""
    with tempfile.TemporaryFile("w+") as errors:
        children = [
            subprocess.Popen(
                [sys.executable, "-m", "bench.soak_worker", str(i), str(count), str(len(PROCESSES))],
                env=os.environ | variables, stdout=subprocess.PIPE, stderr=errors, text=True,
            )
            for i, variables in enumerate(PROCESSES)
        ]  # fmt: skip
        try:
            # A process that is ahead waits in its pipe for its turn.
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
