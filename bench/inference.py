"""Measures the speed of exact inference and of its peers in one run: `make bench-inference` writes
`bench/results/inference-*.json`.

Every engine is a process of its own with the same weights, the same token ids and the same number of threads. The engines take
turns, and a ratio is the median of the ratios of all rounds. Nothing else should run on the machine, because busy cores make
every figure noise.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import engines, machine, perplexity, summary, workload
from bench.child import Child
from bench.engines import LLAMACPP, NATIVE
from bench.models import LARGE, SMALL, Shape
from bench.table import growth, table
from bench.worker import CLOCK
from bench.workload import PROMPT, Effort, Progress

RESULTS = Path("bench/results")
QUICK_RESULTS = engines.ROOT / "quick.json"


def main() -> None:
    """Measures both models, writes the results and the plot, and prints keys and targets."""
    parser = argparse.ArgumentParser(prog="bench.inference", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"small counts, to try a change; written to {QUICK_RESULTS}")
    parser.add_argument("--threads", type=int, default=2, help="threads of each engine (default 2)")
    shared = "for a machine that does other things too: one thread each, its processor time, and no tables"
    parser.add_argument("--shared", action="store_true", help=shared)
    options = parser.parse_args()
    if options.shared:
        os.environ[CLOCK], options.threads = "processor", 1
    effort = workload.QUICK if options.quick else workload.SHARED if options.shared else workload.FULL
    results = run(effort, options.threads, _progress())
    out = QUICK_RESULTS if options.quick else results_of(machine.instruction_set(results["machine"]["instructions"]))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")
    subprocess.run([engines.PEER_PYTHON, "-m", "bench.plot", out, out.with_suffix(".png")], check=True)
    _show(results)
    Console().print(f"written: {out}, {out.with_suffix('.png')}")


def results_of(instruction_set: str) -> Path:
    """Returns the file with the figures of one instruction set. A run replaces the figures of its own set only."""
    return RESULTS / f"inference-{instruction_set}.json"


def run(effort: Effort, threads: int, progress: Progress) -> dict[str, Any]:
    """Measures everything that is published and returns it as one object."""
    described = machine.describe() | {"threads": threads, "clock": os.environ.get(CLOCK, "wall")}
    losses = _losses(progress)
    found = {shape.name: _model(shape, effort, threads, progress) for shape in (SMALL, LARGE)}
    keys = summary.worst({name: model["keys"] for name, model in found.items()})
    keys |= {name: losses[name] for name in ("ppl_delta_w8", "ppl_delta_w16")}
    return {
        **keys, "targets": summary.targets(keys), "explained": summary.EXPLAINED, "machine": described,
        "effort": dataclasses.asdict(effort) | {"prompt": PROMPT}, "models": found,
    }  # fmt: skip


def _losses(progress: Progress) -> dict[str, Any]:
    # Perplexity does not depend on speed and is always the same, so results of `make bench-perplexity` are used if they exist.
    if perplexity.RESULTS.exists():
        found: dict[str, Any] = json.loads(perplexity.RESULTS.read_text())
        return found
    progress("perplexity")
    return perplexity.measure()


def _model(shape: Shape, effort: Effort, threads: int, progress: Progress) -> dict[str, Any]:
    def tell(text: str) -> None:
        progress(f"{shape.name}: {text}")

    with ExitStack() as stack:
        commands = engines.commands(shape, threads, effort.context, tell)
        roof = machine.roof(threads)
        children = {}
        for name, command in commands.items():
            tell(f"{name}: loading")
            children[name] = stack.enter_context(Child(name, command))
        cosines = workload.alike(shape, children)
        measured = workload.measure(shape, children, effort, engines.artifact(shape), tell)
        ours, peer = children[NATIVE], children[LLAMACPP]
        return {
            "keys": summary.ratios(measured),
            "tokens_per_second": summary.speeds(measured, effort.answer, PROMPT + effort.long - 1),
            "batch_gain": summary.gains(measured, effort.batches),
            "memory": summary.memory(measured),
            "engines": {name: child.engine for name, child in children.items()},
            "cosine_of_logits": cosines,
            "shape": dataclasses.asdict(shape) | {"parameters": shape.parameters},
            "roof": roof,
            "table": table(shape, ours, effort, roof, tell),
            "growth": growth(shape, ours, peer, effort, tell) if shape is SMALL else [],
            "seconds": summary.samples(measured),
        }


def _progress() -> Progress:
    start, console = time.monotonic(), Console(stderr=True)
    return lambda text: console.print(f"[{time.monotonic() - start:6.1f} s] {text}", markup=False, highlight=False)


def _show(results: dict[str, Any]) -> None:
    table = Table(title="ratios, the worse of both models; larger than 1 is ahead")
    for heading in ("key", *results["models"], "worst", "target", "met"):
        table.add_column(heading, justify="left" if heading == "key" else "right")
    for key in next(iter(results["models"].values()))["keys"]:
        aim = results["targets"].get(key, {})
        bound = f"≥ {aim['at_least']}" if "at_least" in aim else f"≤ {aim['at_most']}" if aim else ""
        values = [f"{model['keys'][key]:.2f}" for model in results["models"].values()]
        table.add_row(key, *values, f"{results[key]:.2f}", bound, {True: "yes", False: "NO", None: ""}[aim.get("met")])
    Console().print(table)


if __name__ == "__main__":
    main()
