"""Tests the contracts for hours: `make soak-contracts` writes `bench/results/contracts_soak.json`.

First a campaign makes at least a million random calls of all actors. The rules are checked after each call, and each run ends
when every wei is paid out. The campaign runs in slices, each with its own seed, and writes its figures after each slice. Then
each planted fault of `chain/contracts/tools/faults.toml` gets a campaign, which must fail by the check for this fault. Last,
random walks through disputes are compared with the Python model.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.machine import describe
from chain.client.artifacts import all_errors

CONTRACTS = Path("chain/contracts")
FORGE = "node_modules/@foundry-rs/forge-linux-amd64/bin/forge"
LOG = Path("cache-campaign/campaign.log")
RESULTS = Path("bench/results/contracts_soak.json")
MOVES = (
    *("stay", "open", "rearm", "give up", "draw in part", "draw the last", "commits close", "decide", "decide at last"),
    *("rerun", "escalate", "undecided", "appeal", "appeal ends", "refund", "finalize"),
)
"""Rows of the phase table, in the order in which `campaign/Table.sol` numbers them."""

VERDICTS = ("none", "upheld", "overturned", "invalid", "unavailable", "draw", "refunded")
COUNTERS = ("moves", "ends", "calls_by_name", "refusals")


def error_names() -> dict[str, str]:
    """Returns the names of all contracts' errors, by selector."""
    names = {"0x00000000": "(no reason)", "0x08c379a0": "Error", "0x4e487b71": "Panic"}
    return names | {f"0x{selector.hex()}": entry["name"] for selector, entry in all_errors().items()}


def counted(text: str) -> Counter[str]:
    """Reads counts from text like `name=count,name=count`."""
    return Counter({name: int(count) for name, count in (field.split("=") for field in text.split(",") if field)})


def summed(lines: list[str], names: Mapping[str, str]) -> dict[str, Counter[str]]:
    """Returns sums over all runs: rows of the table, ends of disputes, calls that succeeded, refusals by name."""
    sums = {what: Counter[str]() for what in COUNTERS}
    for line in lines:
        moves, ends, calls, refusals = line.strip().split(";")
        sums["moves"].update(dict(zip(MOVES, map(int, moves.split(",")), strict=True)))
        sums["ends"].update(dict(zip(VERDICTS, map(int, ends.split(",")), strict=True)))
        sums["calls_by_name"].update(counted(calls))
        for why, count in counted(refusals).items():
            sums["refusals"][names.get(why, why)] += count
    return sums


def run_slice(runs: int, depth: int, seed: int) -> tuple[list[str], str]:
    """Runs one campaign of forge. Returns a line for each run, and the end of forge's output if a rule broke, otherwise empty
    text."""
    log = CONTRACTS / LOG
    log.parent.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    environment = os.environ | {
        "FOUNDRY_PROFILE": "campaign",
        "FOUNDRY_INVARIANT_RUNS": str(runs),
        "FOUNDRY_INVARIANT_DEPTH": str(depth),
        "FOUNDRY_FUZZ_SEED": str(seed),
        "CAMPAIGN_LOG": str(LOG),
    }
    command = [FORGE, "test", "--match-path", "campaign/Invariants.t.sol"]
    done = subprocess.run(command, cwd=CONTRACTS, env=environment, capture_output=True, text=True, check=False)
    # Forge repeats its last run. The line of the repetition does not count.
    lines = log.read_text().splitlines()[:runs] if log.exists() else []
    return lines, "" if done.returncode == 0 else done.stdout[-2000:] + done.stderr[-500:]


