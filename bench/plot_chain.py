"""Draws the plot of `bench/chain.py`: `python -m bench.plot_chain RESULTS.json OUT.png`, in the environment of
`bench/peers.txt`."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # after the choice of the backend


def draw(results: dict[str, Any], out: Path) -> None:
    """Draws the gas of a draw of 31 seats by the size of the pool. The size is logarithmic, so a straight line is logarithmic
    growth."""
    points = sorted(
        (int(found[1]), gas) for name, gas in results["gas"].items() if (found := re.fullmatch(r"draw_31_of_(\d+)", name))
    )
    pyplot.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    axes.plot(*zip(*points, strict=True), "o-", color="#0b7285")
    axes.set_xscale("log")
    axes.set_ylim(0)
    axes.set_xlabel("verifiers in the pool")
    axes.set_ylabel("gas of the transaction")
    axes.set_title("a draw of 31 seats")
    axes.grid(alpha=0.2)
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
