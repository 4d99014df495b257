"""Compares who is harmed under two verdict rules, by hostile stake and committee size: `make bench-verdicts`.

The paper's rule slashes whenever the seats that confirm the receipt stay below the quorum. Our rule asks a larger committee
unless a quorum agrees on one finding. The figures are binomial tails in exact fractions. The results file also has the figures of
a simulation with the network's own draw and tally. `docs/evidence/verdict-rules.md` explains the figures.
"""

import argparse
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

from bench.verdict_chances import TAU, Setting, row
from bench.verdict_simulation import simulations

RESULTS = Path("bench/results/verdict_rules.json")
PLOTTER = Path("build/bench-venv/bin/python")
SEATS = (7, 15, 31, 63, 127)
HOSTILE = tuple(Fraction(percent, 100) for percent in (5, 10, 15, 20, 25, 30, 33, 35, 40))
ABSENT = (Fraction(0), Fraction(1, 10))
TRIES = tuple(2**slots for slots in (0, 3, 5, 8, 10))
"""Numbers of seeds among which an attacker may choose. It owns the last 0, 3, 5, 8 or 10 slots before the block of the seed."""


def figures() -> list[dict[str, Any]]:
    """Returns every setting with the chances under both rules."""
    return [
        row(Setting(seats, hostile, absent, tries))
        for absent in ABSENT for tries in TRIES for seats in SEATS for hostile in HOSTILE
    ]  # fmt: skip


def table(rows: list[dict[str, Any]], seats: int = 31) -> str:
    """Returns a Markdown table for `docs/evidence/verdict-rules.md`: one committee size, nobody absent, each hostile share with 1
    and with 32 seeds."""
    lines = [
        "| hostile stake | seeds to choose from | honest operator slashed, paper | ours | fraud passes, paper | ours |"
        " no verdict, ours | rounds, ours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for found in rows:
        if found["seats"] == seats and not found["absent"] and found["tries"] in (1, 32):
            old, new = found["paper"], found["symmetric"]
            chances = (old["honest_slashed"], new["honest_slashed"], old["fraud_passes"], new["fraud_passes"], new["void"])
            cells = [
                f"{found['hostile']:.0%}",
                str(found["tries"]),
                *(f"{chance:.2g}" for chance in chances),
                f"{new['rounds']:.2f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Computes, simulates, writes the results and the plot, and prints the table."""
    parser = argparse.ArgumentParser(prog="make bench-verdicts", description=__doc__.split("\n\n")[0])
    parser.add_argument("--trials", type=int, default=400, help="simulated disputes of a setting (default %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the figures are written (%(default)s)")
    options = parser.parse_args()
    rows = figures()
    simulated = simulations(options.trials, lambda text: print(text, file=sys.stderr, flush=True))
    lines = {name: ",\n  ".join(map(json.dumps, part)) for name, part in (("exact", rows), ("simulated", simulated))}
    head = f'"tau": "{TAU[0]}/{TAU[1]}", "second_round_seats": "2 * seats + 1"'
    body = ", ".join(f'\n "{name}": [\n  {part}\n ]' for name, part in lines.items())
    options.out.write_text(f"{{{head},{body}\n}}\n")
    subprocess.run([PLOTTER, "-m", "bench.plot_verdicts", options.out, options.out.with_suffix(".png")], check=True)
    print(table(rows))


if __name__ == "__main__":
    main()
