"""Measures the gas of the contracts. `make bench-chain` writes `bench/results/gas.json` and a plot of draws.

Every figure is the gas that a transaction's receipt would show (`chain/contracts/test/gas/`). It includes the 21,000 gas of a
transaction and the calldata, and it assumes cold storage. The figures depend only on the code, so `--check` compares them without
tolerance.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from bench import gas_page

CONTRACTS = Path("chain/contracts")
FORGE = "node_modules/@foundry-rs/forge-linux-amd64/bin/forge"
RESULTS = Path("bench/results/gas.json")
PLOTTER = Path("build/bench-venv/bin/python")

TARGETS = {
    "dispute_certificate_31": 1_950_000,
    "dispute_direct_31": 5_200_000,
    "dispute_relayed_31": 4_100_000,
    "anchor": 52_000,
    "open": 300_000,
    "draw_31_of_1000": 430_000,
    "draw_31_of_3162": 540_000,
    "commit": 54_000,
    "commit_relayed": 32_000,
    "reveal": 52_000,
    "certificate_31": 205_000,
    "withdraw": 42_000,
    "member_of_188": 62_000,
    "equivocation": 60_000,
    "deposit": 45_000,
    "eigenlayer_adapter": 15_000,
}
"""Targets in gas. Each target is a figure that a prototype reached. For disputes and `open` it was a prototype of all contracts,
for other figures a prototype of one part. `docs/reference/contracts.md` explains why some targets are missed."""

CAP = 16_777_216
"""Most gas of one transaction (EIP-7825)."""


def measured(output: str) -> dict[str, int]:
    """Returns the figures that forge printed, by name. If a name occurs several times, the largest figure counts."""
    found: dict[str, int] = {}
    for name, value in re.findall(r"^\s*([a-z][a-z0-9_]*): (\d+)\s*$", output, re.MULTILINE):
        found[name] = max(int(value), found.get(name, 0))
    return dict(sorted(found.items()))


def run() -> dict[str, int]:
    """Runs the gas tests and returns their figures. Raises `SystemExit` if they fail."""
    command = [FORGE, "test", "--match-path", "test/gas/*", "-vv"]
    done = subprocess.run(command, cwd=CONTRACTS, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"forge failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    return measured(done.stdout)


def differences(have: dict[str, int], want: dict[str, int]) -> list[str]:
    """Returns one line for each figure that is new, missing or changed."""
    names = sorted(have.keys() | want.keys())
    return [f"{name}: {want.get(name)} committed, {have.get(name)} now" for name in names if have.get(name) != want.get(name)]


def over(figures: dict[str, int]) -> list[str]:
    """Returns one line for each figure above its target."""
    return [f"{name}: {figures[name]}, target {most}" for name, most in TARGETS.items() if figures.get(name, 0) > most]


def main() -> int:
    """Measures and writes the figures. With `--check` it compares them with the committed figures instead, and returns 1 if any
    differs. A missed target is only printed."""
    parser = argparse.ArgumentParser(prog="make bench-chain", description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed figures, write nothing")
    options = parser.parse_args()
    figures = run()
    if options.check:
        wrong = differences(figures, json.loads(RESULTS.read_text())["gas"])
        page = gas_page.PAGE.read_text()
        if page != gas_page.placed(page, gas_page.rendered(figures, TARGETS)):
            wrong.append(f"{gas_page.PAGE}: not as `make bench-chain` writes it")
        print(*wrong or [f"gas: {len(figures)} figures as committed"], sep="\n")
        return 1 if wrong else 0
    RESULTS.write_text(json.dumps({"gas": figures, "targets": TARGETS}, indent=1) + "\n")
    gas_page.PAGE.write_text(gas_page.placed(gas_page.PAGE.read_text(), gas_page.rendered(figures, TARGETS)))
    if PLOTTER.exists():
        subprocess.run([PLOTTER, "-m", "bench.plot_chain", RESULTS, RESULTS.with_suffix(".png")], check=True)
    for name, gas in figures.items():
        print(f"{gas:>12,}  {name}")
    print(*(f"above its target: {line}" for line in over(figures)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
