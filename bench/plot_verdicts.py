"""Draws the plot of `bench/verdict_rules.py`: `python -m bench.plot_verdicts RESULTS.json OUT.png`, in the environment of
`bench/peers.txt`."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # after the choice of the backend

COLOURS = {7: "#66a5ad", 15: "#0b7285", 31: "#1f2933", 63: "#e8590c", 127: "#f4a261"}
LEAST = 1e-12
"""Smallest chance that is drawn. Smaller chances do not matter in practice."""


def draw(results: dict[str, Any], out: Path) -> None:
    """Draws three panels over the hostile stake. They show the chance that an honest operator is slashed, the same chance if the
    hostile party can choose among seeds, and the chance of no verdict."""
    pyplot.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, (slashed, ground, void) = pyplot.subplots(1, 3, figsize=(14, 5), layout="constrained", sharex=True)
    _compare(slashed, results, "honest_slashed", 1)
    slashed.set_title("an honest operator is slashed (marks: simulated)")
    _compare(ground, results, "honest_slashed", 32)
    ground.set_title("the same, best of 32 seeds in each round")
    for tries, style in ((1, "-"), (32, "--")):
        _lines(void, results, "symmetric", "void", tries, style, "ours")
    void.set_title("two rounds and no verdict, ours (dashed: 32 seeds)")
    for axes in (slashed, ground, void):
        axes.set_yscale("log")
        axes.set_ylim(LEAST, 2)
        axes.set_xlabel("hostile share of the stake")
        axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        axes.grid(alpha=0.2)
    slashed.set_ylabel("chance per dispute")
    figure.legend(*ground.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(out, dpi=110)


def _compare(axes: Any, results: dict[str, Any], what: str, tries: int) -> None:
    _lines(axes, results, "paper", what, tries, "--", "paper")
    _lines(axes, results, "symmetric", what, tries, "-", "ours")
    for rule, mark in (("paper", "x"), ("symmetric", "o")):
        found = [point for point in results["simulated"] if point["tries"] == tries and not point["absent"] and point[rule][what]]
        for point in found:
            axes.plot(point["hostile"], point[rule][what], mark, color=COLOURS[point["seats"]], markersize=4)


def _lines(axes: Any, results: dict[str, Any], rule: str, what: str, tries: int, style: str, label: str) -> None:
    for seats, colour in COLOURS.items():
        rows = [row for row in results["exact"] if (row["seats"], row["absent"], row["tries"]) == (seats, 0, tries)]
        points = [(row["hostile"], row[rule][what]) for row in rows]
        axes.plot(*zip(*points, strict=True), style, color=colour, label=f"{seats} seats, {label}")


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
