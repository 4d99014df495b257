"""Draws the plot of a results file: `python -m bench.plot RESULTS.json OUT.png`, in the environment of `bench/peers.txt`."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # after the choice of the backend

INK = "#1f2933"
COLOURS = ("#0b7285", "#e8590c", "#868e96", "#ced4da", "#66a5ad", "#b2d8d8")
"""Colours of the engines in the order of a results file: ours, llama.cpp, transformers twice, our torch path twice."""


def draw(results: dict[str, Any], out: Path) -> None:
    """Draws four panels: decoding, one pass, verification against generation with its roof, and growth with the answer. Draws
    only the first two if nothing but the keys was measured."""
    pyplot.rcParams.update({"font.size": 9, "text.color": INK, "axes.spines.top": False, "axes.spines.right": False})
    models = results["models"]
    rows = 2 if any(model["growth"] for model in models.values()) else 1
    figure, axes = pyplot.subplots(rows, 2, figsize=(11, 3.75 * rows), layout="constrained", squeeze=False)
    _bars(axes[0, 0], models, "decode", "decode, tokens/s (batch 1)")
    _bars(axes[0, 1], models, "one_pass", "one pass, tokens/s: ours verifies, peers prefill")
    if rows == 2:
        _ratio(axes[1, 0], models)
        _growth(axes[1, 1], models)
    machine = results["machine"]
    threads = f"{machine['threads']} thread{'s' * (machine['threads'] > 1)}"
    counted = ", processor time" if machine.get("clock") == "processor" else ""
    figure.suptitle(f"{machine['processor']}, {threads}{counted}, {machine['date']}: the same weights and token ids")
    figure.savefig(out, dpi=120)


def _bars(axes: Any, models: dict[str, Any], key: str, title: str) -> None:
    for i, model in enumerate(models.values()):
        for j, (engine, speed) in enumerate(model["tokens_per_second"].items()):
            at = i * (len(COLOURS) + 1) + j
            axes.bar(at, speed.get(key, 0), color=COLOURS[j], label=engine if i == 0 else None)
            axes.annotate(f"{speed[key]:.0f}" if key in speed else "not run", (at, speed.get(key, 0)), ha="center", va="bottom")
    axes.margins(y=0.25)
    middle = (len(COLOURS) - 1) / 2
    axes.set_xticks([i * (len(COLOURS) + 1) + middle for i in range(len(models))], [f"{name} parameters" for name in models])
    axes.set_title(title)
    axes.legend(frameon=False, fontsize=8)


def _ratio(axes: Any, models: dict[str, Any]) -> None:
    for (name, model), colour in zip(models.items(), COLOURS, strict=False):
        rows = [row for row in model["table"] if row["batch"] == 1]
        labels = [f"{row['prompt']}+{row['answer']}" for row in rows]
        axes.plot(labels, [row["verify_over_generate"] for row in rows], "o-", color=colour, label=f"{name}, measured")
        axes.plot(labels, [row["roof_ratio"] for row in rows], "--", color=colour, alpha=0.6, label=f"{name}, roofline")
    axes.set_title("verifying is so many times faster than generating (prompt+answer)")
    axes.tick_params(axis="x", rotation=45)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)


def _growth(axes: Any, models: dict[str, Any]) -> None:
    rows = next(model["growth"] for model in models.values() if model["growth"])
    name = next(name for name, model in models.items() if model["growth"])
    for what, style in (("generate_s", "o-"), ("one_pass_s", "s--")):
        columns = [column for column in rows[0] if column.startswith(what)]
        for column, colour in zip(columns, COLOURS, strict=False):
            label = column.replace("generate_s", "generate,").replace("one_pass_s", "one pass,")
            axes.loglog([row["answer"] for row in rows], [row[column] for row in rows], style, color=colour, label=label)
    axes.set_title(f"{name}: seconds over tokens of answer")
    axes.legend(frameon=False, fontsize=8)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
