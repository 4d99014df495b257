"""Planted faults that the campaign must find: `python chain/contracts/tools/mutants.py [--only NAME] [--runs N] [--depth N]`.

Each fault is one replaced line of one contract in a copy of `chain/contracts`. The campaign of the faulty copy must fail: a fault
that survives is a rule that nothing checks. Prints a line for each fault and ends with 1 if one survived.
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

CONTRACTS = Path(__file__).resolve().parent.parent
FORGE = "node_modules/@foundry-rs/forge-linux-amd64/bin/forge"


@dataclass(frozen=True)
class Fault:
    """One replaced line: `old` must occur exactly once in `file`. `rules` are the invariants and rows that it breaks."""

    name: str
    rules: list[str]
    file: str
    old: str
    new: str


def faults() -> list[Fault]:
    """All of `faults.toml`."""
    return [Fault(**entry) for entry in tomllib.loads((CONTRACTS / "tools" / "faults.toml").read_text())["fault"]]


def copied(root: Path) -> None:
    """A copy of sources and campaign; compiled files stay, so that only what a fault touches is compiled again."""
    for part in ("campaign", "src", "test"):
        shutil.rmtree(root / part, ignore_errors=True)
        shutil.copytree(CONTRACTS / part, root / part, ignore=shutil.ignore_patterns("*.t.sol") if part == "test" else None)
    shutil.copy(CONTRACTS / "foundry.toml", root)
    for link in ("node_modules", "tools"):
        if not (root / link).exists():
            (root / link).symlink_to((CONTRACTS / link).resolve())


def campaign(root: Path, runs: int, depth: int) -> str:
    """The reason why the campaign failed, or "" if it passed."""
    environment = os.environ | {
        "FOUNDRY_PROFILE": "campaign",
        "FOUNDRY_INVARIANT_RUNS": str(runs),
        "FOUNDRY_INVARIANT_DEPTH": str(depth),
        "FOUNDRY_INVARIANT_SHRINK_RUN_LIMIT": "0",
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


def planted(root: Path, fault: Fault) -> None:
    """Writes the faulty line, and only that."""
    path = root / fault.file
    text = path.read_text()
    if text.count(fault.old) != 1:
        raise SystemExit(f"{fault.name}: {fault.file} has the line {text.count(fault.old)} times: {fault.old}")
    path.write_text(text.replace(fault.old, fault.new))


def tried(root: Path, fault: Fault, runs: int, depth: int) -> dict[str, Any]:
    """Plants one fault, runs the campaign, takes the fault out again."""
    original = (root / fault.file).read_text()
    planted(root, fault)
    start = time.monotonic()
    try:
        reason = campaign(root, runs, depth)
    finally:
        (root / fault.file).write_text(original)
    return {
        "fault": fault.name,
        "rules": fault.rules,
        "file": fault.file,
        "found": bool(reason),
        "by": reason,
        "seconds": round(time.monotonic() - start),
    }


def main() -> None:
    """Tries every fault, prints a line for each, writes them all."""
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
    for fault in faults():
        if options.only and fault.name not in options.only:
            continue
        results.append(tried(options.root, fault, options.runs, options.depth))
        print(f"{'found   ' if results[-1]['found'] else 'SURVIVED'}  {fault.name}: {results[-1]['by']}", flush=True)
        if options.out:
            options.out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(not all(result["found"] for result in results))


if __name__ == "__main__":
    main()
