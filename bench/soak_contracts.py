"""The campaign over all contracts, and planted faults: `make soak-contracts`; writes its results to bench/results.

First at least a million calls of everybody's actions, all rules looked at after each, and every wei sent home at the end of every
run; then one campaign for each planted fault of `chain/contracts/tools/faults.toml`, which must fail. Hours on two cores.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

CONTRACTS = Path("chain/contracts")
FORGE = "node_modules/@foundry-rs/forge-linux-amd64/bin/forge"
LOG = Path("cache-campaign/campaign.log")
RESULTS = Path("bench/results/contracts_soak.json")
MOVES = (
    *("stay", "open", "join", "rearm", "give up", "draw in part", "draw the last", "commits close", "decide", "decide at last"),
    *("rerun", "escalate", "undecided", "appeal", "appeal ends", "refund", "finalize"),
)
"""Rows of the phase table, as `campaign/Table.sol` numbers them."""

VERDICTS = ("none", "upheld", "overturned", "invalid", "unavailable", "draw", "refunded")


def summed(lines: list[str]) -> dict[str, dict[str, int]]:
    """What all runs together did: rows of the table, ends of disputes, successful calls by name."""
    moves, ends, calls = Counter[str](), Counter[str](), Counter[str]()
    for line in lines:
        first, second, *rest = line.strip().split(";")
        moves.update(dict(zip(MOVES, map(int, first.split(",")), strict=True)))
        ends.update(dict(zip(VERDICTS, map(int, second.split(",")), strict=True)))
        calls.update({name: int(count) for name, count in (field.split("=") for field in rest)})
    return {"moves": dict(moves), "ends": dict(ends), "calls": dict(sorted(calls.items()))}


def campaign(runs: int, depth: int) -> dict[str, Any]:
    """Runs the campaign; its result, with the reason where it failed."""
    log = CONTRACTS / LOG
    log.parent.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    environment = os.environ | {
        "FOUNDRY_PROFILE": "campaign",
        "FOUNDRY_INVARIANT_RUNS": str(runs),
        "FOUNDRY_INVARIANT_DEPTH": str(depth),
        "CAMPAIGN_LOG": str(LOG),
    }
    start = time.monotonic()
    command = [FORGE, "test", "--match-path", "campaign/Invariants.t.sol"]
    done = subprocess.run(command, cwd=CONTRACTS, env=environment, capture_output=True, text=True)
    lines = log.read_text().splitlines() if log.exists() else []
    result = {"runs": runs, "depth": depth, "calls": runs * depth, "seconds": round(time.monotonic() - start)}
    return (
        result | {"passed": done.returncode == 0, "end_of_output": done.stdout[-2000:] if done.returncode else ""} | summed(lines)
    )


def main() -> int:
    """Campaign, then faults; writes both, 1 if a rule broke, a fault survived or a row of the table was never seen."""
    parser = argparse.ArgumentParser(prog="make soak-contracts", description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=6_700, help="runs of the campaign (default %(default)s)")
    parser.add_argument("--depth", type=int, default=150, help="calls of a run (default %(default)s)")
    parser.add_argument("--no-faults", action="store_true", help="leave the planted faults out")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the figures are written (%(default)s)")
    options = parser.parse_args()
    result: dict[str, Any] = {"campaign": campaign(options.runs, options.depth), "faults": []}
    unseen = [name for name in MOVES if not result["campaign"]["moves"].get(name)]
    survived = False
    if not options.no_faults:
        found = Path("build/mutants.json")
        found.parent.mkdir(exist_ok=True)
        command = [sys.executable, CONTRACTS / "tools" / "mutants.py", "--out", found]
        survived = subprocess.run(command, check=False).returncode != 0
        result["faults"] = json.loads(found.read_text())
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result["campaign"], indent=1))
    for name in unseen:
        print(f"never seen: {name}", file=sys.stderr)
    return 1 if unseen or survived or not result["campaign"]["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
