"""Measures the loss by rounding: the perplexity of the lighthouse model on held-out text, in floats and in our integers.

The same tokens in the same windows go through `transformers` in float32 and bfloat16 and through our 8-bit and 16-bit artifacts.
Losses are summed in float64 from the logits of each mode. `make bench-perplexity` writes `bench/results/perplexity.json`.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer
from torch import Tensor
from transformers import LlamaForCausalLM

from bench import machine
from bytewise.inference.artifact import artifact
from bytewise.inference.backend_selection import open_path
from bytewise.inference.convert.convert import convert
from bytewise.inference.determinism import fixed

MODEL = Path("models/lighthouse")
RESULTS = Path("bench/results/perplexity.json")
WINDOW = 512
"""Tokens of a window, the length on which the model was trained."""
BARS = {"w8": 0.005, "w16": 0.0005}
"""Largest loss of each mode: perplexity over that of float32, minus 1."""

say = Console(stderr=True).print
Logits = Callable[[list[int]], Tensor]
"""A function that returns the logits [T, V] of the T tokens of a window."""


@dataclass(frozen=True, slots=True)
class Score:
    """Result of one way to run the model over all windows."""

    loss: float
    """Mean negative log-likelihood of a token, in nats."""
    greedy: tuple[int, ...]
    """Token with the largest logit at each position."""


def measure(windows: int | None = None) -> dict[str, Any]:
    """Returns the perplexity of each mode over the first `windows` windows of the held-out text, and the differences. None means
    all windows."""
    rows = list(held_out())[:windows]
    modes: dict[str, Callable[[], Logits]] = {
        "float32": lambda: floats(torch.float32), "bfloat16": lambda: floats(torch.bfloat16),
        "w8": lambda: ours(8), "w16": lambda: ours(16),
    }  # fmt: skip
    scores = {}
    for name, load in modes.items():
        say(f"{name}: {len(rows)} windows of {WINDOW} tokens")
        scores[name] = score(load(), rows)
    return compare(scores, len(rows) * (WINDOW - 1))


def compare(scores: dict[str, Score], tokens: int) -> dict[str, Any]:
    """Returns the table: perplexity, its relative growth over float32, and how often the likeliest token is the same as in
    float32."""
    reference = scores["float32"]
    table = {}
    for name, found in scores.items():
        same = sum(a == b for a, b in zip(found.greedy, reference.greedy, strict=True))
        table[name] = {
            "loss": found.loss,
            "perplexity": torch.tensor(found.loss, dtype=torch.float64).exp().item(),
            "ppl_delta": torch.tensor(found.loss - reference.loss, dtype=torch.float64).expm1().item(),
            "greedy_agreement": same / len(reference.greedy),
        }
    keys = {f"ppl_delta_{name}": table[name]["ppl_delta"] for name in BARS}
    return {"tokens": tokens, "window": WINDOW, "modes": table, **keys}


def score(logits: Logits, windows: list[list[int]]) -> Score:
    """Returns the loss over all tokens but the first of each window, given the tokens before it in the window."""
    total, count, greedy = 0.0, 0, []
    for window in windows:
        found = logits(window)[:-1].to(torch.float64)
        wanted = torch.tensor(window[1:])
        total -= found.log_softmax(-1).gather(-1, wanted[:, None]).sum().item()
        count += len(wanted)
        greedy += found.argmax(-1).tolist()
    return Score(total / count, tuple(greedy))


def held_out() -> Iterator[list[int]]:
    """Yields the held-out text in windows that do not overlap. Drops the tokens at the end that fill no window."""
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    ids = tokenizer.encode((MODEL / "held-out.txt").read_text(encoding="utf-8"), add_special_tokens=False).ids
    for start in range(0, len(ids) - WINDOW + 1, WINDOW):
        yield ids[start : start + WINDOW]


def floats(dtype: torch.dtype) -> Logits:
    """Returns the logits function of the shipped weights in `transformers`."""
    model = LlamaForCausalLM.from_pretrained(MODEL, dtype=dtype).eval()

    def logits(window: list[int]) -> Tensor:
        with torch.inference_mode():
            found: Tensor = model(torch.tensor([window]), use_cache=False).logits[0]
        return found

    return logits


def ours(bits: int) -> Logits:
    """Returns the logits function of the artifact with weights of `bits` bits, in our integers. All paths give the same bytes."""
    with tempfile.TemporaryDirectory() as folder:
        convert(MODEL, Path(folder) / "artifact", bits=bits)
        loaded = artifact.load(Path(folder) / "artifact")
    threads = torch.get_num_threads()
    with fixed(threads):
        path = open_path(loaded, threads)
    say(f"w{bits}: {path.name}")

    def logits(window: list[int]) -> Tensor:
        with fixed(threads):
            rows = path.teacher_force(path.cache(1, len(window)), [window], [0], len(window))[0]
        found = [row.logits for row in rows if row.logits is not None]
        if len(found) != len(window):
            raise SystemExit(f"w{bits}: a row of logits is not finite: a measurement of it means nothing")
        return torch.stack(found)

    return logits


def show(found: dict[str, Any]) -> None:
    """Prints the table."""
    table = Table(title=f"{MODEL.name} on {found['tokens']} held-out tokens, in windows of {found['window']}")
    for heading in ("mode", "perplexity", "against float32", "bar", "same likeliest token"):
        table.add_column(heading, justify="right")
    for name, row in found["modes"].items():
        bar = f"{BARS[name]:.2%}" if name in BARS else ""
        table.add_row(name, f"{row['perplexity']:.4f}", f"{row['ppl_delta']:+.4%}", bar, f"{row['greedy_agreement']:.2%}")
    Console().print(table)


def main() -> None:
    """Measures, prints the table and writes the results. Ends with exit code 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.perplexity", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--windows", type=int, help=f"only so many windows of {WINDOW} tokens, and no results file (default: all)"
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found = measure(options.windows)
    show(found)
    if options.windows is None:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({**found, "bars": BARS, "machine": machine.describe()}, indent=2) + "\n")
    missed = [name for name, bar in BARS.items() if found[f"ppl_delta_{name}"] > bar]
    if missed:
        raise SystemExit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
