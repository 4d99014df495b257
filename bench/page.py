"""Writes the tables of `docs/evidence/speed.md` from the committed figures: `python -m bench.page`.

Each table stands between two marks in the page. The text outside the marks stays as it is.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.engines import LLAMACPP, NATIVE
from bench.inference import results_of
from bench.machine import SETS

PAGE = Path("docs/evidence/speed.md")

Results = Mapping[str, Mapping[str, Any]]
"""Figures of runs, by the instruction set of the machine. Each machine has one run."""


def main() -> None:
    """Rewrites the tables of the page."""
    PAGE.write_text(written(PAGE.read_text(), committed()))


def committed() -> Results:
    """Returns the committed figures by instruction set, the slowest set first."""
    files = {name: results_of(name) for name in reversed(SETS)}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def written(page: str, results: Results) -> str:
    """Returns the page with a new text in each part between `<!-- NAME -->` and `<!-- /NAME -->`. Raises `ValueError` if the page
    does not have a part exactly once."""
    for name, make in PARTS.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if len(marked.findall(page)) != 1:
            raise ValueError(f"{PAGE}: no part {name}")
        text = make(results)
        page = marked.sub(lambda found, text=text: f"{found[1]}\n{text}\n{found[2]}", page)  # type: ignore[misc]
    return page


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]], left: int = 0) -> str:
    heads = list(heads)
    ruler = ["---" if i < left else "---:" for i in range(len(heads))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, ruler, *map(list, rows)])


def _keys(results: Results) -> str:
    runs = [(name, run["targets"], run["models"]) for name, run in results.items()]
    heads = ["key", *(f"{name}, {model}" for name, _, models in runs for model in models), "target", "met"]
    rows = []
    for key in dict.fromkeys(key for _, _, models in runs for model in models.values() for key in model["keys"]):
        aim: Mapping[str, Any] = next((targets[key] for _, targets, _ in runs if key in targets), {})
        values = [model["keys"].get(key) for _, _, models in runs for model in models.values()]
        good = [value is not None and aim.get("at_least", value) <= value <= aim.get("at_most", value) for value in values]
        wanted = f"at least {aim['at_least']}" if "at_least" in aim else f"at most {aim['at_most']}" if aim else ""
        met = "" if not aim else "yes" if all(good) else f"{sum(good)} of {len(good)}" if any(good) else "no"
        rows.append([f"`{key}`", *("not run" if value is None else f"{value:.2f}" for value in values), wanted, met])
    return _table(heads, rows, left=1)


def _against(results: Results) -> str:
    parts = []
    models = ((name, shape, model) for name, run in results.items() for shape, model in run["models"].items())
    for name, shape, model in (each for each in models if each[2]["table"]):
        read, multiplied = (model["roof"][key] / 1e9 for key in ("bytes_per_second", "multiplications_per_second"))
        heads = ["prompt", "answer", "batch", "generate s", "verify s", "verify is faster by", "roof's ratio"]
        rows = (
            [str(row[key]) for key in ("prompt", "answer", "batch")] + [f"{row[key]:.3g}" for key in ("generate_s", "verify_s")]
            + [f"{row[key]:.1f}" for key in ("verify_over_generate", "roof_ratio")]
            + [f"{row[key]:.0%}" for key in ("generate_of_roof", "verify_of_roof")] for row in model["table"]
        )  # fmt: skip
        roof = f"{name}, {shape}; roof: {read:.1f} GB/s read, {multiplied:.0f} billion multiplications a second."
        table = _table([*heads, "generation reaches", "verification reaches"], rows)
        parts.append(f"{roof} A batch of 8 is generated one by one.\n\n{table}")
    return "\n\n".join(parts)


def _growth(results: Results) -> str:
    heads = [
        "set",
        "answer",
        "generate s, ours",
        "llama.cpp",
        "verify s, ours",
        "llama.cpp prefills",
        "generation over llama.cpp",
    ]
    timed = [f"{what} {who}" for what in ("generate_s", "one_pass_s") for who in (NATIVE, LLAMACPP)]
    rows = (
        [name, str(row["answer"]), *(f"{row[key]:.3g}" for key in timed), f"{row['generate_over_llamacpp_q8']:.2f}",
         f"{row['verify_over_generate']:.1f}"]
        for name, run in results.items() for model in run["models"].values() for row in model["growth"]
    )  # fmt: skip
    return _table([*heads, "verify is faster by"], rows, left=1)


def _batches(results: Results) -> str:
    models = {f"{name}, {shape}": model for name, run in results.items() for shape, model in run["models"].items()}
    sizes = zip(*(model["batch_gain"] for model in models.values()), strict=True)
    rows = (
        [f"{size[0]['shortest_prompt']} and {size[0]['shortest_answer']}", *(f"{each['gain']:.2f}" for each in size)]
        for size in sizes
    )
    return _table(["shortest prompt and answer, each claim one token longer", *models], rows, left=1)


PARTS: dict[str, Callable[[Results], str]] = {"keys": _keys, "against": _against, "growth": _growth, "batches": _batches}
"""Functions that make the parts of the page, by the name of their marks."""


if __name__ == "__main__":
    main()