def campaign(options: argparse.Namespace, result: dict[str, Any]) -> None:
    """Runs slices until enough calls were made or a rule broke. Writes `result` after each slice."""
    names, start, seed = error_names(), time.monotonic(), options.seed
    sums = {what: Counter[str]() for what in COUNTERS}
    done: dict[str, Any] = {"runs": 0, "depth": options.depth, "calls": 0, "passed": True, "first_seed": options.seed}
    while done["passed"] and done["calls"] < options.calls:
        runs = min(options.slice, -(-(options.calls - done["calls"]) // options.depth))
        lines, failure = run_slice(runs, options.depth, seed)
        for what, more in summed(lines, names).items():
            sums[what].update(more)
        seed += 1
        done |= {"runs": done["runs"] + len(lines), "calls": done["calls"] + len(lines) * options.depth}
        done |= {"passed": not failure, "seconds": round(time.monotonic() - start), "failure": failure}
        result["campaign"] = done | {what: dict(sums[what].most_common()) for what in COUNTERS}
        options.out.write_text(json.dumps(result, indent=1) + "\n")
        print(f"{done['calls']:,} of {options.calls:,} calls, {done['seconds']} s", flush=True)


def faults() -> list[dict[str, Any]]:
    """Tries each planted fault. Returns for each fault which check found it."""
    found = Path("build/mutants.json")
    found.parent.mkdir(exist_ok=True)
    found.unlink(missing_ok=True)
    subprocess.run([sys.executable, CONTRACTS / "tools" / "mutants.py", "--out", found], check=False)
    return list(json.loads(found.read_text()))


def untried(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the names of planted faults that are not in `found`. The tool ends early if it cannot tell which fault it tried."""
    planted = tomllib.loads((CONTRACTS / "tools" / "faults.toml").read_text())["fault"]
    return [fault["name"] for fault in planted if fault["name"] not in {each["fault"] for each in found}]


def walks(number: int) -> dict[str, Any]:
    """Runs random walks through disputes on a chain. After every step the chain must equal the model of the court."""
    start = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "tests/unit/chain/test_court_walk.py", f"--court-walks={number}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = done.stdout.strip().splitlines()[-1:]
    return {"walks": number, "passed": done.returncode == 0, "said": last, "seconds": round(time.monotonic() - start)}


def failures(result: Mapping[str, Any]) -> list[str]:
    """Returns one line for each failure: a broken rule, rows of the phase table that never occurred, faults not found or not
    tried, and walks that differed from the model."""
    campaign_, found = result.get("campaign", {}), result.get("faults", [])
    wrong = [] if campaign_.get("passed", True) else ["a rule broke"]
    wrong += [f"never met: {name}" for name in MOVES if campaign_ and not campaign_["moves"].get(name)]
    wrong += [f"survived: {fault['fault']}" for fault in found if not fault["found"] and not fault["by"]]
    wrong += [f"found by another check: {fault['fault']}: {fault['by']}" for fault in found if not fault["found"] and fault["by"]]
    wrong += [f"not tried: {name}" for name in result.get("untried", [])]
    return wrong + ([] if result.get("walks", {}).get("passed", True) else ["a walk differed from the model"])


def main() -> int:
    """Runs campaign, faults and walks, and writes their results. Returns 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="make soak-contracts", description=__doc__.split("\n\n")[0])
    parser.add_argument("--calls", type=int, default=1_000_000, help="calls of the campaign, 0 for none (default %(default)s)")
    parser.add_argument("--depth", type=int, default=250, help="calls of a run (default %(default)s)")
    parser.add_argument("--slice", type=int, default=100, help="runs with one seed (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first slice (default %(default)s)")
    parser.add_argument("--walks", type=int, default=40, help="walks beside the model, 0 for none (default %(default)s)")
    parser.add_argument("--no-faults", action="store_true", help="leave the planted faults out")
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="where the figures are written; parts left out stay (%(default)s)"
    )
    options = parser.parse_args()
    result: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    result["machine"] = describe()
    if options.calls:
        campaign(options, result)
    if not options.no_faults:
        result.pop("faults_note", None)
        result["faults"] = faults()
        result["untried"] = untried(result["faults"])
    if options.walks:
        result["walks"] = walks(options.walks)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    for line in failures(result):
        print(line, file=sys.stderr)
    return 1 if failures(result) else 0


if __name__ == "__main__":
    sys.exit(main())
