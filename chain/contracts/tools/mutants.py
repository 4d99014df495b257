"""Planted faults that the campaign must find: `python chain/contracts/tools/mutants.py [--only NAME] [--runs N] [--depth N]`.

Each fault replaces one place of one contract in a copy of `chain/contracts`. The campaign of the faulty copy must fail by the
check that exists for this fault. A fault that survives shows a rule without a check. A fault that another check finds shows
nothing about its own check. A fault that its check did not find gets two more campaigns of other calls, with 4 and 16 times
as many runs. The program prints a line for each fault and ends with 1 if one was not found by its check.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planting import Compiled, Planting, unfinished

TIMES_AS_MANY_RUNS = (1, 4, 16)
"""Factor of the number of runs for each campaign of one fault. The next one runs only if the fault's own check has not found
it."""

CONTRACTS = Path(__file__).resolve().parent.parent
FORGE = "node_modules/@foundry-rs/forge-linux-amd64/bin/forge"


@dataclass(frozen=True)
class PlantedFault:
    """A fault: `new` replaces `old`, which must occur exactly once in `file`.

    `rules` are the invariants and table rows that the fault breaks. `expect` is the beginning of the reason that forge prints
    when the check that must find the fault fails. The move is left out of `expect` if the check may fail after any move. A fault
    that is rarely found gets `longer` times as many runs.
    """

    name: str
    rules: list[str]
    expect: str
    file: str
    old: str
    new: str
    longer: int = 1


def faults() -> list[PlantedFault]:
    """Reads all faults of `faults.toml`."""
    return [PlantedFault(**entry) for entry in tomllib.loads((CONTRACTS / "tools" / "faults.toml").read_text())["fault"]]


def copied(root: Path) -> None:
    """Makes a copy of sources and campaign. Compiled files are kept, so that only changed files are compiled again.

    Compiled files of a run that was stopped while a fault was planted are not kept.
    """
    if unfinished(root).exists():
        for folder in Compiled.FOLDERS:
            shutil.rmtree(root / folder, ignore_errors=True)
        unfinished(root).unlink()
    for part in ("campaign", "src", "test"):
        shutil.rmtree(root / part, ignore_errors=True)
        shutil.copytree(CONTRACTS / part, root / part, ignore=shutil.ignore_patterns("*.t.sol") if part == "test" else None)
    shutil.copy(CONTRACTS / "foundry.toml", root)
    for link in ("node_modules", "tools"):
        if not (root / link).exists():
            (root / link).symlink_to((CONTRACTS / link).resolve())


def campaign(root: Path, runs: int, depth: int, seed: int = 1) -> str:
    """Runs the campaign, and returns the reason why it failed, or "" if it passed. The same seed gives the same calls."""
    environment = os.environ | {
        "FOUNDRY_PROFILE": "campaign",
        "FOUNDRY_INVARIANT_RUNS": str(runs),
        "FOUNDRY_INVARIANT_DEPTH": str(depth),
        "FOUNDRY_INVARIANT_SHRINK_RUN_LIMIT": "0",
        "FOUNDRY_FUZZ_SEED": str(seed),
    }
    shutil.rmtree(root / "cache-campaign" / "invariant", ignore_errors=True)
    done = subprocess.run(
        [FORGE, "test", "--match-path", "campaign/Invariants.t.sol"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
    )
    found = re.search(r"\[FAIL: (.*)\]", done.stdout)
    if found:
        return found.group(1)
    if done.returncode:
        raise SystemExit(f"the campaign did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return ""


def faulty(text: str, fault: PlantedFault) -> str:
    """Returns the text of the fault's file with this one fault."""
    if text.count(fault.old) != 1:
        raise SystemExit(f"{fault.name}: {fault.file} has the line {text.count(fault.old)} times: {fault.old}")
    return text.replace(fault.old, fault.new)


def seen_by(expect: str, reason: str) -> bool:
    """Returns whether the campaign failed by the check that must find the fault."""
    return reason.startswith(expect) or re.sub(r"^(Guard|When)\(\d+, ", r"\1(", reason).startswith(expect)


def line(result: dict[str, Any]) -> str:
    """Returns the result for one fault as a line of text."""
    if result["found"]:
        return f"found     {result['fault']}: {result['by']}"
    if not result["by"]:
        return f"SURVIVED  {result['fault']}"
    return f"ELSEWHERE {result['fault']}: found by another check: {result['by']}, and not by {result['expect']}"


def tried(planting: Planting, fault: PlantedFault, runs: int, depth: int) -> dict[str, Any]:
    """Plants one fault, runs campaigns until its check finds it or none is left, and removes the fault."""
    text = faulty((planting.root / fault.file).read_text(), fault)
    start, reason, most = time.monotonic(), "", 0
    with planting.planted(fault.file, text):
        for seed, times in enumerate(TIMES_AS_MANY_RUNS, 1):
            most = runs * fault.longer * times
            reason = campaign(planting.root, most, depth, seed) or reason
            if seen_by(fault.expect, reason):
                break
    return {
        "fault": fault.name,
        "rules": fault.rules,
        "file": fault.file,
        "expect": fault.expect,
        "found": seen_by(fault.expect, reason),
        "by": reason,
        "runs": most,
        "seconds": round(time.monotonic() - start),
    }


def main() -> None:
    """Tries every fault, prints a line for each, and writes all results."""
    parser = argparse.ArgumentParser(prog="mutants.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", action="append", help="name of a fault, several times if need be (default: all)")
    parser.add_argument("--runs", type=int, default=10, help="runs of a campaign (default %(default)s)")
    parser.add_argument("--depth", type=int, default=250, help="calls of a run (default %(default)s)")
    parser.add_argument("--root", type=Path, default=Path("build/mutants"), help="where the copy lies (%(default)s)")
    parser.add_argument("--out", type=Path, help="where the results are written as JSON")
    options = parser.parse_args()
    options.root.mkdir(parents=True, exist_ok=True)
    copied(options.root)
    broken = campaign(options.root, options.runs, options.depth)
    if broken:
        raise SystemExit(f"the campaign fails without a fault: {broken}")
    results = []
    with Planting(options.root) as planting:
        for fault in faults():
            if options.only and fault.name not in options.only:
                continue
            results.append(tried(planting, fault, options.runs, options.depth))
            print(line(results[-1]), flush=True)
            if options.out:
                options.out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(not all(result["found"] for result in results))


if __name__ == "__main__":
    main()
