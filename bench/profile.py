"""Measures the time of the C engine by function: `make bench-profile` writes `bench/results/profile.json`. Needs Linux `perf`.

It samples the whole process while the process only generates, or only verifies. Functions of the C engine get a line each, every
other library gets one line. The result explains a speed that `make bench-inference` measured, and is no speed itself.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import engines, machine, workload
from bench.models import LARGE, SMALL, Shape
from bench.ours import Ours
from bench.workload import PROMPT

RESULTS = Path("bench/results/profile.json")
ENGINE = "_engine."
"""Beginning of the file name of the compiled engine. Only functions of this file get a line each."""

ANSWER, FREQUENCY, SHOWN = 256, 997, 8

Shares = dict[str, float]
"""Share of samples by function or library, the largest first."""


def main() -> int:
    """Profiles generation and verification of both models, writes and prints the shares. Returns 1 without `perf`."""
    parser = argparse.ArgumentParser(prog="bench.profile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each work is sampled (default 8)")
    parser.add_argument("--threads", type=int, default=2, help="threads of the engine (default 2)")
    options = parser.parse_args()
    if shutil.which("perf") is None:
        print("perf is not installed: it comes with the kernel's tools (Debian: linux-perf)", file=sys.stderr)
        return 1
    found = {shape.name: _model(shape, options.threads, options.seconds) for shape in (SMALL, LARGE)}
    RESULTS.write_text(
        json.dumps({"machine": machine.describe() | {"threads": options.threads}, "shares": found}, indent=1) + "\n"
    )
    _show(found)
    return 0


def shares(report: str) -> Shares:
    """Reads the output of `perf report --sort dso,symbol` as comma-separated values. Returns the shares of the engine's
    functions, and of other libraries as a whole."""
    samples: Counter[str] = Counter()
    for line in report.splitlines():
        percent, library, symbol, *_ = [field.strip() for field in line.split(",")] + ["", ""]
        if not percent.endswith("%"):
            continue
        name = (
            symbol.removeprefix("[.]").strip()
            if library.startswith(ENGINE)
            else library.split(".so")[0].strip("[]").removesuffix(".kallsyms")
        )
        samples[name] += float(percent.removesuffix("%"))  # type: ignore[assignment]
    return {name: round(share / 100, 4) for name, share in samples.most_common()}


def _model(shape: Shape, threads: int, seconds: float) -> dict[str, Shares]:
    ours, tokens = Ours(engines.artifact(shape), "native", threads), workload.prompt(shape, PROMPT)
    claim = [(tokens, ANSWER)]
    ours.prepare(claim)
    return {
        "decoding": _sampled(lambda: ours.generate(tokens, ANSWER), seconds),
        "one pass": _sampled(lambda: ours.judge(claim, False), seconds),
    }


def _sampled(work: Callable[[], object], seconds: float) -> Shares:
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "perf.data")
        recording = ["perf", "record", "-q", "-o", data, "-F", str(FREQUENCY), "-p", str(os.getpid())]
        process = subprocess.Popen(recording, stderr=subprocess.DEVNULL)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            work()
        process.send_signal(signal.SIGINT)
        process.wait(60)
        reporting = ["perf", "report", "-i", data, "--stdio", "--sort", "dso,symbol", "-g", "none", "-t", ","]
        return shares(subprocess.run(reporting, check=True, capture_output=True, text=True).stdout)


def _show(found: dict[str, dict[str, Shares]]) -> None:
    table = Table(title="share of samples")
    for heading in ("model", "work", "function", "share"):
        table.add_column(heading, justify="right" if heading == "share" else "left")
    for model, works in found.items():
        for work, measured in works.items():
            for name, share in list(measured.items())[:SHOWN]:
                table.add_row(model, work, name, f"{share:.1%}")
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
